// Parts of a loop's sums that wait to be added together. A kernel for many small tensors takes
// hardly longer than one for a single one, and a backward pass adds up a gradient for every bias
// and norm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

class GroupedSums {
 public:
  struct Sum {  // a magis.add_part or magis.add_parts, and what its result is called
    Operator write;
    std::string name;
  };

  // `most`: bytes of parts that may wait, so that waiting costs next to no memory.
  explicit GroupedSums(Bytes most) : most_(most) {}

  // Takes a magis.add_part whose sum and part have the same dtype; what has to be added now.
  std::optional<Sum> add(Sum sum, const Type& part);
  // What still waits.
  std::optional<Sum> take();

 private:
  Bytes most_;
  Bytes bytes_ = 0;
  DType dtype_ = DType::f32;
  std::vector<Sum> waiting_;
};

}  // namespace magis
