// Random graphs for property tests: every kind of thing that the text language has, with consistent
// types, so that PyTorch can execute the same text.
#pragma once

#include <cstdint>

#include "magis/graph/graph.h"

namespace magis::test {

struct RandomGraphOptions {
  int inputs = 4;
  bool views = true;         // operands read through chains of views, outputs too
  bool in_place = true;      // elementwise operators, backwards with two candidates
  bool multi_result = true;  // layer norm, max with indices, ...
  bool random = true;        // magis.bernoulli
  bool mutating = true;      // writes to parameters and a buffer
  bool opaque = true;        // an operator that PyTorch has and the operator table has not
  bool scratch = true;       // measured workspaces
  bool sites = true;         // module paths and source lines
};

// The same graph for the same arguments on every machine. At least `op_count` operators; some more,
// so that every operator has a reader or is an output. Values stay within a few orders of magnitude
// of 1 when the inputs do.
Graph make_random_graph(uint64_t seed, int op_count, const RandomGraphOptions& options = {});

}  // namespace magis::test
