#include "magis/transform/fission.h"

#include <algorithm>
#include <utility>

#include "graph/loops.h"
#include "magis/base/error.h"
#include "magis/graph/axes.h"
#include "transform/part_values.h"
#include "transform/rebuilder.h"
#include "transform/region_tree.h"

namespace magis {
namespace {

// How the parts of a result are put together.
std::string_view combining_operator(Dependence dependence) {
  switch (dependence) {
    case Dependence::sliced:
      return "magis.write_part";
    case Dependence::sum:
      return "magis.add_part";
    case Dependence::maximum:
      return "magis.max_part";
    case Dependence::minimum:
      return "magis.min_part";
    case Dependence::product:
      return "magis.mul_part";
    case Dependence::any:
      return "magis.any_part";
    case Dependence::all:
      return "magis.all_part";
    case Dependence::once:
      return "magis.keep_part";
  }
  return "";
}

class Fission {
 public:
  Fission(const Graph& graph, std::span<const FissionRegion> regions)
      : graph_(graph),
        tree_(graph, regions),
        values_(graph, tree_, builder_),
        signatures_(graph.op_count()) {}

  Graph run() {
    copy_header(graph_, builder_);
    copy_inputs();
    emit_body(kOutside);
    for (const Output& output : graph_.outputs()) {
      builder_.add_output(output.kind, output.path, values_.read_outside(output.value));
    }
    return std::move(builder_).build();
  }

 private:
  void copy_inputs() {
    for (const Input& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      const ValueId id = builder_.add_input(input.kind, value.name, input.path, value.type);
      values_.set(input.value, kOutside,
                  {id, std::vector<std::optional<PartLength>>(value.type.shape.size())});
    }
  }

  void emit_body(RegionIndex region) {
    for (const RegionTree::Step& step : tree_.body(region)) {
      if (step.region == kOutside) {
        emit_operator(step.op, region);
      } else {
        emit_region(step.region);
      }
    }
  }

  // ---- regions

  void emit_region(RegionIndex region) {
    const RegionTree::Region& info = tree_[region];
    const std::vector<ValueId> reads = values_read(region);
    Operator begin;
    begin.info = &op_info(kLoopBegin);
    const Arg length =
        info.splits != kOutside ? Arg{values_.length(info.ratio, info.splits)} : Arg{info.length};
    begin.args = {{info.name}, {info.part}, length, list(reads)};
    std::vector<std::string> names;
    std::vector<Type> types;
    std::vector<std::vector<std::optional<PartLength>>> dims;
    ArgList shapes;
    for (const TensorId tensor : info.results) {
      dims.push_back(result_dims(tensor, info.parent));
      types.push_back(accumulator_type(tensor, region, dims.back()));
      names.push_back(values_.unused(result_name(tensor, region)));
      shapes.push_back(shape_text(types.back().shape, dims.back()));
    }
    if (std::ranges::any_of(dims, follows_part)) begin.args.push_back({std::move(shapes)});
    const std::vector<ValueId> results =
        builder_.add_operator(std::move(begin), std::move(names), std::move(types));
    for (std::size_t i = 0; i < results.size(); ++i) {
      values_.set(owner(info.results[i]), info.parent, {results[i], dims[i]});
    }
    values_.enter_loop(region);
    emit_body(region);
    Operator end;
    end.info = &op_info(kLoopEnd);
    end.args = {{info.name}, list(results), list(reads)};
    builder_.add_operator(std::move(end), {values_.unused(info.name + "_end")}, {kNothing});
    for (std::size_t i = 0; i < results.size(); ++i) finish_result(region, i, results[i], dims[i]);
  }

  static bool follows_part(const std::vector<std::optional<PartLength>>& dims) {
    return std::ranges::any_of(dims, [](const auto& dim) { return dim.has_value(); });
  }
  static Arg shape_text(const Shape& shape, const std::vector<std::optional<PartLength>>& dims) {
    ArgList lengths;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      lengths.push_back(dims[d] ? Arg{*dims[d]} : Arg{shape[d]});
    }
    return {std::move(lengths)};
  }

  // A sum in float32 is rounded once; what the surrounding region hands on is handed on.
  void finish_result(RegionIndex region, std::size_t i, ValueId result,
                     const std::vector<std::optional<PartLength>>& dims) {
    const TensorId tensor = tree_[region].results[i];
    const DType dtype = graph_.value(owner(tensor)).type.dtype;
    if (builder_.value(result).type.dtype != dtype) {
      Operator cast;
      cast.info = &op_info("aten._to_copy");
      cast.args = {{result}};
      cast.kwargs = {{"dtype", {Symbol{std::string(torch_word(dtype))}}}};
      Type type = builder_.value(result).type;
      type.dtype = dtype;
      type.storage = minimal_storage(type);
      result =
          builder_.add_operator(std::move(cast), {values_.unused(graph_.value(owner(tensor)).name)},
                                {std::move(type)})[0];
      values_.set(owner(tensor), tree_[region].parent, {result, dims});
    }
    hand_out(tensor, tree_[region].parent, result);
  }

