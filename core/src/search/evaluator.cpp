#include "search/evaluator.h"

#include <algorithm>
#include <bit>

#include "magis/base/error.h"
#include "magis/base/hash.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

uint64_t mode_key(EdgeId edge, Mode mode) {
  if (holds(mode)) return 0;  // of gaps, see evaluator_gaps.cpp
  return mix64((static_cast<uint64_t>(edge.index + 1) << 32) + mode.bits());
}

}  // namespace

void Evaluator::Segment::clear() {
  top = 0;
  time = 0;
  feasible = true;
  chain.clear();
  holds.clear();
  asked.clear();
}

Evaluator::Evaluator(const Problem& problem)
    : problem_(problem),
      position_(problem.time.size(), 0),
      mode_(problem.edge_op.size(), Mode::keep),
      gap_(problem.edge_op.size()),
      gaps_of_(problem.bytes.size(), 0),
      sequence_(problem.uses.items().size()),
      rank_(problem.edge_op.size(), 0),
      row_begin_(problem.edge_op.size(), 0),
      row_end_(problem.edge_op.size(), 0),
      holder_(problem.edge_op.size()),
      profile_(problem.time.size()),
      asking_(problem.bytes.size()),
      segments_(problem.time.size()),
      copied_(problem.bytes.size(), 0),
      visited_(problem.bytes.size(), 0),
      last_read_(problem.bytes.size(), 0),
      stays_(problem.bytes.size(), 0),
      ran_(problem.time.size(), 0),
      held_stamp_(problem.edge_op.size(), 0),
      cost_seen_(problem.time.size(), 0) {
  const std::size_t count = problem.time.size();
  order_.resize(count);
  carry_steps_.resize(count + 2);
  dirty_.resize(count / 64 + 1);
  for (const Picoseconds time : problem.time) base_time_ += time;
  for (std::size_t t = 0; t < problem.bytes.size(); ++t) {
    for (const EdgeId edge : problem.uses[t]) {
      row_begin_[edge] = static_cast<int32_t>(problem.uses.first(t));
      row_end_[edge] = static_cast<int32_t>(problem.uses.first(t + 1));
    }
  }
}

// ---- links between uses

uint64_t Evaluator::order_key(OpId op, int position) {
  return mix64((static_cast<uint64_t>(op.index + 1) << 32) + static_cast<uint64_t>(position));
}

bool Evaluator::has_previous(EdgeId edge) const { return rank_[edge] > row_begin_[edge]; }

EdgeId Evaluator::next_use(EdgeId edge) const {
  const int32_t next = rank_[edge] + 1;
  return next < row_end_[edge] ? sequence_[at(next)] : EdgeId();
}

OpId Evaluator::previous_op(EdgeId edge) const {
  return has_previous(edge) ? problem_.edge_op[sequence_[at(rank_[edge] - 1)]]
                            : problem_.producer[problem_.edge_tensor[edge]];
}

EdgeId Evaluator::first_use_from(TensorId tensor, int position) const {
  const std::size_t row = Problem::row(tensor);
  const auto begin = sequence_.begin() + static_cast<std::ptrdiff_t>(problem_.uses.first(row));
  const auto end = sequence_.begin() + static_cast<std::ptrdiff_t>(problem_.uses.first(row + 1));
  const auto found = std::lower_bound(begin, end, position, [this](EdgeId edge, int wanted) {
    return use_position(edge) < wanted;
  });
  return found == end ? EdgeId() : *found;
}

bool Evaluator::live_at(TensorId tensor, int position) const {
  if (!problem_.managed[tensor]) return true;
  const EdgeId edge = first_use_from(tensor, position);
  return edge.valid() && held_from(edge) < position && !in_gap(edge, position);
}

bool Evaluator::stays_after(EdgeId edge) const {
  const EdgeId next = next_use(edge);
  return next.valid() && holds(mode_[next]);
}

// ---- from scratch

