#include "magis/transform/opening.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "magis/base/error.h"
#include "transform/rebuilder.h"
#include "transform/scaled_masks.h"

namespace magis {
namespace {

constexpr int64_t kMean = 1;  // PyTorch's numbers for a loss's reduction
constexpr int64_t kSum = 2;

// Losses that divide by their number of elements.
struct Loss {
  std::string_view name;
  std::size_t reduction;  // position of that argument
  bool is_backward;       // the first argument is the gradient
};
constexpr auto kLosses = std::to_array<Loss>({
    {"aten.mse_loss", 2, false},
    {"aten.l1_loss", 2, false},
    {"aten.smooth_l1_loss", 2, false},
    {"aten.huber_loss", 2, false},
    {"aten.soft_margin_loss", 2, false},
    {"aten.kl_div", 2, false},
    {"aten.binary_cross_entropy", 3, false},
    {"aten.binary_cross_entropy_with_logits", 4, false},
    {"aten.mse_loss_backward", 3, true},
    {"aten.smooth_l1_loss_backward", 3, true},
    {"aten.huber_loss_backward", 3, true},
    {"aten.soft_margin_loss_backward", 3, true},
    {"aten.binary_cross_entropy_backward", 4, true},
});

const Loss* find_loss(const Operator& op) {
  const auto found = std::ranges::find(kLosses, op.info->name, &Loss::name);
  return found == kLosses.end() ? nullptr : &*found;
}

// The reduction that is asked for; PyTorch's default is the mean.
int64_t reduction_of(const Operator& op, std::size_t position) {
  const Arg* arg = find_argument(op, position, "reduction");
  return arg == nullptr ? kMean : integer_value(*arg).value_or(kMean);
}

bool is_nll_loss(const Operator& op) {
  return op.info->name == "aten.nll_loss_forward" || op.info->name == "aten.nll_loss2d_forward";
}
bool is_mean(const Operator& op) {
  return op.info->name == "aten.mean" || op.info->name == "aten.mean.dim";
}

// What the kernels of native_dropout multiply by; nothing where that is not known, or the kernel of
// the backward pass would round otherwise, as a CPU's does in 16 bits. CPU kernels divide in
// float64; CUDA's round 1 - p to the type of their arithmetic first.
std::optional<double> dropout_scale(const Graph& graph, const Operator& op) {
  const auto* p = std::get_if<double>(&op.args[1].value);
  if (p == nullptr || !(*p > 0 && *p < 1)) return std::nullopt;
  const double kept = 1 - *p;
  const DType dtype = graph.value(op.results[0]).type.dtype;
  if (graph.device() == "cpu" && !is_half(dtype)) return 1 / kept;
  if (graph.device() != "cuda") return std::nullopt;
  if (dtype == DType::f64) return 1 / kept;
  return static_cast<float>(1 / static_cast<double>(static_cast<float>(kept)));
}

// Which element gets which random number follows from the operand's dtype, its strides and how many
// of its elements the kernel reads at once: 16 bytes where memory is aligned to that, as what is
// drawn in its place is.
constexpr Bytes kAlignment = 16;

// Dropout that draws a mask and applies it at once.
bool is_dropout(const Graph& graph, const Operator& op) {
  if (op.info->name != "aten.native_dropout" || op.args.size() != 3 || !op.kwargs.empty()) {
    return false;
  }
  const auto* operand = std::get_if<ValueId>(&op.args[0].value);
  const bool draws = op.args[2] == Arg{true} || op.args[2] == Arg{None{}};
  if (operand == nullptr || !draws || !dropout_scale(graph, op)) return false;
  const Type& type = graph.value(*operand).type;
  return is_contiguous(type) && type.shape.size() > 1 && type.shape.back() % 8 == 0 &&
         type.offset * element_size(type.dtype) % kAlignment == 0 &&
         is_contiguous(graph.value(op.results[0]).type) &&
         is_contiguous(graph.value(op.results[1]).type);
}

// Random operators that open() draws whole, as they are, and keeps as bits.
bool is_drawn_whole(const Graph& graph, const Operator& op) {
  return is_mask(graph, op) || is_dropout(graph, op);
}

// One by one, random masks and what applies them not among them.
bool is_openable(const Graph& graph, const Operator& op) {
  if (is_drawn_whole(graph, op)) return false;
  // A mean fits into float16 where its sum does not, and a large count's reciprocal is lost there.
  if (graph.value(op.results[0]).type.dtype == DType::f16) return false;
  if (is_mean(op)) return true;
  if (is_nll_loss(op)) {  // with weights per class the divisor is a sum of weights
    return op.args.size() == 5 && op.kwargs.empty() && op.args[2] == Arg{None{}} &&
           op.args[3] == Arg{kMean};
  }
  const Loss* loss = find_loss(op);
  return loss != nullptr && reduction_of(op, loss->reduction) == kMean;
}

class Opening {
 public:
  explicit Opening(const Graph& graph) : graph_(graph), rebuilder_(graph) {
    rebuilder_.add_inputs();
    for (const ScaledMask& mask : scaled_masks(graph)) {
      scaled_draws_.insert(mask.draw);
      dissolved_.insert(mask.divide);
      for (const OpId product : mask.multiply) products_.emplace(product, mask);
    }
  }

