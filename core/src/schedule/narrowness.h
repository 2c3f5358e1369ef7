// nw(v) of paper section 6.1: how many nodes are neither ancestors nor descendants of v, v aside.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/piece.h"

namespace magis {

// Counts for up to 64 nodes at a time: one bit each in a word by node says from which of them it is
// reached, and two sweeps over the order carry the words along the edges. Nothing has to be kept
// from one graph to the next. O(nodes + edges).
class Narrowness {
 public:
  static constexpr std::size_t kMostQueries = 64;

  // The counts of the nodes at the given positions.
  std::span<const int> count(const PlacedOrder& placed, std::span<const int> positions);

 private:
  // Adds one to the number of every bit that is set: the numbers' binary digits are kept in words.
  class BitCounters {
   public:
    void clear() { digits_.fill(0); }
    void add(uint64_t bits) {
      for (std::size_t d = 0; bits != 0; ++d) {
        const uint64_t carry = digits_[d] & bits;
        digits_[d] ^= bits;
        bits = carry;
      }
    }
    int number(std::size_t bit) const;

   private:
    std::array<uint64_t, 32> digits_;
  };

  std::vector<uint64_t> reached_;  // by position
  BitCounters related_;            // ancestors and descendants, each node twice with itself
  std::array<int, kMostQueries> counts_;
};

}  // namespace magis
