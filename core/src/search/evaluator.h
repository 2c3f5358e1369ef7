// The exact memory and time of a schedule, kept up to date while the schedule is edited.
//
// The order of operators cuts the program into *segments*: the copies that one operator asks for
// (its chain), then the operator itself. What lives across the border between two segments follows
// from holds alone: a use of a tensor is *held* from an earlier operator's segment on, or not held,
// and then its own segment makes the tensor again.
//
//   mode keep            held from the previous use (or the producer) on
//   mode recompute       held from the first segment in between whose chain needed the tensor, if
//                        any
//   mode recompute_late  as recompute, of the segments from the one that the mode names
//   mode recompute_anew  not held
//   mode swap            as keep, but for its gap
//
// So   bytes while segment k runs  =  bytes held across its front border (carry)  +  what the
// segment itself adds at most (top). A change of mode or order touches one stretch of carries and
// the few segments whose chains asked for the tensor; everything else stands. The same rules as
// lower(), a property test holds the two equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "magis/schedule/decisions.h"
#include "magis/simulate/simulate.h"
#include "search/memory_profile.h"
#include "search/problem.h"

namespace magis {

class Evaluator {
 public:
  explicit Evaluator(const Problem& problem);

  // From scratch, in one pass. Requires an order that respects Graph::predecessors. O(N).
  void load(const Decisions& decisions);
  // load() and its figures; check feasible().
  Footprint evaluate(const Decisions& decisions);

  // ---- edits; each leaves everything exact

  void set_mode(EdgeId edge, Mode mode);
  void set_modes(std::span<const EdgeId> edges, Mode mode);
  // Turns the loaded modes into `modes`, changing only those that differ: uses in mode swap keep
  // their gap.
  void set_modes(const IdMap<EdgeId, Mode>& modes);
  // Turns the loaded schedule into `decisions`, which has the same order.
  void set_schedule(const Decisions& decisions);
  // The use gets mode swap, or another gap. Requires may_have_gap(gap). So does set_mode(), with
  // the widest gap that there may be.
  void set_gap(const Gap& gap);
  // Exchanges the operators at `position` and `position + 1`. Requires can_exchange(position): gaps
  // are placed by the times between positions, so an order with gaps stays as it is.
  void exchange(int position);
  bool can_exchange(int position) const;
  // Carries the operator at `from` to `to` by swaps; stops early where it may not pass. Returns
  // where it ended up.
  int move(int from, int to);

  // Edits made since mark() are undone, last first. Marks nest; load() and forget() drop them all.
  std::size_t mark() const { return changes_.size(); }
  void undo(std::size_t mark);
  void forget();

  // ---- what the schedule costs

  // Every chain ends in something that is there or can be made, or the other figures mean nothing;
  // and the host has room for what is swapped.
  bool feasible() const {
    return infeasible_segments_ == 0 && host_bytes_ <= problem_.costs->host_memory;
  }
  // Nothing is recomputed.
  bool plain() const { return chains_ == 0; }
  Picoseconds time() const { return time_; }
  Bytes peak() const { return profile_.peak(); }  // transient
  struct Usage {
    Bytes peak = 0;
    int64_t overflow = 0;  // sum over segments of the bytes above the target
  };
  Usage usage(Bytes target) const { return {profile_.peak(), profile_.overflow(target)}; }
  int peak_position() const { return profile_.peak_position(); }  // the first
  Bytes bytes_at(int position) const { return profile_.bytes_at(position); }
  // Of these, what is there before the operator and its copies run.
  Bytes carried_to(int position) const { return profile_.carry(position); }
  // Distinguishes schedules: order and modes.
  uint64_t hash() const { return hash_; }

  // ---- the schedule itself

