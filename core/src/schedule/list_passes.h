// Passes over a whole order, as long as it may be: nodes that lower memory run as soon as they can,
// nodes that raise it as late as they can.
#pragma once

#include "schedule/piece.h"

namespace magis {

// Each keeps the order valid and does not raise its peak. Nodes that they leave alone keep their
// order. O((nodes + edges) * log(nodes)).
//
// Whatever is ready, does not raise live bytes and does not exceed the peak runs at once.
void hasten(PlacedOrder& placed);
// The same from the end: whatever only raises memory before it is needed runs right before.
void postpone(PlacedOrder& placed);

}  // namespace magis
