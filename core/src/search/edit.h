// The steps of which the search is made. A closed set: a new kind of step is one more alternative
// here and one more overload in edit.cpp; whoever proposes it builds it, everybody else only
// applies it.
#pragma once

#include <span>
#include <variant>

#include "search/evaluator.h"

namespace magis {

// One use, or all uses at structurally equal sites.
struct SetModes {
  std::span<const EdgeId> edges;  // of a table that outlives the edit
  Mode mode = Mode::recompute;
};

// As far towards `position` as precedence allows.
struct MoveOperator {
  OpId op;
  int position = 0;
};

// One tensor is there in place of another: neither alone fits, or pays.
struct ExchangeModes {
  EdgeId first;
  Mode first_mode;
  EdgeId second;
  Mode second_mode;
};

using Edit = std::variant<SetModes, MoveOperator, ExchangeModes>;

void apply_edit(Evaluator& evaluator, const Edit& edit);

}  // namespace magis
