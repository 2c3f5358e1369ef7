// The bytes above a target along a schedule, summed up once so that any stretch is answered at
// once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/evaluator.h"

namespace magis {

class Overflow {
 public:
  // Holds until the evaluator changes. O(operators).
  void focus(const Evaluator& evaluator, Bytes target) {
    const auto count = static_cast<std::size_t>(evaluator.op_count());
    bytes_.assign(count + 1, 0);
    positions_.assign(count + 1, 0);
    for (std::size_t k = 0; k < count; ++k) {
      const Bytes excess = evaluator.bytes_at(static_cast<int>(k)) - target;
      bytes_[k + 1] = bytes_[k] + std::max<Bytes>(0, excess);
      positions_[k + 1] = positions_[k] + (excess > 0 ? 1 : 0);
    }
  }
  // How much of it goes, in bytes times segments, if a tensor of `bytes` is not there from position
  // `begin` to before `end`: at most what there is, and the tensor wherever there is any. 0: there
  // is none.
  int64_t relief(std::size_t begin, std::size_t end, Bytes bytes) const {
    return std::min(bytes_[end] - bytes_[begin], bytes * (positions_[end] - positions_[begin]));
  }
  bool any(std::size_t begin, std::size_t end) const { return positions_[end] > positions_[begin]; }

 private:
  // Over positions, exclusive at the front: sums of the overflow, number of positions with any.
  std::vector<int64_t> bytes_;
  std::vector<int32_t> positions_;
};

}  // namespace magis
