// The search's own random numbers: the same on every platform and standard library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "magis/base/hash.h"

namespace magis {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed)) {}

  uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  // Uniform in 0..n-1. Requires n > 0.
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace magis
