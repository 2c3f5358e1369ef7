#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

const std::string kGraph = R"(magis 1
device cpu

batch %x "x" : f32[16,16]

%a = aten.mm(%x, %x) : f32[16,16]
%v = aten.view(%a, [256]) : f32[256]
%b = aten.relu(%a) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
%s = aten.sum(%v) : f32[]

output loss "" %d
output aux "0" %s
)";

// What the parser says about `program`, after a graph of 16 lines: the program's first line is
// line 17.
std::string error_of(const std::string& program) {
  try {
    parse_plan(kGraph + "\n" + program, "test.plan");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlanText, PrintsWhatItReads) {
  const std::string program =
      "program\n"
      "run %a\n"
      "run %b\n"
      "run %c\n"
      "free %b\n"
      "run %b as .1\n"
      "run %d reading %b.1\n"
      "free %c, %b.1\n"
      "run %a as .1\n"
      "free %a\n"
      "run %s reading %a.1\n"
      "free %a.1\n";
  const PlanText plan = parse_plan(kGraph + "\n" + program, "test.plan");
  verify(plan.graph, plan.program);
  const std::string printed = to_text(plan.graph, plan.program);
  EXPECT_EQ(printed.substr(printed.find("program\n")), program);
  const PlanText again = parse_plan(printed, "again");
  EXPECT_EQ(again.program, plan.program);
  EXPECT_EQ(to_text(again.graph, again.program), printed);
}

TEST(PlanText, PrintsWhatMovesToTheHostAndBack) {
  const std::string program =
      "program\n"
      "run %a\n"
      "store %a\n"
      "run %b\n"
      "await %a\n"
      "free %a\n"
      "run %c\n"
      "load %a as .1\n"
      "run %d\n"
      "store %c\n"
      "await %a.1, %c\n"
      "free %c\n"
      "run %s reading %a.1\n"
      "free %a.1\n";
  const PlanText plan = parse_plan(kGraph + "\n" + program, "test.plan");
  const std::string printed = to_text(plan.graph, plan.program);
  EXPECT_EQ(printed.substr(printed.find("program\n")), program);
  EXPECT_EQ(parse_plan(printed, "again").program, plan.program);
  const std::vector<Statement>& statements = plan.program.statements;
  EXPECT_EQ(statements[1].kind, Statement::Kind::store);
  EXPECT_EQ(statements[3].kind, Statement::Kind::await);
  EXPECT_EQ(statements[6].kind, Statement::Kind::load);
  EXPECT_EQ(statements[6].copies, (std::vector<CopyRef>{{TensorId(1), 1}}));
  EXPECT_EQ(statements[9].copies, (std::vector<CopyRef>{{TensorId(1), 1}, {TensorId(3), 0}}));
}

TEST(PlanText, AcceptsCommentsAndBlankLines) {
  const PlanText plan = parse_plan(kGraph +
                                       "# the plan\n"
                                       "program  # begins here\n\n"
                                       "  run %a # first\n"
                                       "run %b over %a\n\n",
                                   "test.plan");
  ASSERT_EQ(plan.program.statements.size(), 2u);
  EXPECT_EQ(plan.program.statements[1].over, 0);
  EXPECT_EQ(plan.program.statements[1].over_argument, 0);
}

TEST(PlanText, AGraphMayNameAValueProgram) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
meta model "program"
batch %program "program" : f32[16,16]
%a = aten.mm(%program, %program) : f32[16,16]
output loss "" %a
program
run %a
)",
                                   "test.plan");
  EXPECT_EQ(plan.program.statements.size(), 1u);
}

TEST(PlanText, SaysThatTheProgramIsMissing) {
  EXPECT_EQ(error_of(""),
            "test.plan:16:1: expected `program`: a plan is a graph and a program, found the end of "
            "the file\n"
            "\n"
            "^");
}

