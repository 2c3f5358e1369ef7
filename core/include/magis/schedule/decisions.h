// What the optimizer decides: the order of operators, and how each consumer gets each tensor that
// it reads.
#pragma once

#include <cstdint>
#include <vector>

#include "magis/base/id.h"
#include "magis/graph/graph.h"

namespace magis {

class Mode {
 public:
  enum Kind : uint32_t {
    keep,       // read what is live; nothing is dropped on account of this use
    recompute,  // dropped after its previous use (or after it was made) and made again right before
                // this one, unless a chain in between makes a copy: that one is kept
    recompute_anew,  // as recompute, and copies that earlier chains happen to make are dropped too
    swap,            // kept on the host for a while: a Gap says from when to when
    recompute_late,  // as recompute, but copies are kept from late_from() on alone: chains of
                     // operators before it drop theirs. So checkpoints nest, as in optimal
                     // schedules of chains: what a long chain passes through is made once more by a
                     // shorter one, and stays from there on
  };

  constexpr Mode(Kind kind = keep) : bits_(kind) {}  // NOLINT: each is a mode
  static constexpr Mode late(OpId from) {
    return Mode(recompute_late | static_cast<uint32_t>(from.index) << kKindBits);
  }

  constexpr Kind kind() const { return static_cast<Kind>(bits_ & ((1U << kKindBits) - 1)); }
  constexpr OpId late_from() const { return OpId(static_cast<int32_t>(bits_ >> kKindBits)); }
  constexpr uint32_t bits() const { return bits_; }  // different for different modes
  friend constexpr bool operator==(Mode, Mode) = default;

 private:
  static constexpr int kKindBits = 3;
  explicit constexpr Mode(uint32_t bits) : bits_(bits) {}

  uint32_t bits_;
};

// Before a use in this mode the tensor is not simply dropped.
inline bool holds(Mode mode) { return mode == Mode::keep || mode == Mode::swap; }

// Whether a copy that the chain of the operator at `position` makes in passing is kept for a later
// use in this mode. position_of: of an operator in the order.
template <class PositionOf>
bool keeps_passing_copy(Mode mode, int position, PositionOf&& position_of) {
  return mode == Mode::recompute ||
         (mode.kind() == Mode::recompute_late && position >= position_of(mode.late_from()));
}

// A tensor's absence from the device before a use in mode swap (paper section 5.2, Store and Load).
struct Gap {
  EdgeId use;
  OpId release;  // the device lets go of it before this operator's copies are made
  OpId load;     // from here on it takes memory again, and is on its way back

  bool operator==(const Gap&) const = default;
};

struct Decisions {
  std::vector<OpId> order;     // every operator once, respecting Graph::predecessors
  IdMap<EdgeId, Mode> modes;   // one per (tensor, consumer)
  std::vector<Gap> gaps = {};  // one per use in mode swap, by use

  bool operator==(const Decisions&) const = default;
};

// Program order, nothing recomputed: what the captured graph does by itself.
Decisions program_order(const Graph& graph);

// An operator may run a second time, as long as none of Graph::overwriters(op) has run: it is pure.
bool recomputable(const Graph& graph, OpId op);
// `reader` may have a copy of what `producer` made, made for it alone: both stand in the same body.
// What is made outside a loop is there for all its iterations, to its end.
bool may_copy_for(const Graph& graph, OpId producer, OpId reader);
// `tensor` may leave for the host and come back: it is no input or output, and a copy of its bytes
// is a copy of it (no gaps between its elements, none twice).
bool swappable(const Graph& graph, TensorId tensor);
// A gap before a use by `reader` may begin or end in front of `op`: both stand in the same body.
bool may_bound_gap(const Graph& graph, OpId op, OpId reader);

}  // namespace magis
