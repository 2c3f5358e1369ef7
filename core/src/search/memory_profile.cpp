#include "search/memory_profile.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace magis {

MemoryProfile::MemoryProfile(std::size_t positions)
    : shift_(static_cast<int>(std::bit_width(positions)) / 2),
      carry_(positions + 1, 0),
      top_(positions, 0),
      moved_((positions >> shift_) + 1, 0),
      highest_(moved_.size(), 0),
      highest_known_(moved_.size(), 0),
      overflow_(moved_.size(), 0),
      overflow_known_(moved_.size(), 0) {}

void MemoryProfile::set_carries(std::span<const Bytes> steps) {
  Bytes carried = 0;
  for (std::size_t border = 0; border < carry_.size(); ++border) {
    carried += steps[border];
    carry_[border] = carried;
  }
  std::ranges::fill(moved_, 0);
  std::ranges::fill(highest_known_, 0);
  std::ranges::fill(overflow_known_, 0);
}

void MemoryProfile::add_carry(int first, int last, Bytes bytes) {
  const std::size_t end = at(last) + 1;
  std::size_t border = at(first);
  while (border < end) {
    const std::size_t block = border >> shift_;
    const std::size_t next = block_begin(block + 1);
    if (border == block_begin(block) && next <= end) {
      moved_[block] += bytes;
      overflow_known_[block] = 0;
    } else {
      const std::size_t stop = std::min(next, end);
      for (std::size_t b = border; b < stop; ++b) carry_[b] += bytes;
      change(block);
    }
    border = next;
  }
}

void MemoryProfile::set_top(int position, Bytes bytes) {
  top_[at(position)] = bytes;
  change(block_of(position));
}

std::size_t MemoryProfile::block_end(std::size_t block) const {
  return std::min(block_begin(block + 1), top_.size());
}

// No position, nothing: the last block may hold the border at the end alone.
Bytes MemoryProfile::highest_in(std::size_t block) const {
  if (!highest_known_[block]) {
    Bytes highest = std::numeric_limits<Bytes>::min() / 2;
    const std::size_t end = block_end(block);
    for (std::size_t k = block_begin(block); k < end; ++k) {
      highest = std::max(highest, carry_[k] + top_[k]);
    }
    highest_[block] = highest;
    highest_known_[block] = 1;
  }
  return highest_[block] + moved_[block];
}

Bytes MemoryProfile::peak() const {
  Bytes peak = 0;
  for (std::size_t block = 0; block < moved_.size(); ++block) {
    peak = std::max(peak, highest_in(block));
  }
  return peak;
}

int MemoryProfile::peak_position() const {
  std::size_t best = 0;
  for (std::size_t block = 1; block < moved_.size(); ++block) {
    if (highest_in(block) > highest_in(best)) best = block;
  }
  const Bytes peak = highest_in(best);
  auto position = static_cast<int>(block_begin(best));
  while (bytes_at(position) != peak) ++position;
  return position;
}

int64_t MemoryProfile::overflow(Bytes target) const {
  if (target != target_) {
    target_ = target;
    std::ranges::fill(overflow_known_, 0);
  }
  int64_t sum = 0;
  for (std::size_t block = 0; block < moved_.size(); ++block) {
    if (highest_in(block) <= target) continue;
    if (!overflow_known_[block]) {
      const Bytes room = target - moved_[block];
      const std::size_t end = block_end(block);
      int64_t above = 0;
      for (std::size_t k = block_begin(block); k < end; ++k) {
        above += std::max<Bytes>(0, carry_[k] + top_[k] - room);
      }
      overflow_[block] = above;
      overflow_known_[block] = 1;
    }
    sum += overflow_[block];
  }
  return sum;
}

}  // namespace magis
