#include "magis/simulate/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "magis/base/error.h"

namespace magis {
namespace {

constexpr Bytes kSmallestBlock = 512;
constexpr Bytes kLargestSmall = 1_MiB;
constexpr Bytes kSmallestOwnSegment = 10_MiB;
constexpr Bytes kSegmentUnit = 2_MiB;

Bytes round_up(Bytes bytes, Bytes unit) { return (bytes + unit - 1) / unit * unit; }

bool is_small_size(Bytes size) { return size <= kLargestSmall; }

}  // namespace

Bytes CachingAllocator::rounded(Bytes bytes) const {
  if (bytes < kSmallestBlock) return kSmallestBlock;
  const auto unsigned_bytes = static_cast<uint64_t>(bytes);
  const auto power = static_cast<int>(std::bit_width(unsigned_bytes)) - 1;
  const int most = static_cast<int>(settings_.roundup_power2_divisions.size()) - 1;
  const int divisions =
      settings_.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(power - 20, 0, most))];
  if (divisions <= 1 || bytes <= kSmallestBlock * divisions) {
    return round_up(bytes, kSmallestBlock);
  }
  return round_up(bytes, (Bytes{1} << power) / divisions);
}

Bytes CachingAllocator::segment_size(Bytes rounded) const {
  if (is_small_size(rounded)) return kSmallSegment;
  if (rounded < kSmallestOwnSegment) return settings_.large_segment;
  return round_up(rounded, kSegmentUnit);
}

std::optional<CachingAllocator::BlockId> CachingAllocator::allocate(Bytes bytes) {
  MAGIS_CHECK(bytes > 0, "an allocation of " << bytes << " bytes");
  const Bytes size = rounded(bytes);
  const Bytes segment = segment_size(size);
  const bool is_small = is_small_size(size);
  BlockId block = find_free(size, is_small);
  if (block == kNone) {
    collect_garbage();
    block = grow(size, segment, is_small);
  }
  if (block == kNone && release_oversize(size)) block = grow(size, segment, is_small);
  if (block == kNone) {
    empty_cache();
    ++cache_flushes_;
    block = grow(size, segment, is_small);
  }
  if (block == kNone) return std::nullopt;
  split(block, size);
  at(block).is_free = false;
  allocated_ += at(block).size;
  note_peaks();
  return block;
}

void CachingAllocator::free(BlockId id) {
  MAGIS_CHECK(!at(id).is_free, "block " << id << " is freed twice");
  allocated_ -= at(id).size;
  at(id).is_free = true;
  merge_neighbours(id);
  insert_free(id);
}

void CachingAllocator::empty_cache() {
  for (Pool* pool : {&large_, &small_}) {
    const auto before = pool->free;
    for (const auto& [size, place] : before) {
      const BlockId id = place.second;
      if (at(id).expandable) {
        unmap(id);
      } else if (is_whole_segment(id)) {
        release_segment(id);
      }
    }
  }
}

// ---- blocks

CachingAllocator::BlockId CachingAllocator::make_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  at(id) = block;
  return id;
}

void CachingAllocator::insert_free(BlockId id) {
  Pool& pool = pool_of(at(id).is_small);
  at(id).searches_before = pool.searches;
  pool.free.insert({at(id).size, {at(id).address, id}});
}

void CachingAllocator::erase_free(BlockId id) {
  pool_of(at(id).is_small).free.erase({at(id).size, {at(id).address, id}});
}

CachingAllocator::BlockId CachingAllocator::insert_between(BlockId previous, BlockId next,
                                                           const Block& block) {
  const BlockId id = make_block(block);
  at(id).previous = previous;
  at(id).next = next;
  if (previous != kNone) at(previous).next = id;
  if (next != kNone) at(next).previous = id;
  return id;
}

// Requires that `into` is in no set.
void CachingAllocator::absorb(BlockId into, BlockId neighbour) {
  const Block other = at(neighbour);
  if (other.is_mapped) {
    erase_free(neighbour);
  } else {
    pool_of(other.is_small).unmapped.erase({other.address, neighbour});
  }
  Block& block = at(into);
  block.size += other.size;
  if (other.address < block.address) {
    block.address = other.address;
    block.previous = other.previous;
    if (block.previous != kNone) at(block.previous).next = into;
  } else {
    block.next = other.next;
    if (block.next != kNone) at(block.next).previous = into;
  }
  unused_.push_back(neighbour);
}