  void copy(const Operator& op) { rebuilder_.add_operator(op); }

  void open(OpId id) {
    const Operator& op = graph_.op(id);
    if (dissolved_.contains(id)) return;
    if (const auto product = products_.find(id); product != products_.end()) {
      open_product(op, product->second);
    } else if (is_mask(graph_, op)) {
      open_mask(op, scaled_draws_.contains(id));
    } else if (is_dropout(graph_, op)) {
      open_dropout(op);
    } else if (is_nll_loss(op)) {
      open_nll_loss(op);
    } else if (is_mean(op)) {
      open_mean(op);
    } else {
      open_loss(op);
    }
  }

  std::size_t op_count() const { return rebuilder_.builder.op_count(); }

  Graph finish() {
    for (const Output& output : graph_.outputs()) rebuilder_.add_output(output);
    return std::move(rebuilder_.builder).build();
  }

 private:
  // Drawn as before, kept as bits; `scaled`: it is applied as a mask of bools.
  void open_mask(const Operator& op, bool scaled) {
    const Value& mask = graph_.value(op.results[0]);
    Operator draw = like(op, op.info->name, op.args);
    draw.kwargs = op.kwargs;
    for (auto& [keyword, arg] : draw.kwargs) {
      if (keyword == "dtype") arg = {Symbol{"bool"}};
    }
    const ValueId drawn =
        add(std::move(draw), mask.name + "_mask", contiguous_type(DType::boolean, mask.type.shape));
    keep_as_bits(op, drawn, op.results[0], scaled ? DType::boolean : mask.type.dtype);
  }

  // The factor and the mask at once.
  void open_product(const Operator& op, const ScaledMask& mask) {
    const Arg quotient{graph_.op(mask.divide).results[0]};
    const Arg& other = op.args[op.args[0] == quotient ? 1 : 0];
    const Value& result = graph_.value(op.results[0]);
    Operator apply =
        like(op, "aten.native_dropout_backward",
             {renewed(other), {rebuilder_.at(graph_.op(mask.draw).results[0])}, {mask.scale}});
    rebuilder_.replace(op.results[0], add(std::move(apply), result.name, result.type, true));
  }