  std::vector<ValueId> values_read(RegionIndex region) const {
    std::vector<ValueId> reads;
    for (const TensorId tensor : tree_[region].reads) {
      const RegionIndex home = tree_.common(tree_.around(graph_.tensor(tensor).producer), region);
      reads.push_back(values_.tensor(owner(tensor), home).id);
    }
    return reads;
  }

  // Which dimensions of a tensor follow a part in the body of `region`.
  std::vector<std::optional<PartLength>> result_dims(TensorId tensor, RegionIndex region) {
    const auto [op, result] = maker(tensor);
    std::vector<std::optional<PartLength>> dims;
    const std::size_t rank = graph_.value(owner(tensor)).type.shape.size();
    for (std::size_t d = 0; d < rank; ++d) {
      dims.push_back(region == kOutside
                         ? std::nullopt
                         : values_.length_of(op, signature(op).results[result][d], region));
    }
    return dims;
  }

  Type accumulator_type(TensorId tensor, RegionIndex region,
                        const std::vector<std::optional<PartLength>>& dims) {
    const Value& value = graph_.value(owner(tensor));
    const auto [op, result] = maker(tensor);
    const Dependence dependence = dependence_on(op, result, region);
    if (dependence != Dependence::sliced && dependence != Dependence::once) refuse_added_once(op);
    Type type = PartValues::dense_type(value.type, PartValues::part_shape(value.type.shape, dims),
                                       value.name);
    if (dependence == Dependence::sum && is_half(type.dtype)) {
      type.dtype = DType::f32;
      type.storage = minimal_storage(type);
    }
    return type;
  }

  std::string result_name(TensorId tensor, RegionIndex region) {
    const Value& value = graph_.value(owner(tensor));
    const auto [op, result] = maker(tensor);
    std::string name = value.name;
    if (is_half(value.type.dtype) && dependence_on(op, result, region) == Dependence::sum) {
      name += "_sum";
    }
    if (tree_[region].parent != kOutside) name += "_" + tree_[region].name;
    return name;
  }

  // Puts the part of `tensor` that the body of `region` made into the region's result.
  void hand_out(TensorId tensor, RegionIndex region, ValueId part) {
    if (region == kOutside || std::ranges::count(tree_[region].results, tensor) == 0) return;
    const auto [op, result] = maker(tensor);
    const Dependence dependence = dependence_on(op, result, region);
    const ValueId whole = values_.tensor(owner(tensor), tree_[region].parent).id;
    Operator write;
    write.info = &op_info(combining_operator(dependence));
    write.site = graph_.op(op).site;
    write.backward = graph_.op(op).backward;
    write.args = {{whole}};
    if (dependence == Dependence::sliced) {
      const Label& label = tree_[region].labels[op];
      const std::vector<DimAxis>& dims = signature(op).results[result];
      const auto dim = std::ranges::find(dims, label.axis, &DimAxis::axis);
      write.args.push_back({static_cast<int64_t>(dim - dims.begin())});
      write.args.push_back({values_.length(dim->step * label.step, region)});
    }
    write.args.push_back({part});
    add_write(std::move(write), tensor);
  }

  void add_write(Operator write, TensorId tensor) {
    const std::string name = graph_.value(owner(tensor)).name + "_written";
    builder_.add_operator(std::move(write), {values_.unused(name)}, {kNothing});
  }

  // ---- operators

  void emit_operator(OpId id, RegionIndex region) {
    const Operator& op = graph_.op(id);
    Operator part = op;
    std::size_t operand = 0;
    for (Arg& arg : part.args) renew(arg, id, region, operand);
    for (auto& [keyword, arg] : part.kwargs) renew(arg, id, region, operand);
    if (region != kOutside) rescale_arguments(part, id, region);
    if (adds_product(id, region)) return add_product(part, id, region);
    std::vector<std::string> names;
    std::vector<Type> types;
    std::vector<std::vector<std::optional<PartLength>>> dims(op.results.size());
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const Value& value = graph_.value(op.results[r]);
      const bool handed_out = value.tensor.valid() && region != kOutside &&
                              std::ranges::count(tree_[region].results, value.tensor) != 0;
      names.push_back(values_.unused(handed_out ? value.name + "_part" : value.name));
      types.push_back(value.type);
      if (!value.tensor.valid()) continue;
      dims[r] = result_dims(value.tensor, region);
      if (region == kOutside) continue;
      types.back() = PartValues::dense_type(
          value.type, PartValues::part_shape(value.type.shape, dims[r]), value.name);
    }
    const std::vector<ValueId> results =
        builder_.add_operator(std::move(part), std::move(names), std::move(types));
    for (std::size_t r = 0; r < results.size(); ++r) {
      values_.set(op.results[r], region, {results[r], dims[r]});
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      const TensorId tensor = graph_.value(op.results[r]).tensor;
      if (tensor.valid()) hand_out(tensor, region, results[r]);
    }
  }

