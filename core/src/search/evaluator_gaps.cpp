// Gaps: where a tensor that is held is not on the device for a while.
#include "magis/base/error.h"
#include "magis/base/hash.h"
#include "search/evaluator.h"

namespace magis {
namespace {

uint64_t gap_key(const Gap& gap) {
  return mix64(mix64(uint64_t{4} * static_cast<uint64_t>(gap.use.index) + 3) +
               (static_cast<uint64_t>(gap.release.index) << 32) +
               static_cast<uint64_t>(gap.load.index));
}

}  // namespace

bool Evaluator::may_have_gap(const Gap& gap) const {
  const Graph& graph = *problem_.graph;
  const OpId reader = problem_.edge_op[gap.use];
  return problem_.swappable[gap.use] && may_bound_gap(graph, gap.release, reader) &&
         may_bound_gap(graph, gap.load, reader) &&
         previous_position(gap.use) < position_[gap.release] &&
         position_[gap.release] <= position_[gap.load] && position_[gap.load] <= position_[reader];
}

Gap Evaluator::widest_gap(EdgeId edge) const {
  if (!problem_.swappable[edge]) return {};
  const OpId reader = problem_.edge_op[edge];
  for (int k = previous_position(edge) + 1; k < position_[reader]; ++k) {
    if (may_bound_gap(*problem_.graph, op_at(k), reader)) return {edge, op_at(k), reader};
  }
  return {};
}

void Evaluator::set_gap(const Gap& gap) {
  change_mode(gap.use, Mode::keep);
  dig_gap(gap);
  settle();
}

// The use is in mode keep.
void Evaluator::dig_gap(const Gap& gap) {
  MAGIS_CHECK(may_have_gap(gap), "%" << gap.use.index << " is swapped where it cannot be");
  note_gap(gap.use, gap);
  const TensorId tensor = problem_.edge_tensor[gap.use];
  const int begin = position_[gap.release];
  const int end = position_[gap.load] - 1;
  add_carry(begin, end, -problem_.bytes[tensor]);
  if (!loading_) mark_asking(tensor, begin, end);
}

void Evaluator::fill_gap(EdgeId edge) {
  const TensorId tensor = problem_.edge_tensor[edge];
  const int begin = position_[gap_[edge].release];
  const int end = position_[gap_[edge].load] - 1;
  add_carry(begin, end, problem_.bytes[tensor]);
  mark_asking(tensor, begin, end);
  note_gap(edge, {});
}

// Another gap for a use that is held; none if its use is not valid.
void Evaluator::note_gap(EdgeId edge, const Gap& gap) {
  const bool had = mode_[edge] == Mode::swap;
  if (!loading_) {
    changes_.push_back({.kind = Change::Kind::gap,
                        .id = edge.index,
                        .other = had ? gap_[edge].release.index : -1,
                        .bytes = had ? gap_[edge].load.index : -1});
  }
  replace_gap(edge, gap);
}

void Evaluator::replace_gap(EdgeId edge, const Gap& gap) {
  const bool had = mode_[edge] == Mode::swap;
  const bool has = gap.use.valid();
  if (had) hash_ ^= gap_key(gap_[edge]);
  if (has) hash_ ^= gap_key(gap);
  count_gaps(problem_.edge_tensor[edge], int{has} - int{had});
  mode_[edge] = has ? Mode::swap : Mode::keep;
  gap_[edge] = gap;
}

// The first gap of a tensor takes a store, and each a load.
void Evaluator::count_gaps(TensorId tensor, int more) {
  const bool was_stored = gaps_of_[tensor] > 0;
  gap_count_ += more;
  gaps_of_[tensor] += more;
  const int stores = int{gaps_of_[tensor] > 0} - int{was_stored};
  host_bytes_ += stores * problem_.host_bytes[tensor];
  time_ += (stores + more) * problem_.copy_wait[tensor];
}

}  // namespace magis