  // Drawn by the same kernel on a tensor of no meaning, as what is dropped out may not be there
  // yet, or not as a whole. The kernel of the backward pass is the second half of native_dropout.
  void open_dropout(const Operator& op) {
    const Value& result = graph_.value(op.results[0]);
    const Value& mask = graph_.value(op.results[1]);
    const Type& type = graph_.value(std::get<ValueId>(op.args[0].value)).type;
    Operator allocate = like(op, "aten.empty.memory_format", {lengths(type.shape)});
    allocate.kwargs = {{"dtype", {Symbol{std::string(torch_word(type.dtype))}}}};
    if (graph_.device() != "cpu") {
      allocate.kwargs.emplace_back("device", Arg{Device{std::string(graph_.device())}});
    }
    const ValueId nothing =
        add(std::move(allocate), result.name + "_nothing", contiguous_type(type.dtype, type.shape));
    Operator draw = like(op, op.info->name, {{nothing}, op.args[1], op.args[2]});
    draw.scratch = op.scratch;
    const ValueId drawn = rebuilder_.builder.add_operator(
        std::move(draw), {free_name(result.name + "_drawn"), free_name(mask.name + "_drawn")},
        {contiguous_type(type.dtype, type.shape), mask.type})[1];
    const ValueId kept = keep_as_bits(op, drawn, op.results[1], DType::boolean);
    Operator apply = like(op, "aten.native_dropout_backward",
                          {renewed(op.args[0]), {kept}, {*dropout_scale(graph_, op)}});
    rebuilder_.replace(op.results[0], add(std::move(apply), result.name, result.type, true));
  }

  // From here on `old` is made of the bits of `drawn`.
  ValueId keep_as_bits(const Operator& op, ValueId drawn, ValueId old, DType dtype) {
    const Value& mask = graph_.value(old);
    Shape packed = mask.type.shape;
    packed.back() /= 8;
    const ValueId bits = add(like(op, "magis.pack_bits", {{drawn}}), mask.name + "_bits",
                             contiguous_type(DType::u8, packed));
    Operator unpack = like(op, "magis.unpack_bits", {{bits}});
    unpack.args.push_back({Symbol{std::string(torch_word(dtype))}});
    const ValueId unpacked =
        add(std::move(unpack), mask.name, contiguous_type(dtype, mask.type.shape), true);
    rebuilder_.replace(old, unpacked);
    return unpacked;
  }

  void open_nll_loss(const Operator& op) {
    const Value& loss = graph_.value(op.results[0]);
    const Value& total = graph_.value(op.results[1]);
    const Arg target = renewed(op.args[1]);
    const Shape& rows = graph_.value(std::get<ValueId>(op.args[1].value)).type.shape;
    const ValueId valid = add(like(op, "aten.ne.Scalar", {target, op.args[4]}),
                              loss.name + "_valid", contiguous_type(DType::boolean, rows));
    const ValueId count =
        add(like(op, "aten.sum", {{valid}}), loss.name + "_count", contiguous_type(DType::i64, {}));
    Operator cast = like(op, "aten._to_copy", {{count}});
    cast.kwargs = {{"dtype", {Symbol{std::string(torch_word(total.type.dtype))}}}};
    const ValueId weight = add(std::move(cast), total.name, total.type, true);
    rebuilder_.replace(op.results[1], weight);
    Operator sum =
        like(op, op.info->name, {renewed(op.args[0]), target, {None{}}, {kSum}, op.args[4]});
    sum.scratch = op.scratch;
    const ValueId summed = rebuilder_.builder.add_operator(
        std::move(sum), {free_name(loss.name + "_sum"), free_name(total.name + "_sum")},
        {loss.type, total.type})[0];
    const ValueId quotient =
        add(like(op, "aten.div.Tensor", {{summed}, {weight}}), loss.name, loss.type, true);
    rebuilder_.replace(op.results[0], quotient);
  }

  void open_loss(const Operator& op) {
    const Loss* loss = find_loss(op);
    MAGIS_CHECK(loss != nullptr, op.info->name << " has no opened form");
    if (loss->is_backward) return open_backward(op, *loss);
    const ValueId sum = add(with_reduction(op, loss->reduction), name(op) + "_sum",
                            graph_.value(op.results[0]).type);
    divide(op, sum, elements(op.args[0]));
  }

  void open_mean(const Operator& op) {
    const bool whole = op.info->name == "aten.mean";
    Operator sum = like(op, whole ? "aten.sum" : "aten.sum.dim_IntList", {});
    for (const Arg& arg : op.args) sum.args.push_back(renewed(arg));
    sum.kwargs = op.kwargs;
    const Type& type = graph_.value(op.results[0]).type;
    const ValueId summed = add(std::move(sum), name(op) + "_sum", type);
    divide(op, summed, elements(op.args[0]) / std::max<int64_t>(element_count(type.shape), 1));
  }

