#include "graph/axes_families.h"

namespace magis {

// (grad [i.., d], indices [i..], num_weights, padding_idx, scale_grad_by_freq) -> [num_weights, d].
// Scaled by frequency, a row of indices counts all others.
Signature embedding_dense_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder arguments(graph, op);
  const bool scaled = arguments.truth(4, "scale_grad_by_freq");
  return notation_signature(graph, op,
                            scaled ? "I*d, I*, _, _, _ -> .d" : "i*d, i*, _, _, _ -> .d+i*");
}

}  // namespace magis
