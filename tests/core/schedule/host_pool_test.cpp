// Places on the host, in cases small enough to see. Random programs: simulate/swap_twin_test.cpp.
#include "magis/schedule/host_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace magis {
namespace {

// %a 256, %b 128, %c 72 (128 on the host), %d 64 bytes.
const std::string kGraph = R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%a = aten.mm(%x, %x) : f32[8,8]
%b = aten.mm(%a, %x) : f32[8,4]
%c = aten.mm(%b, %x) : f32[9,2]
%d = aten.mm(%c, %x) : f32[4,4]
%e = aten.cat([%a, %b, %c, %d]) : f32[8,8]
output loss "" %e
)";

struct Places {
  Bytes bytes;
  std::vector<Bytes> of;  // %a, %b, %c, %d
  bool operator==(const Places&) const = default;
};

Places places(const std::string& program) {
  const PlanText plan = parse_plan(kGraph + "program\n" + program, "test");
  verify(plan.graph, plan.program);
  const HostPool pool = plan_host_pool(plan.graph, plan.program);
  Places found{pool.bytes, {}};
  for (std::size_t t = 1; t <= 4; ++t) found.of.push_back(pool.offsets[TensorId(t)]);
  return found;
}

std::ostream& operator<<(std::ostream& out, const Places& places) {
  out << places.bytes << ':';
  for (const Bytes offset : places.of) out << ' ' << offset;
  return out;
}

TEST(HostPool, IsEmptyIfNothingIsStored) {
  EXPECT_EQ(places("run %a\nrun %b\nrun %c\nrun %d\nrun %e\n"), (Places{0, {-1, -1, -1, -1}}));
}

TEST(HostPool, LargestAreLowest) {
  EXPECT_EQ(places("run %a\nrun %b\nrun %c\nstore %c\nrun %d\nstore %d\nstore %a\nstore %b\n"
                   "await %a, %b, %c, %d\nfree %a, %b, %c, %d\n"
                   "load %a as .1\nload %b as .1\nload %c as .1\nload %d as .1\n"
                   "await %a.1, %b.1, %c.1, %d.1\nrun %e reading %a.1, %b.1, %c.1, %d.1\n"),
            (Places{256 + 128 + 128 + 64, {0, 256 + 128, 256, 256 + 128 + 128}}));
}

// A place is free again where the last load has arrived.
TEST(HostPool, OneAfterTheOtherTakeOnePlace) {
  EXPECT_EQ(places("run %a\nstore %a\nrun %b\nawait %a\nfree %a\nload %a as .1\nawait %a.1\n"
                   "run %c\nstore %b\nrun %d\nawait %b\nfree %b\nload %b as .1\nawait %b.1\n"
                   "run %e reading %a.1, %b.1\n"),
            (Places{256, {0, 0, -1, -1}}));
}

TEST(HostPool, ATensorThatLeavesTwiceKeepsItsPlace) {
  EXPECT_EQ(places("run %a\nstore %a\nawait %a\nfree %a\nload %a as .1\nawait %a.1\n"
                   "run %b reading %a.1\nawait %a.1\nfree %a.1\nstore %b\nrun %c\nawait %b\n"
                   "free %b\nload %b as .1\nload %a as .2\nawait %b.1, %a.2\nrun %d\n"
                   "run %e reading %a.2, %b.1\n"),
            (Places{256 + 128, {0, 256, -1, -1}}));
}

// %c is gone from the host when %d comes: between them %b stays where it is.
TEST(HostPool, TakesTheLowestPlaceThatIsFreeAllTheTime) {
  EXPECT_EQ(places("run %a\nrun %b\nrun %c\nstore %c\nstore %b\nrun %d\nawait %b, %c\nfree %c\n"
                   "load %c as .1\nawait %c.1\nstore %d\nawait %d\nfree %d\nload %d as .1\n"
                   "await %d.1\nfree %b\nload %b as .1\nawait %b.1\n"
                   "run %e reading %b.1, %c.1, %d.1\n"),
            (Places{256, {-1, 128, 0, 0}}));
}

// Nobody asks for it back: it needs its place until it has arrived.
TEST(HostPool, AStoreWithoutALoadTakesPlaceUntilItIsThrough) {
  EXPECT_EQ(places("run %a\nstore %a\nrun %b\nrun %c\nstore %c\nawait %a\nawait %c\nfree %c\n"
                   "load %c as .1\nawait %c.1\nrun %d reading %c.1\nrun %e reading %c.1\n"),
            (Places{256 + 128, {0, -1, 256, -1}}));
}

TEST(HostPool, IterationsTakeTurns) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%r = magis.begin("r1", 2, 8, []) : f32[8,8]
%xp = magis.part(%x, 0, 1*r1) : f32[2,8]/256
%p = aten.neg(%xp) : f32[2,8]
%q = aten.mul.Tensor(%xp, %p) : f32[2,8]
%w = magis.write_part(%r, 0, 1*r1, %q) : none
%end = magis.end("r1", [%r], []) : none
output loss "" %r
program
run %r
run %p
store %p
await %p
free %p
load %p as .1
await %p.1
run %q reading %p.1
free %p.1
run %w
free %q
run %end
)",
                                   "test");
  verify(plan.graph, plan.program);
  EXPECT_EQ(plan_host_pool(plan.graph, plan.program).bytes, 64);
}

}  // namespace
}  // namespace magis
