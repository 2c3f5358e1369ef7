// What verify() says of programs that store and load.
#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

const std::string kGraph = R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%a = aten.mm(%x, %x) : f32[8,8]
%b = aten.relu(%a) : f32[8,8]
%r = magis.begin("r1", 2, 8, [%b]) : f32[8,8]
%bp = magis.part(%b, 0, 1*r1) : f32[2,8]/256
%p = aten.mm(%bp, %x) : f32[2,8]
%q = aten.mm(%p, %x) : f32[2,8]
%w = magis.write_part(%r, 0, 1*r1, %q) : none
%end = magis.end("r1", [%r], [%b]) : none
%y = aten.mm(%r, %a) : f32[8,8]
%h = aten.mm(%y, %r) : f32[8,8]{9,1}
%z = aten.mm(%h, %y) : f32[8,8]
output loss "" %z
)";

// The message about `program`; "valid" if there is none.
std::string verdict(const std::string& program) {
  const PlanText plan = parse_plan(kGraph + "program\n" + program, "test");
  try {
    verify(plan.graph, plan.program);
  } catch (const UserError& error) {
    return error.what();
  }
  return "valid";
}

const std::string kLoop = "run %p\nrun %q\nfree %p\nrun %w\nfree %q\nrun %end\nfree %b\n";
const std::string kRest = "run %y\nrun %h\nrun %z\n";

TEST(VerifySwap, AcceptsTensorsThatComeBack) {
  EXPECT_EQ(verdict("run %a\nstore %a\nrun %b\nawait %a\nfree %a\nrun %r\n" + kLoop +
                    "load %a as .1\nawait %a.1\nrun %y reading %a.1\nrun %h\nrun %z\n"),
            "valid");
  // Inside a body, and what a loop puts together after it.
  EXPECT_EQ(verdict("run %a\nrun %b\nrun %r\nrun %p\nstore %p\nawait %p\nfree %p\n"
                    "load %p as .1\nawait %p.1\nrun %q reading %p.1\nfree %p.1\nrun %w\nfree %q\n"
                    "run %end\nstore %r\nrun %y\nawait %r\nfree %r\nload %r as .1\nawait %r.1\n"
                    "run %h reading %r.1\nrun %z\n"),
            "valid");
  // A load may be asked for before its store is through; nothing may be on its way to an await.
  EXPECT_EQ(verdict("run %a\nstore %a\nload %a as .7\nawait %a, %a.7\nawait %a.7\nfree %a\n"
                    "run %b reading %a.7\nrun %r\n" +
                    kLoop + "run %y reading %a.7\nrun %h\nrun %z\n"),
            "valid");
}

TEST(VerifySwap, ReportsWhatIsUsedBeforeItHasArrived) {
  EXPECT_EQ(verdict("run %a\nstore %a\nload %a as .1\nrun %b reading %a.1\n"),
            "statement 4 of the program, \"run %b reading %a.1\": reads %a.1, which is still on "
            "its way");
  EXPECT_EQ(verdict("run %a\nstore %a\nfree %a\n"),
            "statement 3 of the program, \"free %a\": ends the lifetime of %a, which is still on "
            "its way; an await is missing");
  EXPECT_EQ(verdict("run %a\nstore %a\nload %a as .1\nfree %a.1\n"),
            "statement 4 of the program, \"free %a.1\": ends the lifetime of %a.1, which is still "
            "on its way; an await is missing");
  EXPECT_EQ(verdict("run %a\nstore %a\nrun %b over %a\n"),
            "statement 3 of the program, \"run %b over %a\": ends the lifetime of %a, which is "
            "still on its way; an await is missing");
}

