#include "search/edit.h"

namespace magis {
namespace {

struct Apply {
  Evaluator& evaluator;
  void operator()(const SetModes& edit) const { evaluator.set_modes(edit.edges, edit.mode); }
  void operator()(const MoveOperator& edit) const {
    evaluator.move(evaluator.position(edit.op), edit.position);
  }
};

}  // namespace

void apply_edit(Evaluator& evaluator, const Edit& edit) { std::visit(Apply{evaluator}, edit); }

}  // namespace magis
