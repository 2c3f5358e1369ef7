#include "search/edit.h"

namespace magis {
namespace {

struct Apply {
  Evaluator& evaluator;

  // What is on the host for a while stays there: its store counts on where the tensor is made.
  void operator()(const SetModes& edit) const {
    if (evaluator.gap_count() == 0) return evaluator.set_modes(edit.edges, edit.mode);
    for (const EdgeId edge : edit.edges) set_mode(edge, edit.mode);
  }
  void operator()(const MoveOperator& edit) const {
    evaluator.move(evaluator.position(edit.op), edit.position);
  }
  void operator()(const ExchangeModes& edit) const {
    set_mode(edit.first, edit.first_mode);
    set_mode(edit.second, edit.second_mode);
  }
  void set_mode(EdgeId edge, Mode mode) const {
    if (evaluator.is_swapped(evaluator.problem().edge_tensor[edge])) return;
    evaluator.set_mode(edge, mode);
  }
};

}  // namespace

void apply_edit(Evaluator& evaluator, const Edit& edit) { std::visit(Apply{evaluator}, edit); }

}  // namespace magis
