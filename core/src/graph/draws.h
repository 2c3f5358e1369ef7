// Operators that keep their order because of the generator.
#pragma once

#include "magis/graph/op_table.h"

namespace magis {

// It draws random numbers or, as nothing is known of it, may.
inline bool draws_or_may_draw(const OpInfo& info) {
  return info.purity == Purity::random || info.purity == Purity::opaque;
}

}  // namespace magis
