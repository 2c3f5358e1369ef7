// Random sequences, held against an allocator that keeps nothing but which bytes are in use and
// which pages are there, and finds everything else anew at each request.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "magis/simulate/caching_allocator.h"
#include "support/random.h"

namespace magis {
namespace {

using test::Random;

// low <= result <= high
Bytes in(Random& random, Bytes low, Bytes high) {
  return low + static_cast<Bytes>(random.below(static_cast<uint64_t>(high - low + 1)));
}

class PlainAllocator {
 public:
  explicit PlainAllocator(const AllocatorSettings& settings) : settings_(settings) {}

  // (segment, offset) of the block.
  using Place = std::pair<std::size_t, Bytes>;

  std::optional<Place> allocate(Bytes bytes) {
    const Bytes size = rounded(bytes);
    const bool is_small = size <= 1_MiB;
    std::optional<Hole> hole = best_hole(size, is_small);
    if (!hole) {
      collect_garbage();
      hole = grow(size, is_small);
    }
    if (!hole && release_oversize(size)) hole = grow(size, is_small);
    if (!hole) {
      empty_cache();
      hole = grow(size, is_small);
    }
    if (!hole) return std::nullopt;
    const Bytes left = hole->size - size;
    const bool cut = is_small || settings_.expandable_segments
                         ? left >= 512
                         : size < settings_.max_split_size && left > 1_MiB;
    segments_[hole->segment].used[hole->offset] = cut ? size : hole->size;
    return Place{hole->segment, hole->offset};
  }

  void free(Place place) {
    segments_[place.first].used.erase(place.second);
    segments_[place.first].freed_at = searches_[segments_[place.first].is_small];
  }

  void empty_cache() {
    for (Segment& segment : segments_) {
      if (settings_.expandable_segments) {
        for (const int64_t page : std::set<int64_t>(segment.pages)) {
          const Bytes first = page * page_size(segment);
          if (!in_use(segment, first, first + page_size(segment))) segment.pages.erase(page);
        }
      } else if (segment.used.empty()) {
        segment.size = 0;
      }
    }
  }

  Bytes reserved() const {
    Bytes total = 0;
    for (const Segment& s : segments_) {
      total += settings_.expandable_segments ? static_cast<Bytes>(s.pages.size()) * page_size(s)
                                             : s.size;
    }
    return total;
  }
  Bytes allocated() const {
    Bytes total = 0;
    for (const Segment& s : segments_) {
      for (const auto& [offset, size] : s.used) total += size;
    }
    return total;
  }

 private:
  struct Segment {
    bool is_small = false;
    Bytes size = 0;  // 0: given back; of an expandable one: up to the last page there ever was
    std::map<Bytes, Bytes> used;  // offset, size
    std::set<int64_t> pages;      // of an expandable one
    int64_t freed_at = 0;
  };
  struct Hole {
    std::size_t segment;
    Bytes offset, size;
    bool at_end;  // of what an expandable segment has had so far
    Bytes unmapped_behind;
  };

  Bytes page_size(const Segment& s) const { return s.is_small ? 2_MiB : settings_.large_segment; }

  Bytes rounded(Bytes bytes) const {
    if (bytes < 512) return 512;
    Bytes power = 1;
    int exponent = 0;
    for (; power * 2 <= bytes; power *= 2) ++exponent;
    const int parts =
        settings_
            .roundup_power2_divisions[static_cast<std::size_t>(std::clamp(exponent - 20, 0, 15))];
    const Bytes step = parts > 1 && bytes > 512 * parts ? power / parts : 512;
    Bytes size = 0;
    while (size < bytes) size += step;
    return size;
  }

  static bool in_use(const Segment& s, Bytes first, Bytes end) {
    return std::ranges::any_of(s.used, [&](const auto& block) {
      return block.first < end && first < block.first + block.second;
    });
  }

  // Runs of units of 512 bytes that are not in use and all with memory behind them, or all without.
  std::vector<Hole> holes(std::size_t number, bool with_memory) const {
    const Segment& s = segments_[number];
    std::set<Bytes> borders = {0, s.size};
    for (const auto& [offset, size] : s.used) borders.insert({offset, offset + size});
    if (settings_.expandable_segments) {
      for (Bytes b = 0; b < s.size; b += page_size(s)) borders.insert(b);
    }
    std::vector<Hole> found;
    for (auto b = borders.begin(); std::next(b) != borders.end(); ++b) {
      const Bytes end = *std::next(b);
      const bool there = !settings_.expandable_segments || s.pages.contains(*b / page_size(s));
      if (in_use(s, *b, end) || there != with_memory) continue;
      if (!found.empty() && found.back().offset + found.back().size == *b) {
        found.back().size += end - *b;
      } else {
        found.push_back({number, *b, end - *b, false, 0});
      }
    }
    return found;
  }

