// What the optimizer decides: the order of operators, and how each consumer gets each tensor that
// it reads.
#pragma once

#include <cstdint>
#include <vector>

#include "magis/base/id.h"
#include "magis/graph/graph.h"

namespace magis {

enum class Mode : uint8_t {
  keep,       // read what is live; nothing is dropped on account of this use
  recompute,  // dropped after its previous use (or after it was made) and made again right before
              // this one
  recompute_anew,  // as recompute, and a copy that an earlier chain happened to make is dropped too
  swap,            // kept on the host for a while: a Gap says from when to when
};

// Before a use in this mode the tensor is not simply dropped.
inline bool holds(Mode mode) { return mode == Mode::keep || mode == Mode::swap; }

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
