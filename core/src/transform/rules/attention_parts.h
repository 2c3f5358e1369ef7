// The matrix products, the multiple, the mask and the softmax that attention is made of, forward
// and backward, as matmul writes them: batches viewed as one dimension, factors transposed.
//
//   p = softmax(scale q k^T + mask)   dp = do v^T   dv = p^T do
//   o = p v                           ds = scale softmax_backward(dp, p)   dq = ds k   dk = ds^T q
#pragma once

#include <optional>

#include "transform/term_graph.h"

namespace magis {

// A batch of matrices, or of their transposes; views that keep the matrices do not count.
struct Matrices {
  ValueId base = {};
  bool transposed = false;
  Matrices t() const { return {base, !transposed}; }
  bool operator==(const Matrices&) const = default;
};

// What a product makes.
struct Made {
  Matrices product = {};
  Matrices read = {};  // its last view, if the rest of the graph reads it through that alone
  Made t() const { return {product.t(), read.t()}; }
};

struct AttentionParts {
  TermId softmax = {};
  Shape batch = {};  // two lengths
  int64_t queries = 0, keys = 0, width = 0;
  double scale = 1;
  ValueId mask = {};  // invalid: none
  Matrices q, k, v;
  Made out;

  TermId softmax_backward = {};  // invalid: there is none, and nothing below
  Matrices grad;
  Made dq, dk, dv;
};

// Nothing if `softmax` is no part of attention that PyTorch's kernel for CPUs computes alike, or
// has a backward of which a part is missing.
std::optional<AttentionParts> attention_parts(const TermGraph& terms, TermId softmax);

}  // namespace magis
