#include "transform/addend.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "magis/base/error.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

// What is left of an operator that adds its first operand: the rest of its arguments, alpha and
// beta apart.
struct Product {
  std::string_view adding, alone;
};
constexpr auto kProducts = std::to_array<Product>({
    {"aten.addmm", "aten.mm"},
    {"aten.addmm.dtype", "aten.mm.dtype"},
    {"aten.baddbmm", "aten.bmm"},
    {"aten.baddbmm.dtype", "aten.bmm.dtype"},
    {"aten.addmv", "aten.mv"},
});
// Operators whose operand is optional.
constexpr auto kBiased = std::to_array<std::string_view>({"aten.convolution", "aten.linear"});

const Arg* keyword(const Operator& op, std::string_view name) {
  const auto found = std::ranges::find(op.kwargs, name, &KeywordArgs::value_type::first);
  return found == op.kwargs.end() ? nullptr : &found->second;
}

bool is_number(const Arg* arg, int64_t number) {
  if (const auto* real = std::get_if<double>(&arg->value)) {
    return *real == static_cast<double>(number);
  }
  return *arg == Arg{number};
}

const Product* find_product(const Operator& op) {
  const auto found = std::ranges::find(kProducts, op.info->name, &Product::adding);
  return found == kProducts.end() ? nullptr : &*found;
}

bool can_do_without(const Operator& op) {
  const Arg* alpha = keyword(op, "alpha");
  return std::ranges::count(kBiased, op.info->name) != 0 ||
         (find_product(op) != nullptr && (alpha == nullptr || is_number(alpha, 1)));
}

// An operand's dimensions are the result's last ones, but for a bias per channel.
std::size_t dimensions_behind(const std::vector<DimAxis>& operand,
                              const std::vector<DimAxis>& result) {
  if (operand.size() != 1 || operand[0].axis < 0) return 0;
  const auto at = std::ranges::find(result, operand[0].axis, &DimAxis::axis);
  return at == result.end() ? 0 : static_cast<std::size_t>(result.end() - at) - 1;
}

}  // namespace

std::optional<Addend> find_addend(const Graph& graph, OpId id, const AxisSignature& signature) {
  const auto flag = std::ranges::find(signature.added_once, true);
  if (flag == signature.added_once.end()) return std::nullopt;
  const Operator& op = graph.op(id);
  Addend addend;
  addend.operand = static_cast<std::size_t>(flag - signature.added_once.begin());
  std::size_t before = 0;  // operands in the arguments before it
  for (; addend.argument < op.args.size(); ++addend.argument) {
    const Arg& arg = op.args[addend.argument];
    if (before == addend.operand && std::holds_alternative<ValueId>(arg.value)) break;
    for_each_value(arg, [&](ValueId) { ++before; });
  }
  MAGIS_CHECK(addend.argument < op.args.size(), op.info->name << ": what it adds is no argument");
  if (const Arg* beta = keyword(op, "beta")) {
    if (is_number(beta, 0)) return std::nullopt;
    if (!is_number(beta, 1)) addend.scale = *beta;
  }
  addend.droppable = can_do_without(op);
  addend.dimensions_behind =
      dimensions_behind(signature.operands[addend.operand], signature.results.front());
  return addend;
}

Operator without(const Addend& addend, Operator op) {
  if (const Product* product = find_product(op)) {
    op.info = &op_info(product->alone);
    op.args.erase(op.args.begin());
    std::erase_if(op.kwargs, [](const auto& entry) {
      return entry.first == "alpha" || entry.first == "beta";
    });
  } else {
    op.args.at(addend.argument) = {None{}};
  }
  return op;
}

}  // namespace magis