  const Problem& problem() const { return problem_; }
  int op_count() const { return problem_.op_count(); }
  Mode mode(EdgeId edge) const { return mode_[edge]; }
  const IdMap<EdgeId, Mode>& modes() const { return mode_; }
  // Of a use in mode swap.
  Gap gap(EdgeId edge) const { return gap_[edge]; }
  int gap_count() const { return gap_count_; }
  // As long as there may be; invalid if the use may not be swapped or comes too soon.
  Gap widest_gap(EdgeId edge) const;
  // What the swapped tensors take there if none makes room for another.
  Bytes host_bytes() const { return host_bytes_; }
  // Some use of it is in mode swap.
  bool is_swapped(TensorId tensor) const { return gaps_of_[tensor] > 0; }
  // It lies between the use and the previous one, and all three stand in one body.
  bool may_have_gap(const Gap& gap) const;
  OpId op_at(int position) const { return order_[at(position)]; }
  int position(OpId op) const { return position_[op]; }
  int use_position(EdgeId edge) const { return position_[problem_.edge_op[edge]]; }
  EdgeId first_use_from(TensorId tensor, int position) const;  // at or after it
  // Where the previous use of the same tensor is, or else where it is made.
  int previous_position(EdgeId edge) const { return position_[previous_op(edge)]; }
  // From where on the tensor is there for this use; use_position(edge) if it is made for it.
  int held_from(EdgeId edge) const { return position_[holder_[edge]]; }
  // Operators that run again for the sake of the one at `position`, in order.
  std::span<const OpId> chain_at(int position) const { return segments_[op_at(position)].chain; }
  Picoseconds chain_time_at(int position) const { return segments_[op_at(position)].time; }
  // The first position from `from` on whose chain looks for the tensor of `edge`, or that of the
  // use.
  int first_need(EdgeId edge, int from) const;
  // The last position in front of `before` whose chain looks for the tensor of `edge`, or that of
  // the use, if there is none since the previous one.
  int last_need(EdgeId edge, int before) const;
  // What the program waits for copies, where time() leaves it out: it counts them where they never
  // overlap with computing. Lowers the schedule: slow.
  Picoseconds exposed() const;
  Decisions decisions() const;
  bool has_order(const std::vector<OpId>& order) const { return order == order_; }
  // How many operators run more than once.
  int recomputed_operators() const;

  // What making the tensor of `edge` again right before that use would take, given what else is
  // there.
  struct ChainCost {
    bool feasible = false;
    Picoseconds time = 0;
    int operators = 0;
  };
  ChainCost chain_cost(EdgeId edge) const;

 private:
  using Operand = Problem::Operand;
  struct Segment {
    Bytes top = 0;         // most bytes above the carry at its front border
    Picoseconds time = 0;  // of the chain
    bool feasible = true;
    std::vector<OpId> chain;
    std::vector<EdgeId> holds;    // later uses served by what this chain made
    std::vector<TensorId> asked;  // whose presence the chain depended on
    std::vector<int32_t> asker;   // of each, where in asking_ this segment stands
    void clear();
  };
  struct Asker {
    OpId op;        // of the segment
    int32_t index;  // in what it asked
  };
  struct Change {
    enum class Kind : uint8_t { mode, gap, holder, carry, segment, exchange };
    Kind kind;
    Mode mode = Mode::keep;
    int32_t id = 0;     // edge, operator or position
    int32_t other = 0;  // previous holder; end of a stretch of carries; where a gap began
    Bytes bytes = 0;    // added to the stretch; where a gap ended
  };
  struct Frame {  // of the depth-first walk that makes a chain
    OpId op;
    std::size_t operand = 0;
  };

  static std::size_t at(int position) { return static_cast<std::size_t>(position); }
  static uint64_t order_key(OpId op, int position);

  // ---- links between uses
  bool has_previous(EdgeId edge) const;
  EdgeId next_use(EdgeId edge) const;  // invalid if it is the last
  OpId previous_op(EdgeId edge) const;
  bool live_at(TensorId tensor, int position) const;  // across the segment's front border
  bool stays_after(EdgeId edge) const;                // the tensor is not let go after this use

  // ---- changes with a record
  void add_carry(int first, int last, Bytes bytes);
  void set_holder(EdgeId edge, OpId holder);
  void store_segment(OpId op, int position);  // what stands in fresh_
  void replace_segment(OpId op, int position, Segment& next, Segment& previous);
  void replace_asked(OpId op, Segment& next);
  void exchange_order(int position);

  // ---- propagation
  void change_mode(EdgeId edge, Mode mode);
  // evaluator_gaps.cpp
  void dig_gap(const Gap& gap);
  void fill_gap(EdgeId edge);
  void note_gap(EdgeId edge, const Gap& gap);
  void replace_gap(EdgeId edge, const Gap& gap);
  void count_gaps(TensorId tensor, int more);
  bool in_gap(EdgeId edge, int position) const {
    return mode_[edge] == Mode::swap && position_[gap_[edge].release] <= position &&
           position < position_[gap_[edge].load];
  }
  void hold(EdgeId edge, OpId from);
  void release(EdgeId edge);
  void mark_dirty(int position) {
    dirty_[at(position) >> 6] |= uint64_t{1} << (position & 63);
    first_dirty_ = std::min(first_dirty_, at(position) >> 6);
    last_dirty_ = std::max(last_dirty_, at(position) >> 6);
  }
  void mark_asking(TensorId tensor, int first, int last);
  void settle();

