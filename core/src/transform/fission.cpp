#include "magis/transform/fission.h"

#include <algorithm>
#include <utility>

#include "graph/loops.h"
#include "magis/base/error.h"
#include "magis/graph/axes.h"
#include "magis/graph/view_type.h"
#include "transform/grouped_sums.h"
#include "transform/part_values.h"
#include "transform/rebuilder.h"
#include "transform/region_tree.h"
#include "transform/split_operators.h"

namespace magis {
namespace {

class Fission {
 public:
  Fission(const Graph& graph, std::span<const FissionRegion> regions)
      : graph_(graph),
        tree_(graph, regions),
        values_(graph, tree_, builder_),
        operators_(graph, tree_) {}

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
        builder_.add_operator(std::move(begin), std::move(names), types);
    for (std::size_t i = 0; i < results.size(); ++i) {
      values_.set(owner(info.results[i]), info.parent, {results[i], dims[i]});
    }
    values_.enter_loop(region);
    sums_.emplace_back(most_waiting(types));
    emit_body(region);
    emit_sum(sums_.back().take());
    sums_.pop_back();
    Operator end;
    end.info = &op_info(kLoopEnd);
    end.args = {{info.name}, list(results), list(reads)};
    builder_.add_operator(std::move(end), {values_.unused(info.name + "_end")}, {kNothing});
    for (std::size_t i = 0; i < results.size(); ++i) finish_result(region, i, results[i], dims[i]);
  }

