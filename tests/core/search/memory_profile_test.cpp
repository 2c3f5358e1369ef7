#include "search/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "search/random.h"

namespace magis {
namespace {

// The same figures, counted from scratch.
struct Plain {
  explicit Plain(std::size_t positions) : carry(positions + 1, 0), top(positions, 0) {}

  Bytes bytes_at(std::size_t k) const { return carry[k] + top[k]; }
  std::size_t peak_position() const {
    std::size_t best = 0;
    for (std::size_t k = 1; k < top.size(); ++k) {
      if (bytes_at(k) > bytes_at(best)) best = k;
    }
    return best;
  }
  int64_t overflow(Bytes target) const {
    int64_t sum = 0;
    for (std::size_t k = 0; k < top.size(); ++k) sum += std::max<Bytes>(0, bytes_at(k) - target);
    return sum;
  }

  std::vector<Bytes> carry;
  std::vector<Bytes> top;
};

TEST(MemoryProfile, EqualsThePlainOne) {
  for (const std::size_t positions : {1, 2, 3, 15, 16, 17, 64, 250, 1000}) {
    Random random(positions);
    MemoryProfile profile(positions);
    Plain plain(positions);
    std::vector<Bytes> steps(positions + 1);
    for (Bytes& step : steps) step = static_cast<Bytes>(random.below(100));
    profile.set_carries(steps);
    std::inclusive_scan(steps.begin(), steps.end(), plain.carry.begin());
    const Bytes most = 120 * static_cast<Bytes>(positions);
    Bytes target = most / 2;
    for (int edit = 0; edit < 2000; ++edit) {
      if (random.below(2) == 0) {
        std::size_t first = random.below(positions + 1);
        std::size_t last = random.below(positions + 1);
        if (first > last) std::swap(first, last);
        const Bytes bytes = static_cast<Bytes>(random.below(200)) - 100;
        profile.add_carry(static_cast<int>(first), static_cast<int>(last), bytes);
        for (std::size_t border = first; border <= last; ++border) plain.carry[border] += bytes;
      } else {
        const std::size_t position = random.below(positions);
        const auto bytes = static_cast<Bytes>(random.below(500));
        profile.set_top(static_cast<int>(position), bytes);
        plain.top[position] = bytes;
      }
      if (random.below(8) == 0) target = static_cast<Bytes>(random.below(most + 1));
      if (random.below(3) == 0) continue;  // some edits are looked at together
      const std::size_t peak = plain.peak_position();
      ASSERT_EQ(profile.peak_position(), static_cast<int>(peak)) << positions << " " << edit;
      ASSERT_EQ(profile.peak(), std::max<Bytes>(0, plain.bytes_at(peak)));
      ASSERT_EQ(profile.overflow(target), plain.overflow(target));
      const std::size_t k = random.below(positions);
      ASSERT_EQ(profile.carry(static_cast<int>(k)), plain.carry[k]);
      ASSERT_EQ(profile.bytes_at(static_cast<int>(k)), plain.bytes_at(k));
    }
  }
}

}  // namespace
}  // namespace magis
