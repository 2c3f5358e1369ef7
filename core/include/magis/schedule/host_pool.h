// Where swapped tensors lie on the host: one pool, allocated before the step.
#pragma once

#include "magis/schedule/program.h"

namespace magis {

inline constexpr Bytes kHostAlignment = 64;
inline constexpr Bytes kNoHostSlot = -1;
constexpr Bytes round_up_to_slot(Bytes bytes) {
  return (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
}

struct HostPool {
  Bytes bytes = 0;                 // of the whole pool
  IdMap<TensorId, Bytes> offsets;  // kNoHostSlot: never stored
};

// Tensors whose times on the host overlap lie apart; a tensor is there from its store to the await
// of its last load. Largest first, each at the lowest offset that is free all the time.
// O(stored^2).
HostPool plan_host_pool(const Graph& graph, const Program& program);

}  // namespace magis
