// How many bytes a schedule takes while each segment of it runs: what is carried across the front
// border of the segment, and what the segment itself adds at most.
//
// Positions stand in blocks of about the square root of their number. A tensor that lives for more
// or less long changes a stretch of carries: the blocks that lie in it whole are moved by one
// number each, and only what is not known of a block is looked up in it. So an edit and the figures
// after it take time that grows with that root.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "magis/base/units.h"

namespace magis {

class MemoryProfile {
 public:
  explicit MemoryProfile(std::size_t positions);

  // The carries anew: `steps` says by how much each border, the last one included, lies above the
  // one before.
  void set_carries(std::span<const Bytes> steps);
  // To the borders in front of positions `first` to `last`; the number of positions is the border
  // at the end. Requires first <= last.
  void add_carry(int first, int last, Bytes bytes);
  void set_top(int position, Bytes bytes);

  Bytes carry(int position) const { return carry_[at(position)] + moved_[block_of(position)]; }
  Bytes top(int position) const { return top_[at(position)]; }
  Bytes bytes_at(int position) const { return carry(position) + top(position); }

  Bytes peak() const;
  int peak_position() const;  // the first
  // Sum over segments of the bytes above `target`. Fast while the target stays the same.
  int64_t overflow(Bytes target) const;

 private:
  static std::size_t at(int position) { return static_cast<std::size_t>(position); }
  std::size_t block_of(int position) const { return at(position) >> shift_; }
  std::size_t block_begin(std::size_t block) const { return block << shift_; }
  std::size_t block_end(std::size_t block) const;
  Bytes highest_in(std::size_t block) const;
  void change(std::size_t block) { highest_known_[block] = overflow_known_[block] = 0; }

  int shift_;
  std::vector<Bytes> carry_;  // by border, without what its block was moved by
  std::vector<Bytes> top_;    // by position
  // By block.
  std::vector<Bytes> moved_;
  mutable std::vector<Bytes> highest_;  // carry and top, without what the block was moved by
  mutable std::vector<uint8_t> highest_known_;
  mutable std::vector<int64_t> overflow_;  // above target_
  mutable std::vector<uint8_t> overflow_known_;
  mutable Bytes target_ = 0;
};

}  // namespace magis