void Evaluator::load(const Decisions& decisions) {
  forget();
  loading_ = true;
  order_ = decisions.order;
  mode_ = decisions.modes;
  hash_ = 0;
  time_ = base_time_;
  infeasible_segments_ = 0;
  chains_ = 0;
  gap_count_ = 0;
  host_bytes_ = 0;
  std::ranges::fill(gaps_of_, 0);
  std::ranges::fill(carry_steps_, 0);
  for (Segment& segment : segments_) segment.clear();
  for (std::vector<Asker>& asking : asking_) asking.clear();
  IdMap<TensorId, int32_t> filled(problem_.bytes.size(), 0);
  for (int k = 0; k < op_count(); ++k) {
    const OpId op = order_[at(k)];
    position_[op] = k;
    hash_ ^= order_key(op, k);
    for (const auto [edge, tensor] : problem_.operands[Problem::row(op)]) {
      rank_[edge] = row_begin_[edge] + filled[tensor]++;
      sequence_[at(rank_[edge])] = edge;
      hash_ ^= mode_key(edge, mode_[edge]);
      holder_[edge] = op;
      if (holds(mode_[edge])) hold(edge, previous_op(edge));
    }
    for (const TensorId made : problem_.results[Problem::row(op)]) {
      if (problem_.output[made]) add_carry(k + 1, op_count(), problem_.bytes[made]);
    }
  }
  for (const Gap& gap : decisions.gaps) {
    mode_[gap.use] = Mode::keep;
    dig_gap(gap);
  }
  for (int k = 0; k < op_count(); ++k) derive(k);
  std::ranges::fill(dirty_, 0);
  first_dirty_ = dirty_.size();
  last_dirty_ = 0;
  profile_.set_carries(carry_steps_);
  loading_ = false;
}

Footprint Evaluator::evaluate(const Decisions& decisions) {
  load(decisions);
  return {peak(), to_seconds(time_)};
}

// ---- edits of modes

void Evaluator::set_mode(EdgeId edge, Mode mode) {
  change_mode(edge, mode);
  settle();
}

void Evaluator::set_modes(std::span<const EdgeId> edges, Mode mode) {
  for (const EdgeId edge : edges) change_mode(edge, mode);
  settle();
}

void Evaluator::set_modes(const IdMap<EdgeId, Mode>& modes) {
  for (std::size_t e = 0; e < modes.size(); ++e) {
    change_mode(EdgeId(e), modes[EdgeId(e)]);
  }
  settle();
}

void Evaluator::set_schedule(const Decisions& decisions) {
  for (std::size_t e = 0; e < mode_.size(); ++e) {
    const EdgeId edge(e);
    if (decisions.modes[edge] != Mode::swap) change_mode(edge, decisions.modes[edge]);
  }
  for (const Gap& gap : decisions.gaps) {
    if (mode_[gap.use] == Mode::swap && gap_[gap.use] == gap) continue;
    change_mode(gap.use, Mode::keep);
    dig_gap(gap);
  }
  settle();
}

void Evaluator::change_mode(EdgeId edge, Mode mode) {
  const TensorId tensor = problem_.edge_tensor[edge];
  if (mode_[edge] == mode || !problem_.managed[tensor]) return;
  if (mode == Mode::swap) {
    const Gap gap = widest_gap(edge);
    if (!gap.use.valid()) return;
    change_mode(edge, Mode::keep);
    return dig_gap(gap);
  }
  if (mode_[edge] == Mode::swap) fill_gap(edge);
  const Mode old = mode_[edge];
  if (old == mode) return;
  hash_ ^= mode_key(edge, old) ^ mode_key(edge, mode);
  changes_.push_back({.kind = Change::Kind::mode, .mode = old, .id = edge.index});
  mode_[edge] = mode;
  const OpId previous = previous_op(edge);
  const int begin = position_[previous];
  if (old == Mode::keep) {
    mark_dirty(begin);
    release(edge);
  } else if (mode == Mode::keep) {
    mark_dirty(begin);
    mark_asking(tensor, begin + 1, held_from(edge) - 1);
    hold(edge, previous);
  } else if (held_from(edge) < use_position(edge) && !keeps_copy(mode, held_from(edge))) {
    mark_dirty(held_from(edge));
    release(edge);
  } else {
    mark_asking(tensor, begin + 1, held_from(edge) - 1);
  }
}

// ---- propagation

// `from` is earlier than the present holder.
void Evaluator::hold(EdgeId edge, OpId from) {
  const int old = held_from(edge);
  add_carry(position_[from] + 1, old, problem_.bytes[problem_.edge_tensor[edge]]);
  mark_dirty(old);
  set_holder(edge, from);
}