  // Of parts of sums, before they are added: little beside the sums themselves. On the paper's
  // convnets a sixteenth and a quarter do no better.
  static Bytes most_waiting(const std::vector<Type>& results) {
    constexpr Bytes kShare = 8;
    Bytes bytes = 0;
    for (const Type& type : results) bytes += type.storage;
    return bytes / kShare;
  }
  void emit_sum(std::optional<GroupedSums::Sum> sum) {
    if (sum) builder_.add_operator(std::move(sum->write), {std::move(sum->name)}, {kNothing});
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

  // What is added once goes to a sum that is complete; a sum in float32 is rounded once; what the
  // surrounding region hands on is handed on.
  void finish_result(RegionIndex region, std::size_t i, ValueId result,
                     const std::vector<std::optional<PartLength>>& dims) {
    const TensorId tensor = tree_[region].results[i];
    const RegionIndex parent = tree_[region].parent;
    const OpId op = graph_.tensor(tensor).producer;
    const DType dtype = graph_.value(owner(tensor)).type.dtype;
    if (operators_.addend(op) && operators_.summing_region(op) == region)
      result = add_addend(op, parent, result);
    Type type = builder_.value(result).type;
    if (type.dtype != dtype) {
      Operator cast;
      cast.info = &op_info("aten._to_copy");
      cast.args = {{result}};
      cast.kwargs = {{"dtype", {Symbol{std::string(torch_word(dtype))}}}};
      type.dtype = dtype;
      type.storage = minimal_storage(type);
      result = add_step(std::move(cast), graph_.value(owner(tensor)).name, std::move(type));
    }
    values_.set(owner(tensor), parent, {result, dims});
    hand_out(tensor, parent, result);
  }

  // From what a region adds up to what is read outside.
  ValueId add_step(Operator step, const std::string& name, Type type) {
    return builder_.add_operator(std::move(step), {values_.unused(name)}, {std::move(type)})[0];
  }

  // In the dtype of the sum, before that is rounded.
  ValueId add_addend(OpId op, RegionIndex here, ValueId sum) {
    const Addend& added = *operators_.addend(op);
    const ValueId source = std::get<ValueId>(graph_.op(op).args[added.argument].value);
    ValueId value =
        values_.read(source, op, operators_.signature(op).operands[added.operand], here);
    for (std::size_t d = 0; d < added.dimensions_behind; ++d) {
      Call call;
      call.info = &op_info("aten.unsqueeze");
      call.args = {{value}, {int64_t{-1}}};
      const auto type = derive_view(call, builder_.value(value).type);
      MAGIS_CHECK(std::holds_alternative<Type>(type), std::get<std::string>(type));
      value = builder_.add_view(values_.unused(graph_.value(source).name + "_unsqueezed"),
                                std::move(call), std::get<Type>(type));
    }
    Operator add;
    add.info = &op_info("aten.add.Tensor");
    add.args = {{sum}, {value}};
    if (added.scale != Arg{}) add.kwargs = {{"alpha", added.scale}};
    add.site = graph_.op(op).site;
    add.backward = graph_.op(op).backward;
    const Value& whole = graph_.value(graph_.op(op).results[0]);
    const Type& type = builder_.value(sum).type;
    return add_step(std::move(add),
                    type.dtype == whole.type.dtype ? whole.name : whole.name + "_sum", type);
  }

  std::vector<ValueId> values_read(RegionIndex region) {
    std::vector<ValueId> reads;
    for (const TensorId tensor : tree_[region].reads) {
      if (!operators_.is_read_in(region, tensor)) continue;
      const RegionIndex home = tree_.common(tree_.around(graph_.tensor(tensor).producer), region);
      reads.push_back(values_.tensor(owner(tensor), home).id);
    }
    return reads;
  }

  // Which dimensions of a tensor follow a part in the body of `region`.
  std::vector<std::optional<PartLength>> result_dims(TensorId tensor, RegionIndex region) {
    const auto [op, result] = operators_.maker(tensor);
    std::vector<std::optional<PartLength>> dims;
    const std::size_t rank = graph_.value(owner(tensor)).type.shape.size();
    for (std::size_t d = 0; d < rank; ++d) {
      dims.push_back(
          region == kOutside
              ? std::nullopt
              : values_.length_of(op, operators_.signature(op).results[result][d], region));
    }
    return dims;
  }

  Type accumulator_type(TensorId tensor, RegionIndex region,
                        const std::vector<std::optional<PartLength>>& dims) {
    const Value& value = graph_.value(owner(tensor));
    const auto [op, result] = operators_.maker(tensor);
    const Dependence dependence = operators_.dependence(op, result, region);
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
    const auto [op, result] = operators_.maker(tensor);
    std::string name = value.name;
    const bool sums = operators_.dependence(op, result, region) == Dependence::sum;
    if (sums && (is_half(value.type.dtype) || operators_.addend(op) != nullptr)) name += "_sum";
    if (tree_[region].parent != kOutside) name += "_" + tree_[region].name;
    return name;
  }

  // Puts the part of `tensor` that the body of `region` made into the region's result.
  void hand_out(TensorId tensor, RegionIndex region, ValueId part) {
    if (region == kOutside || std::ranges::count(tree_[region].results, tensor) == 0) return;
    const auto [op, result] = operators_.maker(tensor);
    const Dependence dependence = operators_.dependence(op, result, region);
    const ValueId whole = values_.tensor(owner(tensor), tree_[region].parent).id;
    Operator write;
    write.info = &op_info(combining_operator(dependence));
    write.site = graph_.op(op).site;
    write.backward = graph_.op(op).backward;
    write.args = {{whole}};
    if (dependence == Dependence::sliced) {
      const Label& label = tree_[region].labels[op];
      const std::vector<DimAxis>& dims = operators_.signature(op).results[result];
      const auto dim = std::ranges::find(dims, label.axis, &DimAxis::axis);
      write.args.push_back({static_cast<int64_t>(dim - dims.begin())});
      write.args.push_back({values_.length(dim->step * label.step, region)});
    }
    write.args.push_back({part});
    const Type& type = builder_.value(part).type;
    if (dependence == Dependence::sum && type.dtype == builder_.value(whole).type.dtype) {
      emit_sum(sums_.back().add({std::move(write), written_name(tensor)}, type));
    } else {
      builder_.add_operator(std::move(write), {written_name(tensor)}, {kNothing});
    }
  }

  std::string written_name(TensorId tensor) {
    return values_.unused(graph_.value(owner(tensor)).name + "_written");
  }

  // ---- operators

  void emit_operator(OpId id, RegionIndex region) {
    const Operator& op = graph_.op(id);
    Operator part = part_of(id, region);
    if (adds_product(part, id, region)) return add_product(std::move(part), id);
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

  // The call in the body of `region`.
  Operator part_of(OpId id, RegionIndex region) {
    Operator part = graph_.op(id);
    const Addend* added = operators_.addend(id);
    std::size_t operand = 0;
    for (std::size_t i = 0; i < part.args.size(); ++i) {
      if (added != nullptr && added->droppable && i == added->argument) {
        ++operand;
      } else {
        renew(part.args[i], id, region, operand);
      }
    }
    for (auto& [keyword, arg] : part.kwargs) renew(arg, id, region, operand);
    if (region != kOutside) rescale_arguments(part, id, region);
    if (added == nullptr) return part;
    if (added->droppable) return without(*added, std::move(part));
    put_zeros(part.args[added->argument], id);
    return part;
  }

  void put_zeros(Arg& arg, OpId op) {
    const ValueId like = std::get<ValueId>(arg.value);
    const Value& value = builder_.value(like);
    Operator zeros;
    zeros.info = &op_info("aten.zeros_like");
    zeros.args = {{like}};
    zeros.site = graph_.op(op).site;
    zeros.backward = graph_.op(op).backward;
    Type type = PartValues::preserved(value.type);
    const std::string name = values_.unused(value.name + "_zeros");
    arg = {builder_.add_operator(std::move(zeros), {name}, {std::move(type)})[0]};
  }

  void renew(Arg& arg, OpId op, RegionIndex region, std::size_t& operand) {
    if (auto* id = std::get_if<ValueId>(&arg.value)) {
      const std::size_t row = operand++;
      if (region == kOutside) {
        *id = values_.read_outside(*id);
        return;
      }
      const AxisSignature& axes = operators_.signature(op);
      *id = axes.contiguous.at(row)
                ? values_.read_contiguous(*id, op, axes.operands.at(row), region)
                : values_.read(*id, op, axes.operands.at(row), region);
    } else if (auto* items = std::get_if<ArgList>(&arg.value)) {
      for (Arg& item : *items) renew(item, op, region, operand);
    }
  }

  void rescale_arguments(Operator& part, OpId op, RegionIndex region) {
    for (const LengthArgument& argument : operators_.signature(op).lengths) {
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
  bool adds_product(const Operator& part, OpId id, RegionIndex region) {
    if (region == kOutside || (part.info->name != "aten.mm" && part.info->name != "aten.bmm")) {
      return false;
    }
    const Value& value = graph_.value(graph_.op(id).results[0]);
    if (std::ranges::count(tree_[region].results, value.tensor) == 0) return false;
    if (operators_.dependence(id, 0, region) != Dependence::sum || is_half(value.type.dtype))
      return false;
    return std::ranges::none_of(graph_.uses(value.tensor), [&](EdgeId use) {
      return tree_.contains(region, graph_.edge_op(use));
    });
  }

  void add_product(Operator part, OpId id) {
    const TensorId tensor = graph_.value(graph_.op(id).results[0]).tensor;
    const RegionIndex outside = tree_[tree_.around(id)].parent;
    part.info = &op_info(part.info->name == "aten.mm" ? "magis.add_mm_part" : "magis.add_bmm_part");
    part.args.insert(part.args.begin(), {values_.tensor(owner(tensor), outside).id});
    builder_.add_operator(std::move(part), {written_name(tensor)}, {kNothing});
  }

  // ---- small things

  ValueId owner(TensorId tensor) const { return graph_.tensor(tensor).value; }
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
  SplitOperators operators_;
  std::vector<GroupedSums> sums_;  // of the loops around, the innermost last
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
