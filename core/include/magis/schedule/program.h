// A plan's program: flat statements. The printer, the simulator and the code generator read it
// alone.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"
#include "magis/schedule/decisions.h"

namespace magis {

struct CopyRef {
  TensorId tensor;
  int copy = 0;  // 0: the original
  auto operator<=>(const CopyRef&) const = default;
};

// What the statements do to memory and time:
//   run    executes an operator; its results take memory from here on
//   free   ends lifetimes
//   store  begins to copy a tensor to the host, which has it from here to the end of the last load
//   load   a new copy of a tensor takes memory from here on, and is on its way from the host
//   await  the step waits until what is on its way from or to these copies has arrived
struct Statement {
  enum class Kind : uint8_t { run, free, store, load, await };
  Kind kind = Kind::run;

  // run
  OpId op;
  int copy = 0;                     // which copy of its results it makes
  std::vector<int> operand_copies;  // one per edge of `op`, in edge order
  int over =
      -1;  // edge position within reads(op) whose storage the first result takes over; -1: none
  int over_argument = -1;  // position in args of that operand

  // free, await: which; store: from which one; load: which one it makes
  std::vector<CopyRef> copies;

  bool operator==(const Statement&) const = default;
};

struct Program {
  std::vector<Statement> statements;
  bool operator==(const Program&) const = default;
};

// Requires decisions.order to respect Graph::predecessors. Copies are made right before the use
// that asks for them, in dependency order. A tensor is stored once, right after it is made, and
// awaited where a gap releases it; loads are awaited right before the first use. Every tensor that
// is not an input or an output is freed right after its last use or await. An operator runs over an
// operand exactly if Graph::in_place_choices allows it, the operand is neither input nor output,
// and it dies there. Returns nothing if the modes ask to recompute what cannot be recomputed (any
// more: what it read has been written to), or to swap what cannot be swapped.
std::optional<Program> lower(const Graph& graph, const Decisions& decisions);

// Plan text: graph text, then "program" and the statements. Throws UserError with file:line:column
// and a caret.
struct PlanText {
  Graph graph;
  Program program;
};
PlanText parse_plan(std::string_view text, std::string_view file_name);
// The program of a plan text without its graph; `graph` is the one that it is for.
Program parse_program(const Graph& graph, std::string_view text, std::string_view file_name);
// Whether text that may be either is a plan: some line begins with the word `program`.
bool is_plan(std::string_view text);
std::string to_text(const Graph& graph, const Program& program);

// Throws UserError naming the statement if the program is not a valid execution of the graph:
// something is read before it is made or has arrived or after it is freed, an operator does not
// run, an in-place run overwrites what is read later, an output is freed, something is loaded that
// was not stored or ends while it is on its way.
void verify(const Graph& graph, const Program& program);

}  // namespace magis
