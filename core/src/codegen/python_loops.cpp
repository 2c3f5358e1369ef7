#include "codegen/python_loops.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>

#include "codegen/python_literals.h"
#include "magis/base/error.h"

namespace magis {
namespace {

std::string tuple_text(const std::vector<std::string>& items) {
  return "(" + comma_separated(items) + (items.size() == 1 ? ",)" : ")");
}

// Memory for a result whose dimensions have `lengths`, its contents undefined: contiguous in the
// order of the strides, then seen in the order of the dimensions.
std::string allocation(const Graph& graph, const Type& type,
                       const std::vector<std::string>& lengths) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!is_contiguous(type)) {
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t d) { return type.strides[d]; });
  }
  std::vector<std::string> outer_first;
  std::vector<std::string> places(lengths.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    outer_first.push_back(lengths[order[place]]);
    places[order[place]] = std::to_string(place);
  }
  const std::string text = "torch.empty(" + tuple_text(outer_first) + ", dtype=torch." +
                           std::string(torch_word(type.dtype)) +
                           ", device=" + python_string(graph.device()) + ")";
  const bool in_order = std::ranges::is_sorted(order);
  return in_order ? text : text + ".permute(" + comma_separated(places) + ")";
}

// How the parts of a result are put together: the method that adds one to the others, called on the
// result. The first part is copied.
struct Combination {
  std::string_view operator_name;
  std::string_view before;  // of the part
  std::string_view after;
};
constexpr auto kCombinations = std::to_array<Combination>({
    {"magis.add_part", "{}.add_(", ")"},
    {"magis.mul_part", "{}.mul_(", ")"},
    {"magis.any_part", "{}.logical_or_(", ")"},
    {"magis.all_part", "{}.logical_and_(", ")"},
    {"magis.max_part", "torch.maximum({}, ", ", out={})"},
    {"magis.min_part", "torch.minimum({}, ", ", out={})"},
});

std::string with_result(std::string_view pattern, const std::string& result) {
  std::string text(pattern);
  if (const std::size_t place = text.find("{}"); place != text.npos) {
    text.replace(place, 2, result);
  }
  return text;
}

}  // namespace

LoopHead loop_head(const Graph& graph, const PythonNames& names, const Statement& run) {
  const Loop& loop = graph.loop(graph.bounded_loop(run.op));
  const LoopId id = graph.bounded_loop(run.op);
  const PythonExpressions expressions(graph, names, &run);
  LoopHead head;
  const Operator& begin = graph.op(run.op);
  for (std::size_t r = 0; r < begin.results.size(); ++r) {
    const Value& value = graph.value(begin.results[r]);
    std::vector<std::string> lengths;
    for (std::size_t d = 0; d < value.type.shape.size(); ++d) {
      lengths.push_back(begin.args.size() == 5 ? expressions.length_in(begin.args[4], r, d)
                                               : std::to_string(value.type.shape[d]));
    }
    head.lines.push_back(names.of({value.tensor, run.copy}) + " = " +
                         allocation(graph, value.type, lengths));
  }
  const std::string length = expressions.part_length(loop.length);
  const std::string part = std::to_string(loop.part);
  const std::string& start = names.of_loop(id);
  head.lines.push_back("for " + start + " in range(0, " + length + ", " + part + "):");
  head.body_line = head.lines.size();
  if (!loop.is_even()) {
    head.lines.push_back(names.of_part_length(id) + " = min(" + part + ", " + length + " - " +
                         start + ")");
  }
  return head;
}

std::vector<std::string> result_lines(const Graph& graph, const PythonNames& names,
                                      const Statement& run) {
  const Operator& op = graph.op(run.op);
  const std::string& name = op.info->name;
  if (!is_own_operator(name) || op.info->purity != Purity::mutating) return {};
  const PythonExpressions expressions(graph, names, &run);
  const auto argument = [&](std::size_t position) { return expressions.argument_at(position); };
  const std::string result = argument(0);
  const std::string first = names.of_loop(graph.loop_of(run.op)) + " == 0";
  if (name == "magis.write_part") {
    const auto& length = std::get<PartLength>(op.args.at(2).value);
    return {result + ".narrow(" + argument(1) + ", " + expressions.part_start(length) + ", " +
            expressions.part_length(length) + ").copy_(" + argument(3) + ")"};
  }
  if (name == "magis.add_mm_part" || name == "magis.add_bmm_part") {
    const char* method = name == "magis.add_mm_part" ? ".addmm_(" : ".baddbmm_(";
    return {result + method + argument(1) + ", " + argument(2) + ", beta=0 if " + first +
            " else 1)"};
  }
  if (name == "magis.add_parts") {
    const std::string operands = "(" + result + ", " + argument(1) + ")";
    return {"if " + first + ":", "    torch._foreach_copy_" + operands,
            "else:", "    torch._foreach_add_" + operands};
  }
  const std::vector<std::string> copy = {"if " + first + ":",
                                         "    " + result + ".copy_(" + argument(1) + ")"};
  if (name == "magis.keep_part") return copy;
  const auto found = std::ranges::find(kCombinations, name, &Combination::operator_name);
  MAGIS_CHECK(found != kCombinations.end(), name << " has no Python");
  return {copy[0], copy[1], "else:",
          "    " + with_result(found->before, result) + argument(1) +
              with_result(found->after, result)};
}

}  // namespace magis
