#include "codegen/python_loops.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "codegen/python_literals.h"
#include "magis/base/error.h"

namespace magis {
namespace {

std::string tuple_text(const std::vector<int64_t>& items) {
  std::vector<std::string> parts;
  for (const int64_t item : items) parts.push_back(std::to_string(item));
  return "(" + comma_separated(parts) + (items.size() == 1 ? ",)" : ")");
}

std::string dtype_word(DType dtype) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
       "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn",
       "float8_e5m2"});
  return "torch." + std::string(kWords[static_cast<std::size_t>(dtype)]);
}

// Memory for a result, its contents undefined.
std::string allocation(const Graph& graph, const Type& type) {
  const std::string rest =
      ", dtype=" + dtype_word(type.dtype) + ", device=" + python_string(graph.device()) + ")";
  if (is_contiguous(type)) return "torch.empty(" + tuple_text(type.shape) + rest;
  return "torch.empty_strided(" + tuple_text(type.shape) + ", " + tuple_text(type.strides) + rest;
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
  for (const ValueId result : graph.op(run.op).results) {
    const Value& value = graph.value(result);
    head.lines.push_back(names.of({value.tensor, run.copy}) + " = " +
                         allocation(graph, value.type));
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