  void renew(Arg& arg, OpId op, RegionIndex region, std::size_t& operand) {
    if (auto* id = std::get_if<ValueId>(&arg.value)) {
      static const std::vector<DimAxis> kWhole;
      const auto& dims = region == kOutside ? kWhole : signature(op).operands.at(operand);
      ++operand;
      *id = values_.read(*id, op, dims, region);
    } else if (auto* items = std::get_if<ArgList>(&arg.value)) {
      for (Arg& item : *items) renew(item, op, region, operand);
    }
  }

  void rescale_arguments(Operator& part, OpId op, RegionIndex region) {
    for (const LengthArgument& argument : signature(op).lengths) {
      const auto length = values_.length_of(op, {argument.axis, argument.step}, region);
      if (!length) continue;
      Arg* arg = argument.position >= 0 ? &part.args.at(static_cast<std::size_t>(argument.position))
                                        : nullptr;
      for (auto& [keyword, value] : part.kwargs) {
        if (arg == nullptr && keyword == argument.keyword) arg = &value;
      }
      MAGIS_CHECK(arg != nullptr, part.info->name << " has no argument " << argument.keyword);
      if (argument.item >= 0) {
        arg = &std::get<ArgList>(arg->value).at(static_cast<std::size_t>(argument.item));
      }
      *arg = {*length};
    }
    // A measured workspace belongs to the whole call: a part is taken to need its share of it.
    for (RegionIndex r = region; r != kOutside; r = tree_[r].parent) {
      part.scratch = (part.scratch * tree_[r].part + tree_[r].length - 1) / tree_[r].length;
    }
  }

  // The product goes into the sum without a temporary: nobody in the body reads it.
  bool adds_product(OpId id, RegionIndex region) {
    const Operator& op = graph_.op(id);
    if (region == kOutside || (op.info->name != "aten.mm" && op.info->name != "aten.bmm")) {
      return false;
    }
    const Value& value = graph_.value(op.results[0]);
    if (std::ranges::count(tree_[region].results, value.tensor) == 0) return false;
    if (dependence_on(id, 0, region) != Dependence::sum || is_half(value.type.dtype)) return false;
    return std::ranges::none_of(graph_.uses(value.tensor), [&](EdgeId use) {
      return tree_.contains(region, graph_.edge_op(use));
    });
  }

  void add_product(const Operator& part, OpId id, RegionIndex region) {
    const TensorId tensor = graph_.value(graph_.op(id).results[0]).tensor;
    Operator add = part;
    add.info = &op_info(part.info->name == "aten.mm" ? "magis.add_mm_part" : "magis.add_bmm_part");
    add.args.insert(add.args.begin(), {values_.tensor(owner(tensor), tree_[region].parent).id});
    add_write(std::move(add), tensor);
  }

  void refuse_added_once(OpId id) {
    const AxisSignature& info = signature(id);
    if (std::ranges::count(info.added_once, true) == 0) return;
    throw NoFission{"%" + graph_.value(graph_.op(id).results[0]).name + " = " +
                    graph_.op(id).info->name + " would add an operand once for every part"};
  }

  // ---- small things

  const AxisSignature& signature(OpId op) {
    std::optional<AxisSignature>& known = signatures_[op];
    if (!known) known = axis_signature(graph_, op);
    if (!known) {
      throw NoFission{"%" + graph_.value(graph_.op(op).results[0]).name + " = " +
                      graph_.op(op).info->name + " has no axes to split"};
    }
    return *known;
  }
  Dependence dependence_on(OpId op, std::size_t result, RegionIndex region) {
    const int axis = tree_[region].labels[op].axis;
    return signature(op).dependence.at(result).at(static_cast<std::size_t>(axis));
  }
  ValueId owner(TensorId tensor) const { return graph_.tensor(tensor).value; }
  // The operator that makes a tensor, and which of its results it is.
  std::pair<OpId, std::size_t> maker(TensorId tensor) const {
    const OpId op = graph_.tensor(tensor).producer;
    const auto& results = graph_.op(op).results;
    return {op,
            static_cast<std::size_t>(std::ranges::find(results, owner(tensor)) - results.begin())};
  }
  static Arg list(const std::vector<ValueId>& values) {
    ArgList items;
    for (const ValueId value : values) items.push_back({value});
    return {std::move(items)};
  }

  inline static const Type kNothing{.defined = false};

  const Graph& graph_;
  const RegionTree tree_;
  GraphBuilder builder_;
  PartValues values_;
  IdMap<OpId, std::optional<AxisSignature>> signatures_;
};

}  // namespace

std::variant<Graph, std::string> fission(const Graph& graph,
                                         std::span<const FissionRegion> regions) {
  try {
    Graph split = Fission(graph, regions).run();
    const std::optional<std::string> violation = loop_violation(split);
    MAGIS_CHECK(!violation, *violation);
    return split;
  } catch (const NoFission& no) {
    return no.reason;
  }
}

}  // namespace magis
