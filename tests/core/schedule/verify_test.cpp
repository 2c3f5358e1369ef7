#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

const std::string kGraph = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
param %w "w" : f32[16,16]
%m = magis.bernoulli([16,16], [16,1], 0.9, dtype=torch.float32) : f32[16,16]
%n = magis.bernoulli([16,16], [16,1], 0.9, dtype=torch.float32) : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.relu(%a) : f32[16,16]
%c = aten.mm(%b, %m) : f32[16,16]
%d = aten.mm(%w, %n) : f32[16,16]
%e = aten.mm(%d, %a) : f32[16,16]
%u = aten.add_.Tensor(%w, %e) : none
output loss "" %c
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

TEST(VerifyProgram, AcceptsCopiesAndRunsInPlace) {
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %a\nrun %b\nrun %c\nfree %b, %m\nrun %d\nfree %n\n"
                    "run %e\nfree %a, %d\nrun %u\nfree %e\n"),
            "valid");
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %a\nrun %b over %a\nrun %c\nrun %d\nrun %a as .1\n"
                    "run %e reading %a.1\nrun %u\n"),
            "valid");
}

TEST(VerifyProgram, ReportsAReadBeforeItIsMade) {
  EXPECT_EQ(verdict("run %b\n"),
            "statement 1 of the program, \"run %b\": runs before %a, which must come first");
  EXPECT_EQ(verdict("run %a\nrun %b as .1 reading %a.2\n"),
            "statement 2 of the program, \"run %b as .1 reading %a.2\": reads %a.2, which has not "
            "been made");
}

TEST(VerifyProgram, ReportsAReadAfterFree) {
  EXPECT_EQ(verdict("run %a\nfree %a\nrun %b\n"),
            "statement 3 of the program, \"run %b\": reads %a, which is no longer there");
}

TEST(VerifyProgram, ReportsAReadOfWhatWasOverwritten) {
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %a\nrun %b over %a\nrun %c\nrun %d\nrun %e\n"),
            "statement 7 of the program, \"run %e\": reads %a, which is no longer there");
}

TEST(VerifyProgram, ReportsWhatIsFreedTwiceOrNeverMade) {
  EXPECT_EQ(verdict("run %a\nfree %a, %a\n"),
            "statement 2 of the program, \"free %a, %a\": ends the lifetime of %a, which is no "
            "longer there");
  EXPECT_EQ(verdict("free %a.3\n"),
            "statement 1 of the program, \"free %a.3\": ends the lifetime of %a.3, which has not "
            "been made");
}

TEST(VerifyProgram, ReportsFreedInputsAndOutputs) {
  EXPECT_EQ(verdict("free %x\n"),
            "statement 1 of the program, \"free %x\": ends the lifetime of %x, which is an input");
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %a\nrun %b\nrun %c\nfree %c\n"),
            "statement 6 of the program, \"free %c\": ends the lifetime of %c, which is an output");
}

TEST(VerifyProgram, ReportsOperatorsThatRunTwice) {
  EXPECT_EQ(verdict("run %a\nrun %a\n"),
            "statement 2 of the program, \"run %a\": runs a second time");
  EXPECT_EQ(verdict("run %m\nrun %m as .1\n"),
            "statement 2 of the program, \"run %m as .1\": makes a copy, but magis.bernoulli must "
            "run exactly once");
}

TEST(VerifyProgram, ReportsACopyOfWhatReadAParameterThatHasBeenWritten) {
  const std::string rest = "run %m\nrun %n\nrun %a\nrun %b\nrun %c\nrun %d\nrun %e\n";
  EXPECT_EQ(verdict(rest + "run %d as .1\nrun %u\n"), "valid");
  EXPECT_EQ(verdict(rest + "run %u\nrun %d as .1\n"),
            "statement 9 of the program, \"run %d as .1\": makes a copy after %u, which writes to "
            "what it reads");
}

TEST(VerifyProgram, KeepsRandomOperatorsInOrder) {
  EXPECT_EQ(verdict("run %n\n"),
            "statement 1 of the program, \"run %n\": runs before %m, which must come first");
}

TEST(VerifyProgram, KeepsWritesBehindReads) {
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %u\n"),
            "statement 3 of the program, \"run %u\": runs before %d, which must come first");
}

TEST(VerifyProgram, ReportsAnOperatorThatNeverRuns) {
  EXPECT_EQ(verdict("run %m\nrun %n\nrun %a\nrun %b\nrun %c\nrun %d\nrun %e\n"),
            "the program never runs %u");
}

TEST(VerifyProgram, ReportsStatementsThatDoNotFitTheGraph) {
  const PlanText plan = parse_plan(kGraph + "program\nrun %a\nrun %b over %a\n", "test");
  const auto message = [&](auto&& edit) -> std::string {
    Program program = plan.program;
    edit(program.statements[1]);
    try {
      verify(plan.graph, program);
    } catch (const UserError& error) {
      return error.what();
    }
    return "valid";
  };
  EXPECT_EQ(
      message([](Statement& s) { s.operand_copies.push_back(0); }),
      "statement 2 of the program, \"run %b over %a\": names 2 operands, the operator reads 1");
  EXPECT_EQ(message([](Statement& s) { s.over_argument = 1; }),
            "statement 2 of the program, \"run %b over %a\": cannot run over %a");
  EXPECT_EQ(message([](Statement& s) { s.over = 7; }),
            "statement 2 of the program, \"run %b\": cannot run over operand 7");
}

}  // namespace
}  // namespace magis
