// Dropout written out: a random mask of ones and zeros, divided by the probability of ones, times
// tensors.
#pragma once

#include <vector>

#include "magis/graph/graph.h"

namespace magis {

// A mask that eight elements along the last dimension can share a byte of.
bool is_mask(const Graph& graph, const Operator& op);

struct ScaledMask {
  OpId draw;                   // magis.bernoulli, which only `divide` reads
  OpId divide;                 // aten.div.Scalar, which only `multiply` read
  std::vector<OpId> multiply;  // aten.mul.Tensor, of tensors like the mask
  double scale;                // what the division makes of ones
};
// Those of a CUDA graph in float32, where one kernel, that of native_dropout's backward, applies a
// mask of bools and the factor with the same bits. A CPU's takes memory of the result's size for
// that.
std::vector<ScaledMask> scaled_masks(const Graph& graph);

}  // namespace magis