void CachingAllocator::merge_neighbours(BlockId id) {
  for (const BlockId neighbour : {at(id).previous, at(id).next}) {
    if (neighbour == kNone || !at(neighbour).is_free) continue;
    if (at(neighbour).is_mapped == at(id).is_mapped) absorb(id, neighbour);
  }
}

bool CachingAllocator::is_whole_segment(BlockId id) {
  return at(id).previous == kNone && at(id).next == kNone;
}

// ---- where a request goes

CachingAllocator::BlockId CachingAllocator::find_free(Bytes size, bool is_small) {
  Pool& pool = pool_of(is_small);
  ++pool.searches;
  auto found = pool.free.lower_bound({size, {0, kNone}});
  if (found == pool.free.end()) return kNone;
  if (at(found->second.second).expandable) {
    // What a segment may still grow by counts as if it were there already.
    const auto size_grown = [&](BlockId id) {
      const BlockId next = at(id).next;
      return at(id).size + (next != kNone && !at(next).is_mapped ? at(next).size : 0);
    };
    for (auto next = std::next(found);
         next != pool.free.end() && at(found->second.second).expandable &&
         size_grown(next->second.second) < size_grown(found->second.second);
         ++next) {
      found = next;
    }
  }
  const BlockId id = found->second.second;
  if (size < settings_.max_split_size && at(id).size >= settings_.max_split_size) return kNone;
  if (size >= settings_.max_split_size && at(id).size >= size + settings_.max_non_split_rounding) {
    return kNone;
  }
  pool.free.erase(found);
  return id;
}

bool CachingAllocator::fits_device(Bytes more) const {
  return more <= std::min(settings_.device_memory, settings_.allowed_memory) - reserved_;
}

// A free block that is in no set, in memory that was taken for it.
CachingAllocator::BlockId CachingAllocator::grow(Bytes size, Bytes segment, bool is_small) {
  if (settings_.expandable_segments) return expand(size, is_small);
  if (!fits_device(segment)) return kNone;
  Block block;
  block.address = next_address_;
  block.size = segment;
  block.is_small = is_small;
  next_address_ += segment;
  reserved_ += segment;
  return make_block(block);
}

// Cuts off what a request of `size` leaves of its block, if that is worth a block of its own.
void CachingAllocator::split(BlockId id, Bytes size) {
  const Bytes left = at(id).size - size;
  const bool worth = at(id).is_small || settings_.expandable_segments
                         ? left >= kSmallestBlock
                         : size < settings_.max_split_size && left > kLargestSmall;
  if (!worth) return;
  Block rest = at(id);
  rest.address += size;
  rest.size = left;
  at(id).size = size;
  insert_free(insert_between(id, at(id).next, rest));
}

void CachingAllocator::note_peaks() {
  allocated_peak_ = std::max(allocated_peak_, allocated_);
  if (reserved_ > reserved_peak_) {
    reserved_peak_ = reserved_;
    allocated_at_reserved_peak_ = allocated_;
  }
}

// ---- when memory is short

void CachingAllocator::release_segment(BlockId id) {
  erase_free(id);
  reserved_ -= at(id).size;
  unused_.push_back(id);
}

// Large segments that are free as a whole and older than the average, until reserved memory is
// below the threshold.
void CachingAllocator::collect_garbage() {
  if (settings_.garbage_collection_threshold <= 0 ||
      settings_.allowed_memory == AllocatorSettings::kUnlimited) {
    return;
  }
  const auto threshold = static_cast<Bytes>(settings_.garbage_collection_threshold *
                                            static_cast<double>(settings_.allowed_memory));
  const auto age = [&](BlockId id) {
    return static_cast<double>(large_.searches - at(id).searches_before);
  };
  double ages = 0;
  int count = 0;
  for (const auto& [size, place] : large_.free) {
    if (!is_whole_segment(place.second)) continue;
    ages += age(place.second);
    ++count;
  }
  bool released = true;
  const Bytes wanted = reserved_ - threshold;
  Bytes reclaimed = 0;
  while (reclaimed < wanted && released && count > 0) {
    const double average = ages / count;
    released = false;
    const auto before = large_.free;
    for (const auto& [size, place] : before) {
      const BlockId id = place.second;
      if (!is_whole_segment(id) || at(id).expandable || age(id) < average) continue;
      released = true;
      reclaimed += size;
      ages -= age(id);
      --count;
      release_segment(id);
    }
  }
}

