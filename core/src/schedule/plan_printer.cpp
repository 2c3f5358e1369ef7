#include <string>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "schedule/plan_names.h"

namespace magis {
namespace {

std::string with_copy(const std::string& name, int copy) {
  return copy == 0 ? name : name + "." + std::to_string(copy);
}

std::string run_text(const Graph& graph, const Statement& run) {
  std::string text = "run %" + graph.name(run.op);
  if (run.copy != 0) text += " as ." + std::to_string(run.copy);
  const auto reads = graph.reads(run.op);
  const std::size_t operands = std::min(reads.size(), run.operand_copies.size());
  const char* separator = " reading %";
  for (std::size_t i = 0; i < operands; ++i) {
    if (run.operand_copies[i] == 0) continue;
    text += separator + copy_name(graph, {reads[i], run.operand_copies[i]});
    separator = ", %";
  }
  const auto over = static_cast<std::size_t>(run.over);
  if (run.over >= 0 && over < operands) {
    text += " over %" + copy_name(graph, {reads[over], run.operand_copies[over]});
  }
  return text;
}

// "free %a, %b.1"
std::string copies_text(std::string_view word, const Graph& graph, const Statement& statement) {
  std::string text(word);
  const char* separator = " %";
  for (const CopyRef& copy : statement.copies) {
    text += separator + copy_name(graph, copy);
    separator = ", %";
  }
  return text;
}

std::string load_text(const Graph& graph, const Statement& statement) {
  std::string text = "load";
  for (const CopyRef& copy : statement.copies) {
    text += " %" + copy_name(graph, {copy.tensor, 0}) + " as ." + std::to_string(copy.copy);
  }
  return text;
}

}  // namespace

std::string copy_name(const Graph& graph, CopyRef copy) {
  return with_copy(graph.value(graph.tensor(copy.tensor).value).name, copy.copy);
}

std::string to_text(const Graph& graph, const Statement& statement) {
  switch (statement.kind) {
    case Statement::Kind::run:
      return run_text(graph, statement);
    case Statement::Kind::free:
      return copies_text("free", graph, statement);
    case Statement::Kind::store:
      return copies_text("store", graph, statement);
    case Statement::Kind::load:
      return load_text(graph, statement);
    case Statement::Kind::await:
      return copies_text("await", graph, statement);
  }
  return {};
}

std::string to_text(const Graph& graph, const Program& program) {
  std::string text = to_text(graph) + "\nprogram\n";
  for (const Statement& statement : program.statements) text += to_text(graph, statement) + "\n";
  return text;
}

}  // namespace magis