  // ---- segments (evaluator_segment.cpp)
  void derive(int position);
  bool make_chain(OpId op, int position);
  // A copy for the operator at `position` would find what `op` read.
  bool may_run_again(OpId op, int position) const {
    if (!problem_.recomputable[op]) return false;
    const auto writers = problem_.overwriters[Problem::row(op)];
    return std::ranges::none_of(writers, [&](OpId w) { return position_[w] < position; });
  }
  void ask(TensorId tensor);
  void note_copy(TensorId tensor, OpId consumer, int position);
  void account_chain(OpId consumer);
  void account_copy(OpId op, int index);
  void account_operator(OpId op);
  void add_results(OpId op, bool over);
  void update_holds(OpId op);
  bool keeps_copy(Mode mode, int position) const {
    return keeps_passing_copy(mode, position, [this](OpId op) { return position_[op]; });
  }
  bool is_copied(TensorId tensor) const { return copied_[tensor] == stamp_; }

  // ---- exchanging (evaluator_exchange.cpp)
  struct SharedUse {  // a tensor that both exchanged operators read
    EdgeId first;     // by the operator that came first
    EdgeId second;
    EdgeId after;  // the next use of both; invalid if there is none
    bool kept;     // modes of first and second
  };
  void find_shared(int position);
  void release_shared();
  void relink_kept();
  void hold_shared();
  Bytes carried_between(int position);

  const Problem& problem_;
  // The schedule.
  std::vector<OpId> order_;
  IdMap<OpId, int> position_;
  IdMap<EdgeId, Mode> mode_;
  IdMap<EdgeId, Gap> gap_;  // of uses in mode swap
  IdMap<TensorId, int> gaps_of_;
  int gap_count_ = 0;
  Bytes host_bytes_ = 0;
  std::vector<EdgeId> sequence_;      // rows of Problem::uses, each sorted by position
  IdMap<EdgeId, int32_t> rank_;       // index into sequence_
  IdMap<EdgeId, int32_t> row_begin_;  // of the row that holds the edge
  IdMap<EdgeId, int32_t> row_end_;
  // What follows from it.
  IdMap<EdgeId, OpId> holder_;
  MemoryProfile profile_;
  IdMap<TensorId, std::vector<Asker>> asking_;  // whose chains asked, in no order
  IdMap<OpId, Segment> segments_;
  Picoseconds base_time_ = 0;
  Picoseconds time_ = 0;
  int infeasible_segments_ = 0;
  int chains_ = 0;  // segments with a chain
  uint64_t hash_ = 0;

  // Recording.
  bool loading_ = false;
  std::vector<Bytes> carry_steps_;  // difference array while loading
  std::vector<Change> changes_;
  std::vector<Segment> replaced_;
  std::vector<Segment> spare_;
  std::vector<uint64_t> dirty_;  // one bit a position
  std::size_t first_dirty_ = 0;  // words outside of these two are 0
  std::size_t last_dirty_ = 0;

  // Scratch of derive(), valid if the stamp is the current one.
  Segment fresh_;
  int64_t stamp_ = 0;
  IdMap<TensorId, int64_t> copied_;  // made by this chain and read by it or its operator
  IdMap<TensorId, int64_t> visited_;
  IdMap<TensorId, int> last_read_;  // index in the chain; its length for the operator itself
  IdMap<TensorId, uint8_t> stays_;  // beyond the segment
  IdMap<OpId, int64_t> ran_;
  IdMap<EdgeId, int64_t> held_stamp_;
  std::vector<Frame> frames_;
  std::vector<SharedUse> shared_;
  Bytes level_ = 0;  // above the carry, while a segment is accounted
  // Scratch of chain_cost().
  mutable int64_t cost_stamp_ = 0;
  mutable IdMap<OpId, int64_t> cost_seen_;
  mutable std::vector<OpId> cost_pending_;
};

}  // namespace magis