  void open_backward(const Operator& op, const Loss& loss) {
    const ValueId grad = std::get<ValueId>(renewed(op.args[0]).value);
    const ValueId share = add(like(op, "aten.div.Scalar", {{grad}, {elements(op.args[1])}}),
                              name(op) + "_share", rebuilder_.builder.value(grad).type);
    Operator backward = with_reduction(op, loss.reduction);
    backward.args[0] = {share};
    const Value& result = graph_.value(op.results[0]);
    rebuilder_.replace(op.results[0], add(std::move(backward), result.name, result.type, true));
  }

  void divide(const Operator& op, ValueId sum, int64_t count) {
    const Value& result = graph_.value(op.results[0]);
    rebuilder_.replace(op.results[0], add(like(op, "aten.div.Scalar", {{sum}, {count}}),
                                          result.name, result.type, true));
  }

  Operator with_reduction(const Operator& op, std::size_t position) {
    Operator summed = like(op, op.info->name, {});
    for (const Arg& arg : op.args) summed.args.push_back(renewed(arg));
    for (const auto& [keyword, arg] : op.kwargs) {
      if (keyword != "reduction") summed.kwargs.emplace_back(keyword, renewed(arg));
    }
    if (position < summed.args.size()) {
      summed.args[position] = {kSum};
    } else {
      summed.kwargs.emplace_back("reduction", Arg{kSum});
    }
    summed.scratch = op.scratch;
    return summed;
  }

  static Arg lengths(const Shape& shape) {
    ArgList items;
    for (const int64_t length : shape) items.push_back({length});
    return {std::move(items)};
  }

  static Operator like(const Operator& op, std::string_view info, ArgList args) {
    Operator made;
    made.info = &op_info(info);
    made.args = std::move(args);
    made.site = op.site;
    made.backward = op.backward;
    return made;
  }

  ValueId add(Operator op, const std::string& wanted, const Type& type, bool keeps_name = false) {
    return rebuilder_.builder.add_operator(std::move(op), {keeps_name ? wanted : free_name(wanted)},
                                           {type})[0];
  }

  Arg renewed(const Arg& arg) {
    if (const auto* id = std::get_if<ValueId>(&arg.value)) return {rebuilder_.at(*id)};
    return arg;
  }
  int64_t elements(const Arg& arg) const {
    return element_count(graph_.value(std::get<ValueId>(arg.value)).type.shape);
  }
  const std::string& name(const Operator& op) const { return graph_.value(op.results[0]).name; }
  std::string free_name(const std::string& wanted) const { return rebuilder_.free_name(wanted); }

  const Graph& graph_;
  Rebuilder rebuilder_;
  std::set<OpId> scaled_draws_;
  std::set<OpId> dissolved_;  // their divisions
  std::map<OpId, ScaledMask> products_;
};

}  // namespace

std::vector<OpId> openable_masks(const Graph& graph) {
  std::vector<OpId> found;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (is_drawn_whole(graph, graph.op(OpId(i)))) found.emplace_back(i);
  }
  for (const ScaledMask& mask : scaled_masks(graph)) {
    found.push_back(mask.divide);
    found.insert(found.end(), mask.multiply.begin(), mask.multiply.end());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<OpId> openable_operators(const Graph& graph) {
  std::vector<OpId> found = openable_masks(graph);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (is_openable(graph, graph.op(OpId(i)))) found.emplace_back(i);
  }
  std::ranges::sort(found);
  return found;
}

OpenedGraph open(const Graph& graph, std::span<const OpId> ops) {
  Opening opening(graph);
  OpenedGraph opened;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Operator& op = graph.op(OpId(i));
    if (std::ranges::find(ops, OpId(i)) == ops.end()) {
      opening.copy(op);
    } else {
      opening.open(OpId(i));
    }
    while (opened.origin.size() < opening.op_count()) opened.origin.push_back(OpId(i));
  }
  opened.graph = opening.finish();
  return opened;
}

}  // namespace magis
