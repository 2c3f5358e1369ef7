// A plan's program: flat statements. The printer, the simulator and the code generator read it
// alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"
#include "magis/schedule/decisions.h"

namespace magis {

struct CopyRef {
  TensorId tensor;
  int copy = 0;  // 0: the original
  bool operator==(const CopyRef&) const = default;
};

struct Statement {
  enum class Kind : uint8_t { run, free };
  Kind kind = Kind::run;

  // run
  OpId op;
  int copy = 0;                     // which copy of its results it makes
  std::vector<int> operand_copies;  // one per edge of `op`, in edge order
  int over =
      -1;  // edge position within reads(op) whose storage the first result takes over; -1: none
  int over_argument = -1;  // position in args of that operand

  // free
  std::vector<CopyRef> freed;

  bool operator==(const Statement&) const = default;
};

struct Program {
  std::vector<Statement> statements;
  bool operator==(const Program&) const = default;
};

// Requires decisions.order to respect Graph::predecessors. Copies are made right before the use
// that asks for them, in dependency order. Every tensor that is not an input or an output is freed
// right after its last use. An operator runs over an operand exactly if Graph::in_place_choices
// allows it, the operand is neither input nor output, and it dies there. Returns nothing if the
// modes ask to recompute what cannot be recomputed.
std::optional<Program> lower(const Graph& graph, const Decisions& decisions);

// Plan text: graph text, then "program" and the statements. Throws UserError with file:line:column
// and a caret.
struct PlanText {
  Graph graph;
  Program program;
};
PlanText parse_plan(std::string_view text, std::string_view file_name);
// Whether text that may be either is a plan: some line begins with the word `program`.
bool is_plan(std::string_view text);
std::string to_text(const Graph& graph, const Program& program);

// Throws UserError naming the statement if the program is not a valid execution of the graph:
// something is read before it is made or after it is freed, an operator does not run, an in-place
// run overwrites what is read later, an output is freed.
void verify(const Graph& graph, const Program& program);

}  // namespace magis