void Evaluator::release(EdgeId edge) {
  const int begin = held_from(edge);
  const int end = use_position(edge);
  const TensorId tensor = problem_.edge_tensor[edge];
  add_carry(begin + 1, end, -problem_.bytes[tensor]);
  mark_asking(tensor, begin + 1, end - 1);
  mark_dirty(end);
  set_holder(edge, problem_.edge_op[edge]);
}

// Segments from `first` to `last` whose chains depended on the tensor's presence.
void Evaluator::mark_asking(TensorId tensor, int first, int last) {
  for (const auto [op, unused] : asking_[tensor]) {
    const int position = position_[op];
    if (first <= position && position <= last) mark_dirty(position);
  }
}

// Deriving a segment marks later ones only, so one sweep is enough.
void Evaluator::settle() {
  for (std::size_t word = first_dirty_; word <= last_dirty_; ++word) {
    while (dirty_[word] != 0) {
      const int bit = std::countr_zero(dirty_[word]);
      dirty_[word] &= dirty_[word] - 1;
      derive(static_cast<int>(word * 64) + bit);
    }
  }
  first_dirty_ = dirty_.size();
  last_dirty_ = 0;
}

// ---- changes with a record

void Evaluator::add_carry(int first, int last, Bytes bytes) {
  if (first > last) return;
  if (loading_) {
    carry_steps_[at(first)] += bytes;
    carry_steps_[at(last + 1)] -= bytes;
    return;
  }
  profile_.add_carry(first, last, bytes);
  changes_.push_back({.kind = Change::Kind::carry, .id = first, .other = last, .bytes = bytes});
}

void Evaluator::set_holder(EdgeId edge, OpId holder) {
  if (!loading_) {
    changes_.push_back(
        {.kind = Change::Kind::holder, .id = edge.index, .other = holder_[edge].index});
  }
  holder_[edge] = holder;
}

void Evaluator::store_segment(OpId op, int position) {
  Segment& stored = segments_[op];
  const bool plain =
      stored.chain.empty() && fresh_.chain.empty() && fresh_.asked.empty() && stored.asked.empty();
  if (plain && stored.top == fresh_.top && stored.feasible == fresh_.feasible && !loading_) return;
  if (!loading_) {
    changes_.push_back({.kind = Change::Kind::segment, .id = op.index});
    if (spare_.empty()) spare_.emplace_back();
    replaced_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    replace_segment(op, position, fresh_, replaced_.back());
  } else {
    Segment none;
    replace_segment(op, position, fresh_, none);
  }
}

// Puts `next` in place; what stood there goes to `previous`, whose buffers go to `next`.
void Evaluator::replace_segment(OpId op, int position, Segment& next, Segment& previous) {
  Segment& stored = segments_[op];
  replace_asked(op, next);
  std::swap(previous, stored);
  std::swap(stored, next);
  time_ += stored.time - previous.time;
  infeasible_segments_ += int{!stored.feasible} - int{!previous.feasible};
  chains_ += int{!stored.asked.empty() || !stored.chain.empty()} -
             int{!previous.asked.empty() || !previous.chain.empty()};
  profile_.set_top(position, stored.top);
}

// In the index, what the segment asked gives way to what `next` did. Most of it is often the same.
void Evaluator::replace_asked(OpId op, Segment& next) {
  Segment& stored = segments_[op];
  const auto differ = std::ranges::mismatch(stored.asked, next.asked).in1;
  const auto same = static_cast<std::size_t>(differ - stored.asked.begin());
  for (std::size_t i = same; i < stored.asked.size(); ++i) {
    std::vector<Asker>& asking = asking_[stored.asked[i]];
    const int32_t place = stored.asker[i];
    const Asker moved = asking.back();
    asking[at(place)] = moved;
    segments_[moved.op].asker[at(moved.index)] = place;
    asking.pop_back();
  }
  next.asker.resize(next.asked.size());
  std::copy_n(stored.asker.begin(), same, next.asker.begin());
  for (std::size_t i = same; i < next.asked.size(); ++i) {
    std::vector<Asker>& asking = asking_[next.asked[i]];
    next.asker[i] = static_cast<int32_t>(asking.size());
    asking.push_back({op, static_cast<int32_t>(i)});
  }
}

