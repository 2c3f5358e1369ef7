// A graph and its costs as the search's inner loops read them: dense tables by id, and only what
// the schedule has a say in.
#pragma once

#include <cstdint>

#include "magis/graph/graph.h"
#include "magis/simulate/profile.h"

namespace magis {

// Time inside the search: whole picoseconds, so that adding and taking back is exact and the same
// in any order.
using Picoseconds = int64_t;
Picoseconds to_picoseconds(Seconds seconds);
Seconds to_seconds(Picoseconds time);

// A tensor is *managed* if the schedule decides how long it lives: it is neither an input nor an
// output.
struct Problem {
  // Without `recompute` nothing is computed again.
  Problem(const Graph& graph, const CostTable& costs, bool recompute = true);

  struct Operand {  // a managed tensor that an operator reads
    EdgeId edge;
    TensorId tensor;
  };

  const Graph* graph;
  const CostTable* costs;

  // Rows are indexed by operator, or for `uses` by tensor.
  Rows<Operand> operands;      // in edge order
  Rows<Operand> overwritable;  // whose storage the first result may take over, best first
  Rows<TensorId> results;
  Rows<OpId> overwriters;  // Graph::overwriters
  Rows<EdgeId> uses;       // of managed tensors, in program order
  IdMap<OpId, Bytes> scratch;
  IdMap<OpId, Picoseconds> time;
  IdMap<OpId, uint8_t> recomputable;  // before all of its overwriters

  IdMap<TensorId, OpId> producer;  // invalid for inputs
  IdMap<TensorId, Bytes> bytes;    // 0 for inputs
  IdMap<TensorId, uint8_t> managed;
  IdMap<TensorId, uint8_t> output;  // made by an operator and alive to the end

  IdMap<EdgeId, TensorId> edge_tensor;
  IdMap<EdgeId, OpId> edge_op;
  // The tensor is managed, its producer may run again, and the consumer stands in the same loop
  // body: what is made outside a loop is there for all its iterations.
  IdMap<EdgeId, uint8_t> droppable;
  // The tensor may leave for the host before this use.
  IdMap<EdgeId, uint8_t> swappable;
  IdMap<TensorId, Picoseconds> copy_time;  // to the host or back, once
  IdMap<TensorId, Picoseconds> copy_wait;  // what each copy adds to the step's time, over all
                                           // iterations; 0 where copies overlap with computing
  IdMap<TensorId, Bytes> host_bytes;
  // Neighbours in the order may change places if they have the same row here: operators of one
  // body. A loop's begin and end stay where they are.
  IdMap<OpId, int32_t> body;

  // Tensors may be swapped, and the step waits for every copy: swapping is then one more way to
  // trade time for memory.
  bool swaps_for_time() const { return !costs->copies_overlap && costs->host_memory > 0; }

  int op_count() const { return static_cast<int>(time.size()); }
  // Rows take plain indices.
  static std::size_t row(OpId op) { return static_cast<std::size_t>(op.index); }
  static std::size_t row(TensorId tensor) { return static_cast<std::size_t>(tensor.index); }
};

}  // namespace magis
