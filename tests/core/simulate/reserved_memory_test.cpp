#include "magis/simulate/reserved_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace magis {
namespace {

ReservedMemory reserved(const std::string& text, const ReserveOptions& options = {}) {
  const PlanText plan = parse_plan(text, "test");
  verify(plan.graph, plan.program);
  const CostTable costs = make_cost_table(plan.graph, device_profile("a100"));
  return reserved_memory(plan.graph, plan.program, costs, options);
}

// %x 8 MiB; %a 12, %b 11, %c 10, %d 4 MiB.
const std::string kGraph = R"(magis 1
device cuda
batch %x "x" : f32[2097152]
%a = aten.cos(%x) : f32[3145728]
%b = aten.mul.Tensor(%a, %x) : f32[2883584]
%c = aten.mul.Tensor(%b, %x) : f32[2621440]
%d = aten.sin(%c) : f32[4] scratch 3145728
output loss "" %d
program
)";

TEST(ReservedMemory, FollowsThePlansStatements) {
  // x: 20 with 12 left, which a takes as they are. b: a segment of 12, kept whole (1 left). a dies;
  // c takes a's 12 and cuts off 2. b dies. d: a small segment of 2; its scratch of 3 fits into b's
  // 12. 20 + 12 + 2 = 34. The second step begins with 12, 12, and 2 - 512 free, and finds
  // everything in them.
  const ReservedMemory found =
      reserved(kGraph + "run %a\nrun %b\nfree %a\nrun %c\nfree %b\nrun %d\nfree %c\n");
  EXPECT_EQ(found.reserved, 34_MiB);
  // When d's small segment is made: x 8, c 10, d 512 bytes.
  EXPECT_EQ(found.allocated, 18_MiB + 512);
  EXPECT_EQ(found.fragmentation(), 16_MiB - 512);
  // x 8, a 12, b 12.
  EXPECT_EQ(found.allocated_peak, 32_MiB);
  EXPECT_TRUE(found.fits);
}

TEST(ReservedMemory, ACopyIsATensorOfItsOwn) {
  // x and a: 20. b and b.1: segments of 12. When a and b are free, c takes a's 12 and cuts off 2.
  // d:
  // 2. 20 + 12 + 12 + 2 = 46.
  const ReservedMemory found =
      reserved(kGraph +
               "run %a\nrun %b\nrun %b as .1\nfree %a, %b\nrun %c reading %b.1\nfree %b.1\n"
               "run %d\nfree %c\n");
  EXPECT_EQ(found.reserved, 46_MiB);
}

TEST(ReservedMemory, TheLibrarysWorkspaceStays) {
  const std::string text = R"(magis 1
device cuda
batch %x "x" : f32[512,512]
%a = aten.mm(%x, %x) : f32[512,512]
%b = aten.mm(%a, %x) : f32[512,512]
output loss "" %b
program
run %a
run %b
free %a
)";
  // x, a, b: 1 MiB each, two small segments; the workspace a large one of 20 MiB, once.
  EXPECT_EQ(reserved(text).reserved, 4_MiB);
  const ReservedMemory with = reserved(text, {.library_workspace = 9_MiB});
  EXPECT_EQ(with.reserved, 24_MiB);
  EXPECT_EQ(with.allocated_peak, 12_MiB);
}

TEST(ReservedMemory, SaysIfItDoesNotFit) {
  const ReservedMemory found =
      reserved(kGraph + "run %a\nrun %b\nfree %a\nrun %c\nfree %b\nrun %d\nfree %c\n",
               {.allocator = {.device_memory = 30_MiB}});
  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.reserved, 20_MiB);  // x and a; b needs 12 more
  EXPECT_EQ(found.cache_flushes, 1);
}

TEST(ReservedMemory, LoopsRunPartByPart) {
  // 7 of 8 rows of 512 KiB, then one, which is small.
  const std::string text = R"(magis 1
device cuda
batch %x "x" : f32[8,131072]
%y = magis.begin("r1", 7, 8, []) : f32[8,131072]
%part = magis.part(%x, 0, 1*r1) : f32[7,131072]
%p = aten.cos(%part) : f32[7,131072]
%n = magis.write_part(%y, 0, 1*r1, %p) : none
%end = magis.end("r1", [%y], []) : none
output loss "" %y
program
run %y
run %p
run %n
free %p
run %end
)";
  // 20: x 4, y 4, p 3.5 [8.5]; then x 4, y 4 [12] and 2: p 0.5 [1.5].
  const ReservedMemory found = reserved(text);
  EXPECT_EQ(found.reserved, 22_MiB);
  EXPECT_EQ(found.allocated, 8_MiB + 512_KiB);
  EXPECT_EQ(found.allocated_peak, 11_MiB + 512_KiB);
}

}  // namespace
}  // namespace magis