TEST(PlanText, ErrorsNameThePlaceAndTheThing) {
  EXPECT_EQ(error_of("program\nrum %a\n"),
            "test.plan:17:1: expected `run`, `free`, `store`, `load` or `await`, found `rum`\n"
            "rum %a\n"
            "^");
  EXPECT_EQ(error_of("program\nrun %q\n"),
            "test.plan:17:5: the graph has no %q\n"
            "run %q\n"
            "    ^");
  EXPECT_EQ(error_of("program\nrun %v\n"),
            "test.plan:17:5: `%v` is not the first result of an operator\n"
            "run %v\n"
            "    ^");
  EXPECT_EQ(error_of("program\nrun %a as 1\n"),
            "test.plan:17:11: expected the number of a copy, as in `.1`, found `1`\n"
            "run %a as 1\n"
            "          ^");
  EXPECT_EQ(error_of("program\nrun %a as .0\n"),
            "test.plan:17:11: copies are numbered from 1\n"
            "run %a as .0\n"
            "          ^");
  EXPECT_EQ(error_of("program\nrun %a\nrun %d reading %a.1\n"),
            "test.plan:18:16: the operator does not read %a\n"
            "run %d reading %a.1\n"
            "               ^");
  EXPECT_EQ(error_of("program\nrun %d reading %b\n"),
            "test.plan:17:16: `reading` names copies; originals are read without saying so\n"
            "run %d reading %b\n"
            "               ^");
  EXPECT_EQ(error_of("program\nrun %d reading %b.1, %b.2\n"),
            "test.plan:17:22: %b is named twice\n"
            "run %d reading %b.1, %b.2\n"
            "                     ^");
  EXPECT_EQ(error_of("program\nrun %d over %c\n"),
            "test.plan:17:13: aten.mm cannot run over `%c`\n"
            "run %d over %c\n"
            "            ^");
  EXPECT_EQ(error_of("program\nrun %b over %a.1\n"),
            "test.plan:17:13: the operator reads another copy of %a\n"
            "run %b over %a.1\n"
            "            ^");
  EXPECT_EQ(error_of("program\nfree %v\n"),
            "test.plan:17:6: %v owns no memory\n"
            "free %v\n"
            "     ^");
  EXPECT_EQ(error_of("program\nrun %a free\n"),
            "test.plan:17:8: expected the end of the line, found `free`\n"
            "run %a free\n"
            "       ^");
}

TEST(PlanText, ErrorsInMovesNameThePlaceAndTheThing) {
  EXPECT_EQ(error_of("program\nstore\n"),
            "test.plan:17:6: expected a tensor, found the end of the line\n"
            "store\n"
            "     ^");
  EXPECT_EQ(error_of("program\nstore %v\n"),
            "test.plan:17:7: %v owns no memory\n"
            "store %v\n"
            "      ^");
  EXPECT_EQ(error_of("program\nstore %a, %b\n"),
            "test.plan:17:9: expected the end of the line, found `,`\n"
            "store %a, %b\n"
            "        ^");
  EXPECT_EQ(error_of("program\nload %a\n"),
            "test.plan:17:8: expected `as` and the number of a copy, found the end of the line\n"
            "load %a\n"
            "       ^");
  EXPECT_EQ(error_of("program\nload %a.1 as .2\n"),
            "test.plan:17:6: a tensor is loaded, as in `load %a as .1`\n"
            "load %a.1 as .2\n"
            "     ^");
  EXPECT_EQ(error_of("program\nload %a as .0\n"),
            "test.plan:17:12: copies are numbered from 1\n"
            "load %a as .0\n"
            "           ^");
  EXPECT_EQ(error_of("program\nload %a as %b\n"),
            "test.plan:17:12: expected the number of a copy, as in `.1`, found `%b`\n"
            "load %a as %b\n"
            "           ^");
  EXPECT_EQ(error_of("program\nawait %q\n"),
            "test.plan:17:7: the graph has no %q\n"
            "await %q\n"
            "      ^");
  EXPECT_EQ(error_of("program\nawait %a,\n"),
            "test.plan:17:10: expected a tensor, found the end of the line\n"
            "await %a,\n"
            "         ^");
}

TEST(PlanText, ErrorsInTheGraphKeepTheirPlace) {
  try {
    parse_plan("magis 1\ndevice cpu\n%a = aten.mm(%x, %x) : f32[2,2]\nprogram\n", "test.plan");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("test.plan:3:14: ")) << error.what();
  }
}

}  // namespace
}  // namespace magis
