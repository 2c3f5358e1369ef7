// A program without some of what it does to save memory: what that saves, and what it costs.
#pragma once

#include <cstdint>

#include "magis/schedule/program.h"

namespace magis {

struct Undone {
  IdMap<OpId, uint8_t> runs;       // 1: the operator runs once, its first results are kept
  IdMap<TensorId, uint8_t> swaps;  // 1: the tensor stays on the device
};

// Who read a copy that is not made any more reads what it was a copy of. The other statements keep
// their order, but lifetimes end anew: every copy is freed right after its last use, and operators
// run in place wherever their operand then dies. The copies that are left are numbered anew. With
// nothing undone: the program as `lower` would have ended its lifetimes. Requires a valid program.
// O(statements).
Program undo(const Graph& graph, const Program& program, const Undone& undone);

}  // namespace magis