  std::vector<Hole> holes_of_pool(bool is_small) const {
    std::vector<Hole> all;
    for (std::size_t n = 0; n < segments_.size(); ++n) {
      if (segments_[n].is_small != is_small) continue;
      const std::vector<Hole> without = holes(n, false);
      for (Hole hole : holes(n, true)) {
        hole.at_end = hole.offset + hole.size == segments_[n].size;
        for (const Hole& next : without) {
          if (next.offset != hole.offset + hole.size) continue;
          hole.unmapped_behind = next.size;
          if (next.offset + next.size == segments_[n].size) hole.at_end = true;
        }
        all.push_back(hole);
      }
    }
    std::ranges::stable_sort(all, {}, &Hole::size);  // already by segment and offset
    return all;
  }

  std::optional<Hole> best_hole(Bytes size, bool is_small) {
    ++searches_[is_small];
    const std::vector<Hole> all = holes_of_pool(is_small);
    auto best = std::ranges::find_if(all, [&](const Hole& hole) { return hole.size >= size; });
    if (best == all.end()) return std::nullopt;
    if (settings_.expandable_segments) {
      const auto grown = [](const Hole& hole) {
        return hole.at_end ? Bytes{1} << 44 : hole.size + hole.unmapped_behind;
      };
      for (auto next = best + 1; next != all.end() && grown(*next) < grown(*best); ++next) {
        best = next;
      }
    }
    if (size < settings_.max_split_size && best->size >= settings_.max_split_size) return {};
    if (size >= settings_.max_split_size && best->size >= size + settings_.max_non_split_rounding) {
      return {};
    }
    return *best;
  }

  bool fits(Bytes more) const {
    return reserved() + more <= std::min(settings_.device_memory, settings_.allowed_memory);
  }

  std::optional<Hole> grow(Bytes size, bool is_small) {
    if (settings_.expandable_segments) return grow_pages(size, is_small);
    Bytes segment = is_small ? 2_MiB : size < 10_MiB ? settings_.large_segment : 0;
    if (segment == 0) {
      while (segment < size) segment += 2_MiB;
    }
    if (!fits(segment)) return std::nullopt;
    segments_.push_back({.is_small = is_small, .size = segment, .used = {}, .pages = {}});
    return Hole{segments_.size() - 1, 0, segment, false, 0};
  }

  // The first place with an absent page that has `size` bytes free, present or not; pages are put
  // there from its beginning.
  std::optional<Hole> grow_pages(Bytes size, bool is_small) {
    auto found = std::ranges::find(segments_, is_small, &Segment::is_small);
    if (found == segments_.end()) {
      segments_.push_back({.is_small = is_small, .size = 0, .used = {}, .pages = {}});
      found = segments_.end() - 1;
    }
    Segment& s = *found;
    const auto number = static_cast<std::size_t>(found - segments_.begin());
    const Bytes page = page_size(s);
    for (Bytes absent = 0;; absent += page) {
      if (s.pages.contains(absent / page)) continue;
      Bytes first = absent;  // back to the last block in use, if what is between is there
      while (first > 0 && s.pages.contains((first - 512) / page) &&
             !in_use(s, first - 512, first)) {
        first -= 512;
      }
      if (in_use(s, first, first + size)) continue;
      for (Bytes at = first / page * page; at < first + size; at += page) {
        if (s.pages.contains(at / page)) continue;
        if (!fits(page)) return std::nullopt;
        // Memory for one stretch of absent pages is taken at once or not at all.
        Bytes stretch = 0;
        for (Bytes p = at; p < first + size && !s.pages.contains(p / page); p += page) {
          stretch += page;
        }
        if (!fits(stretch)) return std::nullopt;
        for (Bytes p = at; p < at + stretch; p += page) s.pages.insert(p / page);
        s.size = std::max(s.size, at + stretch);
      }
      for (const Hole& hole : holes(number, true)) {
        if (hole.offset == first) return hole;
      }
      ADD_FAILURE() << "no hole where pages were put";
    }
  }

