#include "transform/scaled_masks.h"

#include <algorithm>
#include <optional>

namespace magis {
namespace {

// The operators that read a value as it is; nothing if something else reads its storage.
std::optional<std::vector<OpId>> readers(const Graph& graph, ValueId id) {
  const TensorId tensor = graph.value(id).tensor;
  if (graph.tensor(tensor).is_output) return std::nullopt;
  std::vector<OpId> found;
  for (const EdgeId edge : graph.uses(tensor)) {
    const OpId reader = graph.edge_op(edge);
    const ArgList& args = graph.op(reader).args;
    if (std::ranges::count(args, Arg{id}) != 1) return std::nullopt;
    found.push_back(reader);
  }
  return found;
}

// A product of a tensor and `factor`, both like the result.
bool multiplies(const Graph& graph, const Operator& op, ValueId factor) {
  if (op.info->name != "aten.mul.Tensor" || op.args.size() != 2 || !op.kwargs.empty()) return false;
  const Type& result = graph.value(op.results[0]).type;
  return std::ranges::all_of(op.args, [&](const Arg& arg) {
    const auto* id = std::get_if<ValueId>(&arg.value);
    if (id == nullptr) return false;
    const Type& type = graph.value(*id).type;
    const bool alike = type.dtype == result.dtype && type.shape == result.shape;
    return alike && is_contiguous(type) && (*id == factor || graph.value(*id).tensor.valid());
  });
}

std::optional<ScaledMask> scaled_mask(const Graph& graph, OpId draw) {
  const Operator& op = graph.op(draw);
  if (!is_mask(graph, op) || graph.value(op.results[0]).type.dtype != DType::f32) {
    return std::nullopt;
  }
  const auto divisions = readers(graph, op.results[0]);
  if (!divisions || divisions->size() != 1) return std::nullopt;
  const Operator& divide = graph.op(divisions->front());
  if (divide.info->name != "aten.div.Scalar" || !divide.kwargs.empty()) return std::nullopt;
  const auto* kept = std::get_if<double>(&divide.args[1].value);
  if (kept == nullptr || !(*kept > 0)) return std::nullopt;
  auto products = readers(graph, divide.results[0]);
  if (!products || products->empty()) return std::nullopt;
  for (const OpId product : *products) {
    if (!multiplies(graph, graph.op(product), divide.results[0])) return std::nullopt;
  }
  const float scale = 1.0F / static_cast<float>(*kept);
  return ScaledMask{draw, divisions->front(), *std::move(products), scale};
}

}  // namespace

bool is_mask(const Graph& graph, const Operator& op) {
  if (op.info->name != "magis.bernoulli" || op.args.size() != 3) return false;
  const Type& type = graph.value(op.results[0]).type;
  return is_contiguous(type) && type.shape.size() > 1 && type.shape.back() % 8 == 0 &&
         type.dtype != DType::boolean;
}

std::vector<ScaledMask> scaled_masks(const Graph& graph) {
  std::vector<ScaledMask> found;
  if (graph.device() != "cuda") return found;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (auto mask = scaled_mask(graph, OpId(i))) found.push_back(*std::move(mask));
  }
  return found;
}

}  // namespace magis
