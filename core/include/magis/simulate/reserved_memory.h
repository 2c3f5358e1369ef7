// Reserved memory of a plan on CUDA: what PyTorch's allocator takes from the device for it, and the
// share of that which lies idle between the tensors.
#pragma once

#include "magis/schedule/program.h"
#include "magis/simulate/caching_allocator.h"
#include "magis/simulate/profile.h"

namespace magis {

struct ReserveOptions {
  AllocatorSettings allocator = {};
  // What cuBLAS is given at the first product and keeps; 0: nothing.
  Bytes library_workspace = 0;
};

struct ReservedMemory {
  Bytes reserved = 0;        // the most that is taken from the device
  Bytes allocated = 0;       // of it in tensors and workspaces, when it first was that much
  Bytes allocated_peak = 0;  // the most in tensors and workspaces at one moment
  int cache_flushes = 0;     // times that cached memory had to be given back
  bool fits = true;  // false: the device ran out of memory, the figures are those until then

  Bytes fragmentation() const { return reserved - allocated; }
};

// Runs the program's allocations: all inputs in their order, then steps one after another, outputs
// freed in between, until a step takes no more memory. Loops run iteration by iteration, a last one
// that is shorter with its own sizes where they are known. Blocks live as long as their tensors;
// an operator's scratch is allocated after its results and freed when it is done. `costs` gives
// scratch alone.
// Cost: O(log blocks) for each statement of each iteration and step.
ReservedMemory reserved_memory(const Graph& graph, const Program& program, const CostTable& costs,
                               const ReserveOptions& options);

}  // namespace magis