// Blocks too large to be split, as many as make room for `size`.
bool CachingAllocator::release_oversize(Bytes size) {
  if (settings_.max_split_size == AllocatorSettings::kUnlimited || is_small_size(size)) {
    return false;
  }
  const Bytes wanted = std::max(size, settings_.max_split_size);
  const auto fits = large_.free.lower_bound({wanted, {0, kNone}});
  if (fits != large_.free.end() && !at(fits->second.second).expandable) {
    release_segment(fits->second.second);
    return true;
  }
  std::vector<BlockId> oversize;  // those below, largest first
  for (auto block = fits; block != large_.free.begin();) {
    --block;
    if (block->first < settings_.max_split_size) break;
    if (!at(block->second.second).expandable) oversize.push_back(block->second.second);
  }
  Bytes released = 0;
  for (const BlockId id : oversize) {
    if (released >= wanted) break;
    released += at(id).size;
    release_segment(id);
  }
  return released >= wanted;
}

// ---- expandable segments: addresses are plenty, memory is put behind them page by page

// Whether the free blocks from `first` on, with or without memory, have so many addresses.
bool CachingAllocator::has_room(BlockId first, Bytes size) {
  Bytes found = 0;
  for (BlockId id = first; found < size && id != kNone && at(id).is_free; id = at(id).next) {
    found += at(id).size;
  }
  return found >= size;
}

CachingAllocator::BlockId CachingAllocator::find_expandable(Bytes size, bool is_small) {
  Pool& pool = pool_of(is_small);
  for (const auto& [address, id] : pool.unmapped) {
    const BlockId before = at(id).previous;
    const BlockId first = before != kNone && at(before).is_free ? before : id;
    if (has_room(first, size)) return first;
  }
  constexpr Bytes kPages = Bytes{1} << 20;  // more than any device has
  const Bytes unit = page(is_small);
  Block segment;
  segment.address = round_up(next_address_, unit);
  segment.size = kPages * unit;
  segment.is_small = is_small;
  segment.is_mapped = false;
  segment.expandable = true;
  next_address_ = segment.address + segment.size;
  const BlockId id = make_block(segment);
  pool.unmapped.insert({at(id).address, id});
  return id;
}

// Puts memory behind the beginning of an unmapped block: `size` bytes, in whole pages.
bool CachingAllocator::map(BlockId id, Bytes size) {
  const Bytes mapped = round_up(size, page(at(id).is_small));
  if (!fits_device(mapped)) return false;
  pool_of(at(id).is_small).unmapped.erase({at(id).address, id});
  if (mapped < at(id).size) {
    Block rest = at(id);
    rest.address += mapped;
    rest.size -= mapped;
    at(id).size = mapped;
    const BlockId left = insert_between(id, at(id).next, rest);
    pool_of(rest.is_small).unmapped.insert({rest.address, left});
  }
  at(id).is_mapped = true;
  merge_neighbours(id);
  insert_free(id);
  reserved_ += mapped;
  return true;
}

CachingAllocator::BlockId CachingAllocator::expand(Bytes size, bool is_small) {
  BlockId id = find_expandable(size, is_small);
  if (!at(id).is_mapped && !map(id, std::min(at(id).size, size))) return kNone;
  while (at(id).size < size) {
    const BlockId next = at(id).next;
    if (!map(next, std::min(size - at(id).size, at(next).size))) return kNone;
    id = next;
  }
  erase_free(id);
  return id;
}

// Takes the memory from a free block, as far as it holds whole pages.
void CachingAllocator::unmap(BlockId id) {
  const Block block = at(id);
  const Bytes unit = page(block.is_small);
  const Bytes first = round_up(block.address, unit);
  const Bytes end = (block.address + block.size) / unit * unit;
  if (first >= end) return;
  erase_free(id);
  Block rest = block;
  if (first > block.address) {
    rest.size = first - block.address;
    insert_free(insert_between(at(id).previous, id, rest));
  }
  if (end < block.address + block.size) {
    rest.address = end;
    rest.size = block.address + block.size - end;
    insert_free(insert_between(id, at(id).next, rest));
  }
  at(id).address = first;
  at(id).size = end - first;
  at(id).is_mapped = false;
  merge_neighbours(id);
  pool_of(block.is_small).unmapped.insert({at(id).address, id});
  reserved_ -= end - first;
}

}  // namespace magis