void Evaluator::undo(std::size_t mark) {
  while (changes_.size() > mark) {
    const Change change = changes_.back();
    changes_.pop_back();
    switch (change.kind) {
      case Change::Kind::mode: {
        const EdgeId edge(change.id);
        hash_ ^= mode_key(edge, mode_[edge]) ^ mode_key(edge, change.mode);
        mode_[edge] = change.mode;
        break;
      }
      case Change::Kind::gap: {
        const EdgeId edge(change.id);
        const bool had = change.other >= 0;
        const OpId load(static_cast<int32_t>(change.bytes));
        replace_gap(edge, had ? Gap{edge, OpId(change.other), load} : Gap{});
        break;
      }
      case Change::Kind::holder:
        holder_[EdgeId(change.id)] = OpId(change.other);
        break;
      case Change::Kind::carry:
        profile_.add_carry(change.id, change.other, -change.bytes);
        break;
      case Change::Kind::segment: {
        const OpId op(change.id);
        spare_.emplace_back();
        replace_segment(op, position_[op], replaced_.back(), spare_.back());
        replaced_.pop_back();
        break;
      }
      case Change::Kind::exchange:
        exchange_order(change.id);
        break;
    }
  }
}

void Evaluator::forget() {
  changes_.clear();
  for (Segment& segment : replaced_) spare_.push_back(std::move(segment));
  replaced_.clear();
}

// ---- figures

Decisions Evaluator::decisions() const {
  Decisions decisions{order_, mode_};
  if (gap_count_ == 0) return decisions;
  for (const Gap& gap : gap_) {
    if (gap.use.valid() && mode_[gap.use] == Mode::swap) decisions.gaps.push_back(gap);
  }
  return decisions;
}

int Evaluator::first_need(EdgeId edge, int from) const {
  int first = use_position(edge);
  for (const auto [op, unused] : asking_[problem_.edge_tensor[edge]]) {
    if (position_[op] >= from) first = std::min(first, position_[op]);
  }
  return first;
}

int Evaluator::last_need(EdgeId edge, int before) const {
  int last = previous_position(edge);
  for (const auto [op, unused] : asking_[problem_.edge_tensor[edge]]) {
    if (position_[op] < before) last = std::max(last, position_[op]);
  }
  return last > previous_position(edge) ? last : use_position(edge);
}

Picoseconds Evaluator::exposed() const {
  if (gap_count_ == 0 || !problem_.costs->copies_overlap) return 0;
  const std::optional<Program> program = lower(*problem_.graph, decisions());
  MAGIS_CHECK(program.has_value(), "the schedule cannot be lowered");
  return to_picoseconds(footprint(*problem_.graph, *program, *problem_.costs).exposed);
}

int Evaluator::recomputed_operators() const {
  IdMap<OpId, uint8_t> again(order_.size(), 0);
  for (const Segment& segment : segments_) {
    for (const OpId op : segment.chain) again[op] = 1;
  }
  return static_cast<int>(std::ranges::count(again, 1));
}

Evaluator::ChainCost Evaluator::chain_cost(EdgeId edge) const {
  const OpId consumer = problem_.edge_op[edge];
  const int position = position_[consumer];
  ++cost_stamp_;
  for (const OpId op : segments_[consumer].chain) cost_seen_[op] = cost_stamp_;
  ChainCost cost;
  const auto visit = [&](TensorId tensor) {
    const OpId producer = problem_.producer[tensor];
    if (cost_seen_[producer] == cost_stamp_) return true;
    if (!may_run_again(producer, position)) return false;
    cost_seen_[producer] = cost_stamp_;
    cost.time += problem_.time[producer];
    ++cost.operators;
    cost_pending_.push_back(producer);
    return true;
  };
  cost_pending_.clear();
  if (!visit(problem_.edge_tensor[edge])) return cost;
  while (!cost_pending_.empty()) {
    const OpId op = cost_pending_.back();
    cost_pending_.pop_back();
    for (const auto [unused, tensor] : problem_.operands[Problem::row(op)]) {
      if (!live_at(tensor, position) && !visit(tensor)) return cost;
    }
  }
  cost.feasible = true;
  return cost;
}

}  // namespace magis