TEST(VerifySwap, ReportsStoresThatMayNotBe) {
  EXPECT_EQ(verdict("store %a\n"),
            "statement 1 of the program, \"store %a\": stores %a, which has not been made");
  EXPECT_EQ(verdict("run %a\nstore %a\nstore %a\n"),
            "statement 3 of the program, \"store %a\": the host has it already");
  EXPECT_EQ(verdict("run %a\nstore %a\nload %a as .1\nawait %a.1\nstore %a.1\n"),
            "statement 5 of the program, \"store %a.1\": the host has it already");
  const std::string stays =
      " is an input, an output or not dense in memory: it cannot leave for the host";
  EXPECT_EQ(verdict("store %x\n"), "statement 1 of the program, \"store %x\": %x" + stays);
  EXPECT_EQ(verdict("run %a\nrun %b\nrun %r\n" + kLoop + "run %y\nrun %h\nstore %h\n"),
            "statement 13 of the program, \"store %h\": %h" + stays);
  EXPECT_EQ(verdict("run %a\nrun %b\nrun %r\n" + kLoop + kRest + "store %z\n"),
            "statement 14 of the program, \"store %z\": %z" + stays);
}

TEST(VerifySwap, ReportsLoadsThatMayNotBe) {
  EXPECT_EQ(verdict("run %a\nload %a as .1\n"),
            "statement 2 of the program, \"load %a as .1\": it was never stored in this body");
  EXPECT_EQ(
      verdict("run %a\nrun %a as .1\nstore %a\nload %a as .1\n"),
      "statement 4 of the program, \"load %a as .1\": there is a copy of that number already");
  EXPECT_EQ(
      verdict("run %a\nstore %a\nload %a as .1\nload %a as .1\n"),
      "statement 4 of the program, \"load %a as .1\": there is a copy of that number already");
  EXPECT_EQ(verdict("run %a\nstore %a\nload %a as .1\nrun %a as .1\n"),
            "statement 4 of the program, \"run %a as .1\": runs a second time");
}

TEST(VerifySwap, ReportsAwaitsThatMayNotBe) {
  EXPECT_EQ(verdict("run %a\nawait %a.1\n"),
            "statement 2 of the program, \"await %a.1\": awaits %a.1, which has not been made");
  EXPECT_EQ(verdict("run %a\nstore %a\nawait %a\nfree %a\nawait %a\n"),
            "statement 5 of the program, \"await %a\": awaits %a, which is no longer there");
  EXPECT_EQ(verdict("await %x\n"),
            "statement 1 of the program, \"await %x\": an input stays where it is");
}

// Stores, awaits and loads stand in the body in which the tensor is made.
TEST(VerifySwap, KeepsMovesInTheirBody) {
  const std::string begun = "run %a\nrun %b\nrun %r\n";
  EXPECT_EQ(verdict(begun + "store %b\n"),
            "statement 4 of the program, \"store %b\": %b is made in another body, and "
            "stays there");
  EXPECT_EQ(verdict(begun + "store %r\n"),
            "statement 4 of the program, \"store %r\": %r is made in another body, and "
            "stays there");
  EXPECT_EQ(verdict("run %a\nrun %b\nstore %b\nrun %r\nawait %b\n"),
            "statement 5 of the program, \"await %b\": %b is made in another body, and "
            "stays there");
  EXPECT_EQ(verdict("run %a\nstore %a\nrun %b\nrun %r\nload %a as .1\n"),
            "statement 5 of the program, \"load %a as .1\": %a is made in another body, "
            "and stays there");
  EXPECT_EQ(verdict(begun + "run %p\nstore %p\nrun %q\nawait %p\nfree %p\nrun %w\nfree %q\n"
                            "load %p as .1\nawait %p.1\nrun %end\n"),
            "statement 13 of the program, \"run %end\": leaves %p.1 of its last iteration");
  EXPECT_EQ(verdict(begun + "run %p\nstore %p\nrun %q\nawait %p\nfree %p\nrun %w\nfree %q\n"
                            "run %end\nload %p as .1\n"),
            "statement 12 of the program, \"load %p as .1\": %p is made in another body, and "
            "stays there");
}

}  // namespace
}  // namespace magis