  bool is_garbage(const Segment& s) const {
    return !s.is_small && s.size > 0 && s.used.empty() && !settings_.expandable_segments;
  }

  void collect_garbage() {
    if (settings_.garbage_collection_threshold == 0 ||
        settings_.allowed_memory == AllocatorSettings::kUnlimited) {
      return;
    }
    const auto allowed = static_cast<double>(settings_.allowed_memory);
    const auto most = static_cast<Bytes>(settings_.garbage_collection_threshold * allowed);
    for (bool released = true; released && reserved() > most;) {
      double ages = 0;
      int count = 0;
      for (const Segment& s : segments_) {
        if (!is_garbage(s)) continue;
        ages += static_cast<double>(searches_[0] - s.freed_at);
        ++count;
      }
      released = false;
      for (Segment& s : segments_) {
        if (!is_garbage(s)) continue;
        if (static_cast<double>(searches_[0] - s.freed_at) * count < ages) continue;
        s.size = 0;
        released = true;
      }
    }
  }

  bool release_oversize(Bytes size) {
    const Bytes unsplit = settings_.max_split_size;
    if (unsplit == AllocatorSettings::kUnlimited || size <= 1_MiB) return false;
    if (settings_.expandable_segments) return false;
    const Bytes wanted = std::max(size, unsplit);
    std::vector<Hole> large;
    for (const Hole& hole : holes_of_pool(false)) {
      if (hole.size >= unsplit) large.push_back(hole);
    }
    for (const Hole& hole : large) {
      if (hole.size < wanted) continue;
      segments_[hole.segment].size = 0;
      return true;
    }
    Bytes released = 0;
    for (; !large.empty() && released < wanted; large.pop_back()) {
      released += large.back().size;
      segments_[large.back().segment].size = 0;
    }
    return released >= wanted;
  }

  AllocatorSettings settings_;
  std::vector<Segment> segments_;
  int64_t searches_[2] = {0, 0};  // large, small
};

AllocatorSettings random_settings(Random& random) {
  AllocatorSettings settings;
  if (random.below(2) == 0) settings.device_memory = 2_MiB * in(random, 20, 120);
  if (random.below(4) == 0) settings.allowed_memory = 2_MiB * in(random, 20, 120);
  if (random.below(2) == 0)
    settings.garbage_collection_threshold = 0.1 * static_cast<double>(in(random, 1, 9));
  if (random.below(3) == 0) settings.max_split_size = 1_MiB * in(random, 21, 60);
  if (random.below(4) == 0) settings.max_non_split_rounding = 1_MiB * in(random, 2, 30);
  for (int& parts : settings.roundup_power2_divisions) {
    if (random.below(4) == 0) parts = 1 << static_cast<int>(random.below(4));
  }
  settings.expandable_segments = random.below(3) == 0;
  if (settings.expandable_segments) settings.max_split_size = AllocatorSettings::kUnlimited;
  return settings;
}

Bytes random_size(Random& random) {
  switch (random.below(4)) {
    case 0:
      return in(random, 1, 5000);
    case 1:
      return 512 * in(random, 1, 4096);
    case 2:
      return 1_MiB * in(random, 1, 12);
    default:
      return in(random, 1, 48'000'000);
  }
}

TEST(CachingAllocatorTwin, AgreesOnRandomSequences) {
  for (int seed = 0; seed < 300; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const AllocatorSettings settings = random_settings(random);
    CachingAllocator allocator(settings);
    PlainAllocator plain(settings);
    std::vector<std::pair<int, PlainAllocator::Place>> live;
    for (int step = 0; step < 120; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      if (random.below(40) == 0) {
        allocator.empty_cache();
        plain.empty_cache();
      } else if (!live.empty() && random.below(5) < 2) {
        const auto which = static_cast<std::size_t>(random.below(live.size()));
        allocator.free(live[which].first);
        plain.free(live[which].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const Bytes size = random_size(random);
        const auto block = allocator.allocate(size);
        const auto place = plain.allocate(size);
        ASSERT_EQ(block.has_value(), place.has_value()) << size;
        if (block) live.emplace_back(*block, *place);
      }
      ASSERT_EQ(allocator.reserved(), plain.reserved());
      ASSERT_EQ(allocator.allocated(), plain.allocated());
    }
  }
}

}  // namespace
}  // namespace magis
