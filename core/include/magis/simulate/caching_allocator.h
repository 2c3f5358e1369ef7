// PyTorch's caching allocator for CUDA on paper: which memory it takes from the device (reserves)
// for a sequence of allocations, and keeps. After its published rules (torch/docs, "CUDA
// semantics", and the contracts in c10/core/AllocatorConfig.h), for one stream.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "magis/base/units.h"

namespace magis {

// What PYTORCH_ALLOC_CONF sets, in bytes; the defaults are PyTorch's.
struct AllocatorSettings {
  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  Bytes device_memory = kUnlimited;  // cudaMalloc fails beyond
  // set_per_process_memory_fraction in bytes. Garbage is collected only where it is set.
  Bytes allowed_memory = kUnlimited;
  double garbage_collection_threshold = 0;  // share of allowed_memory; 0: never
  Bytes max_split_size = kUnlimited;        // larger blocks are never split
  Bytes max_non_split_rounding = 20_MiB;    // how much larger one may be than what is put into it
  Bytes large_segment = 20_MiB;             // of requests from 1 to 10 MiB
  // Parts between two powers of two that sizes are rounded to, by the power: up to 2 MiB, up to 4
  // MiB, ..., 32 GiB and more. 0 and 1: sizes are multiples of 512.
  std::array<int, 16> roundup_power2_divisions = {};
  bool expandable_segments = false;
};

// Memory in segments, each a row of blocks that are allocated or free; neighbours that are free
// are one block. A request takes the smallest free block of its pool (small: up to 1 MiB) that
// fits, at equal sizes the one at the lowest address; segments lie in the order in which they were
// made. Costs of an allocation and a free: O(log blocks), unless memory runs out.
class CachingAllocator {
 public:
  using BlockId = int;

  explicit CachingAllocator(const AllocatorSettings& settings) : settings_(settings) {}

  // Nothing if the device has not enough memory, even after all cached blocks were given back.
  // Requires bytes > 0: PyTorch allocates nothing for empty tensors.
  std::optional<BlockId> allocate(Bytes bytes);
  void free(BlockId block);
  // torch.cuda.empty_cache(): gives back the segments (of expandable ones: the pages) that are
  // free as a whole.
  void empty_cache();

  Bytes reserved() const { return reserved_; }    // torch.cuda.memory_reserved()
  Bytes allocated() const { return allocated_; }  // torch.cuda.memory_allocated()
  Bytes size(BlockId block) const { return blocks_[static_cast<std::size_t>(block)].size; }
  // The largest that each has been, and what was allocated when `reserved` first was at its
  // largest.
  Bytes reserved_peak() const { return reserved_peak_; }
  Bytes allocated_peak() const { return allocated_peak_; }
  Bytes allocated_at_reserved_peak() const { return allocated_at_reserved_peak_; }
  int cache_flushes() const { return cache_flushes_; }  // when memory ran out

  Bytes rounded(Bytes bytes) const;         // what a block for so many bytes holds at least
  Bytes segment_size(Bytes rounded) const;  // of a new segment for it

 private:
  static constexpr BlockId kNone = -1;
  struct Block {
    Bytes address = 0;
    Bytes size = 0;
    BlockId previous = kNone, next = kNone;  // in its segment
    bool is_small = false;                   // which pool
    bool is_free = true;
    bool is_mapped = true;  // in an expandable segment: has memory behind it
    bool expandable = false;
    int64_t searches_before = 0;  // of its pool, when it became free
  };
  struct Pool {
    std::set<std::pair<Bytes, std::pair<Bytes, BlockId>>> free;  // by size, then address
    std::set<std::pair<Bytes, BlockId>> unmapped;                // by address
    int64_t searches = 0;
  };

  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  Pool& pool_of(bool is_small) { return is_small ? small_ : large_; }
  BlockId make_block(const Block& block);
  void insert_free(BlockId id);
  void erase_free(BlockId id);
  BlockId insert_between(BlockId previous, BlockId next, const Block& block);
  void absorb(BlockId into, BlockId neighbour);
  void merge_neighbours(BlockId id);
  bool is_whole_segment(BlockId id);

  BlockId find_free(Bytes size, bool is_small);
  BlockId grow(Bytes size, Bytes segment, bool is_small);
  bool fits_device(Bytes more) const;
  void split(BlockId id, Bytes size);
  void collect_garbage();
  bool release_oversize(Bytes size);
  void release_segment(BlockId id);
  void note_peaks();

  // Expandable segments.
  BlockId find_expandable(Bytes size, bool is_small);
  bool has_room(BlockId first, Bytes size);
  BlockId expand(Bytes size, bool is_small);
  bool map(BlockId id, Bytes size);
  void unmap(BlockId id);
  Bytes page(bool is_small) const { return is_small ? kSmallSegment : settings_.large_segment; }

  static constexpr Bytes kSmallSegment = 2_MiB;

  AllocatorSettings settings_;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;  // places in blocks_
  Pool small_, large_;
  Bytes next_address_ = 0;
  Bytes reserved_ = 0, allocated_ = 0;
  Bytes reserved_peak_ = 0, allocated_peak_ = 0, allocated_at_reserved_peak_ = 0;
  int cache_flushes_ = 0;
};

}  // namespace magis
