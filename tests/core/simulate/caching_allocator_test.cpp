// Sequences worked out by hand from the published rules. Steps of a script: `a=3M+1` allocates,
// `-a` frees, `flush` is empty_cache(). Blocks of a segment are written from its beginning, free
// ones in brackets: 4 [6] 10 is 4 MiB in use, 6 MiB free, 10 MiB in use.
#include "magis/simulate/caching_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace magis {
namespace {

struct Sequence {
  std::string name;
  std::string script;
  Bytes reserved, allocated;  // when it has run
  AllocatorSettings settings = {};
  int flushes = 0;
  std::string fails = "";  // the allocation for which there is no memory
};

// "3M+1": 3 MiB and a byte.
Bytes parse_bytes(const std::string& text) {
  std::istringstream stream(text);
  Bytes total = 0;
  for (Bytes number; stream >> number;) {
    const int unit = stream.peek();
    if (unit == 'K' || unit == 'M') stream.get();
    total += number * (unit == 'K' ? 1_KiB : unit == 'M' ? 1_MiB : 1);
    if (stream.peek() == '+') stream.get();
  }
  return total;
}

AllocatorSettings device(Bytes memory, AllocatorSettings settings = {}) {
  settings.device_memory = memory;
  return settings;
}
AllocatorSettings max_split(Bytes size) { return {.max_split_size = size}; }
AllocatorSettings garbage(Bytes allowed, double threshold) {
  return {.allowed_memory = allowed, .garbage_collection_threshold = threshold};
}
AllocatorSettings divisions(int parts) {
  AllocatorSettings settings;
  settings.roundup_power2_divisions.fill(parts);
  return settings;
}
// Eight parts from 4 to 8 MiB, none elsewhere.
AllocatorSettings eighths_of_4_to_8() {
  AllocatorSettings settings;
  settings.roundup_power2_divisions[2] = 8;
  return settings;
}
AllocatorSettings expandable() { return {.expandable_segments = true}; }

const Sequence kRounding[] = {
    // 1 -> 512; small, so a segment of 2 MiB.
    {"OneByteTakes512", "a=1", 2_MiB, 512},
    // 513 -> 2 x 512.
    {"OneByteMoreTakesTheNextMultiple", "a=513", 2_MiB, 1024},
    {"AMultipleStays", "a=1024", 2_MiB, 1024},
    // 1 + 1 = 2 MiB: both in one segment.
    {"SmallOnesShareASegment", "a=1M b=1M", 2_MiB, 2_MiB},
    // The first segment is full: a second for 512 bytes.
    {"AFullSmallSegmentIsFollowedByAnother", "a=1M b=1M c=1", 4_MiB, 2_MiB + 512},
    // 2 MiB - 1 MiB - (1 MiB - 512) = 512 is left, a block of its own: c takes it.
    {"SmallRemaindersOf512AreBlocks", "a=1M b=1023K+512 c=512", 2_MiB, 2_MiB},
    // 1 MiB + 1 -> 1 MiB + 512: large, a segment of 20 MiB, 19 MiB - 512 are left.
    {"MoreThanOneMiBIsLarge", "a=1M+1", 20_MiB, 1_MiB + 512},
    // 20: 9 9 [2].
    {"LargeOnesShareASegmentOf20MiB", "a=9M b=9M", 20_MiB, 18_MiB},
    // 20: 9 9 2.
    {"ARemainderOf2MiBIsUsed", "a=9M b=9M c=2M", 20_MiB, 20_MiB},
    // 20: 9 [11]; 10 of 11 leaves 1 MiB, not more than 1 MiB: b keeps 11. 9 + 11 = 20.
    {"ALargeRemainderOf1MiBStaysWithItsBlock", "a=9M b=10M", 20_MiB, 20_MiB},
    // 20: 9 [11]; 11 MiB - (10 MiB - 512) = 1 MiB + 512, more than 1 MiB: cut off.
    {"ALargeRemainderOfMoreIsCutOff", "a=9M b=9M+1023K+512", 20_MiB, 19_MiB - 512},
    // 10 MiB and more: a segment of its own.
    {"TenMiBHaveTheirOwnSegment", "a=10M", 10_MiB, 10_MiB},
    // 11 MiB + 512 -> a segment of 12 MiB; 1 MiB - 512 are left, not cut off.
    {"OwnSegmentsAreMultiplesOf2MiB", "a=11M+1", 12_MiB, 12_MiB},
    // 10.5 MiB -> a segment of 12 MiB; 1.5 MiB are left, cut off.
    {"TheRestOfAnOwnSegmentIsCutOff", "a=10M+512K", 12_MiB, 10_MiB + 512_KiB},
    // 1200 <= 4 x 512: multiples of 512 as ever, 1536.
    {"DivisionsLeaveSmallSizesAlone", "a=1200", 2_MiB, 1536, divisions(4)},
    // Between 1 MiB and 2 MiB in steps of 256 KiB: 1200 KiB -> 1280 KiB.
    {"FourDivisions", "a=1200K", 20_MiB, 1280_KiB, divisions(4)},
    {"PowersOfTwoStay", "a=2M", 20_MiB, 2_MiB, divisions(4)},
    // Between 4 and 8 MiB in steps of 1 MiB: 5 MiB + 1 -> 6 MiB.
    {"DivisionsFollowThePower", "a=5M+1", 20_MiB, 6_MiB, divisions(4)},
    // 5 MiB + 1 -> 5.5 MiB; 3 MiB + 1 is outside -> 3 MiB + 512.
    {"DivisionsByPower", "a=5M+1 b=3M+1", 20_MiB, 8_MiB + 512_KiB + 512, eighths_of_4_to_8()},
    // Between 512 KiB and 1 MiB in steps of 256 KiB: 900 KiB -> 1 MiB, which is small.
    {"RoundingComesBeforeTheChoiceOfThePool", "a=900K", 2_MiB, 1_MiB, divisions(2)},
    // Segments of 40 MiB: 9 9 9 9 [4].
    {"TheLargeSegmentMayBeSet", "a=9M b=9M c=9M d=9M", 40_MiB, 36_MiB, {.large_segment = 40_MiB}},
};

const Sequence kReuse[] = {
    {"WhatIsFreedIsCached", "a=10M -a", 10_MiB, 0},
    {"WhatIsCachedIsReused", "a=10M -a b=10M", 10_MiB, 10_MiB},
    // c takes the 14, not the 30: 30 stay for d. 30 + 14 = 44.
    {"TheSmallestThatFitsIsTaken", "a=30M b=14M -a -b c=12M d=30M", 44_MiB, 42_MiB},
    // 20: 4 [4] 4 [4] 4; f takes the first hole. Then [4] 4 [8] 4: no place for 12. 20 + 12 = 32.
    {"OfTwoAlikeTheLowerIsTaken", "a=4M b=4M c=4M d=4M e=4M -b -d f=4M -a -c g=12M", 32_MiB,
     20_MiB},
    // 20: [4 + 4] 9 [3]; d fits into 8.
    {"FreeNeighboursBecomeOne", "a=4M b=4M c=9M -a -b d=8M", 20_MiB, 17_MiB},
    // 20: [4] 4 9 [3]; 8 fit nowhere: 20 more.
    {"OthersDoNot", "a=4M b=4M c=9M -a d=8M", 40_MiB, 21_MiB},
    // 20: [5] 5 [5 + 5], then [20]; d cuts off 10.
    {"ABlockMergesOnBothSides", "a=5M b=5M c=5M -a -c -b d=10M", 20_MiB, 10_MiB},
    // A free small segment is not for 2 MiB: 2 + 20.
    {"LargeOnesTakeNothingSmall", "a=1M -a b=2M", 22_MiB, 2_MiB},
    // Nor a large one for 1 MiB: 20 + 2.
    {"SmallOnesTakeNothingLarge", "a=2M -a b=1M", 22_MiB, 1_MiB},
    // Nothing is merged across segments: 10, 10 free, and 20 for c.
    {"SegmentsDoNotMerge", "a=10M b=10M -a -b c=20M", 40_MiB, 20_MiB},
    // a's segment goes, b's stays.
    {"EmptyingTheCacheGivesBackFreeSegments", "a=10M b=10M -a flush", 10_MiB, 10_MiB},
    // 20: [4] 4 [12] is in use.
    {"ButNoneThatIsInUse", "a=4M b=4M -a flush", 20_MiB, 4_MiB},
};

const Sequence kShort[] = {
    {"MoreThanTheDeviceHas", "a=12M", 0, 0, device(10_MiB), 1, "a"},
    // 12 + 10 are cached; 22 + 24 > 40: given back, then 24 fit.
    {"TheCacheIsGivenBackFirst", "a=12M b=10M -a -b c=24M", 24_MiB, 24_MiB, device(40_MiB), 1},
    // 20: 4 [16]; 18 would fit into no hole, 20 + 18 > 24, and the segment is in use.
    {"FragmentsAreOfNoUse", "a=4M b=14M -b c=18M", 20_MiB, 4_MiB, device(24_MiB), 1, "c"},
    // 20 MiB for 1 MiB + 1; no 2 MiB left for one byte.
    {"AByteMayBeTooMuch", "a=1M+1 b=1", 20_MiB, 1_MiB + 512, device(20_MiB), 1, "b"},
    // The fraction of the device that the process may have limits as the device does.
    {"AllowedMemoryLimits", "a=10M b=10M", 10_MiB, 10_MiB, {.allowed_memory = 19_MiB}, 1, "b"},
    // 64 >= 32 is not for 16 < 32: 64 + 16.
    {"OversizeBlocksAreNotForOthers", "a=64M -a b=16M", 80_MiB, 16_MiB, max_split(32_MiB)},
    // 64 < 50 + 20: taken as it is.
    {"OversizeBlocksAreTakenWhole", "a=64M -a b=50M", 64_MiB, 64_MiB, max_split(32_MiB)},
    // 64 >= 44 + 20: too much larger. 64 + 44.
    {"UnlessTheyAreFarTooLarge", "a=64M -a b=44M", 108_MiB, 44_MiB, max_split(32_MiB)},
    // 32.5 -> a segment of 34; 1.5 MiB are left and stay.
    {"OversizeRequestsAreNotSplit", "a=32M+512K", 34_MiB, 34_MiB, max_split(32_MiB)},
    // 64 + 44 > 100: the 64, of which one suffices, go. No flush.
    {"AnOversizeBlockMakesRoom", "a=64M -a b=44M", 44_MiB, 44_MiB,
     device(100_MiB, max_split(32_MiB))},
    // 40 + 40 + 80 > 100, neither is enough for 80 alone: both go. No flush.
    {"SeveralMakeRoom", "a=40M b=40M -a -b c=80M", 80_MiB, 80_MiB,
     device(100_MiB, max_split(32_MiB))},
    // Both free since the second search, one search ago: as old as the average. 60 > 50, both go.
    {"GarbageOfAverageAgeIsCollected", "a=30M b=30M -a -b c=40M", 40_MiB, 40_MiB,
     garbage(100_MiB, 0.5)},
    // c: 42 <= 50, nothing is collected; 31 -> 32, all of it. d: 74 > 50; a is 4 - 2 = 2 searches
    // old, c 4 - 3 = 1, 1.5 on average: a goes. 74 - 30 + 34 = 78.
    {"OldGarbageGoesFirst", "a=30M b=12M -a c=31M -c d=34M", 78_MiB, 46_MiB, garbage(100_MiB, 0.5)},
    // 60 <= 80: it stays. 60 + 40.
    {"BelowTheThresholdNothingIsCollected", "a=30M b=30M -a -b c=40M", 100_MiB, 40_MiB,
     garbage(100_MiB, 0.8)},
    // Without a limit on what the process may have there is no threshold.
    {"WithoutALimitNothingIsCollected",
     "a=30M b=30M -a -b c=40M",
     100_MiB,
     40_MiB,
     {.garbage_collection_threshold = 0.1}},
};

const Sequence kExpandable[] = {
    // A page of 20: 3 [17].
    {"OnePage", "a=3M", 20_MiB, 3_MiB, expandable()},
    // 15 [5], the free 5 grow by a page: 15 10 [15].
    {"AFreeEndGrows", "a=15M b=10M", 40_MiB, 25_MiB, expandable()},
    // Pages of 2 for small ones: 1 1 | 512.
    {"SmallPages", "a=1M b=1M c=1", 4_MiB, 2_MiB + 512, expandable()},
    // Two pages, used anew as one.
    {"PagesMerge", "a=30M -a b=40M", 40_MiB, 40_MiB, expandable()},
    // Cut off at 512 bytes.
    {"RemaindersAreCutOff", "a=11M+1", 20_MiB, 11_MiB + 512, expandable()},
    // 40: [30] 5 [5]: the first page is free as a whole, the second is not.
    {"EmptyingGivesBackWholePages", "a=30M b=5M -a flush", 20_MiB, 5_MiB, expandable()},
    // Then (20 without memory) [10] 5 [5]: a page is put back, and c takes 25 of 30.
    {"HolesAreFilled", "a=30M b=5M -a flush c=25M", 40_MiB, 30_MiB, expandable()},
    // A second page would be 40 of 30.
    {"PagesEnd", "a=15M b=10M", 20_MiB, 15_MiB, device(30_MiB, expandable()), 1, "b"},
    // [7] 2 5 [6 and growing]: d takes the 7, though 6 fit better; so e has 6 + 20 at the end.
    {"TheGrowingEndIsTheLargest", "a=7M b=2M c=5M -a d=6M e=26M", 40_MiB, 39_MiB, expandable()},
    // 40 MiB in two pages for a; b lies behind it in a third.
    {"LargeOnesShareTheSegment", "a=40M b=2M", 60_MiB, 42_MiB, expandable()},
};

void run(const Sequence& sequence) {
  SCOPED_TRACE(sequence.name);
  CachingAllocator allocator(sequence.settings);
  std::map<std::string, int> blocks;
  std::istringstream script(sequence.script);
  std::string failed;
  for (std::string step; script >> step;) {
    if (step == "flush") {
      allocator.empty_cache();
    } else if (step.front() == '-') {
      allocator.free(blocks.at(step.substr(1)));
    } else {
      const auto at = step.find('=');
      const auto block = allocator.allocate(parse_bytes(step.substr(at + 1)));
      if (block) blocks[step.substr(0, at)] = *block;
      if (!block) failed += step.substr(0, at);
    }
  }
  EXPECT_EQ(failed, sequence.fails);
  EXPECT_EQ(allocator.reserved(), sequence.reserved);
  EXPECT_EQ(allocator.allocated(), sequence.allocated);
  EXPECT_EQ(allocator.cache_flushes(), sequence.flushes);
}

TEST(CachingAllocator, Rounding) {
  for (const Sequence& sequence : kRounding) run(sequence);
}
TEST(CachingAllocator, Reuse) {
  for (const Sequence& sequence : kReuse) run(sequence);
}
TEST(CachingAllocator, ShortMemory) {
  for (const Sequence& sequence : kShort) run(sequence);
}
TEST(CachingAllocator, ExpandableSegments) {
  for (const Sequence& sequence : kExpandable) run(sequence);
}

TEST(CachingAllocator, Peaks) {
  CachingAllocator allocator({});
  const auto a = allocator.allocate(12_MiB);
  allocator.free(*a);
  allocator.empty_cache();
  (void)allocator.allocate(14_MiB);           // 14 reserved, 14 allocated
  const auto b = allocator.allocate(11_MiB);  // 26 reserved (12 for 11), 26 allocated
  allocator.free(*b);
  (void)allocator.allocate(10_MiB);  // in the 12: 2 are cut off; 26 and 24
  (void)allocator.allocate(2_MiB);   // the rest: 26 and 26
  EXPECT_EQ(allocator.reserved_peak(), 26_MiB);
  EXPECT_EQ(allocator.allocated_peak(), 26_MiB);
  EXPECT_EQ(allocator.allocated_at_reserved_peak(), 26_MiB);
  (void)allocator.allocate(2_MiB);  // 46 and 28
  EXPECT_EQ(allocator.reserved_peak(), 46_MiB);
  EXPECT_EQ(allocator.allocated_at_reserved_peak(), 28_MiB);
}

}  // namespace
}  // namespace magis
