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
};

struct Decisions {
  std::vector<OpId> order;    // every operator once, respecting Graph::predecessors
  IdMap<EdgeId, Mode> modes;  // one per (tensor, consumer)

  bool operator==(const Decisions&) const = default;
};

// Program order, nothing recomputed: what the captured graph does by itself.
Decisions program_order(const Graph& graph);

// An operator may run a second time: it is pure, and what it reads stays what it was (no operator
// writes to an input that it reads).
bool recomputable(const Graph& graph, OpId op);
// The same of every operator, in one pass over the graph.
IdMap<OpId, uint8_t> recomputable_operators(const Graph& graph);
// `reader` may have a copy of what `producer` made, made for it alone: both stand in the same body.
// What is made outside a loop is there for all its iterations, to its end.
bool may_copy_for(const Graph& graph, OpId producer, OpId reader);

}  // namespace magis
