// What a file of rules may say, and what it is told when it is wrong.
#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"
#include "magis/transform/rewriting.h"

namespace magis {
namespace {

// The message's first line, without the file's name.
std::string complaint(const std::string& text) {
  try {
    check_rules(text, "my.rules");
  } catch (const UserError& error) {
    const std::string message = error.what();
    const std::string first = message.substr(0, message.find('\n'));
    EXPECT_TRUE(first.starts_with("my.rules:")) << message;
    EXPECT_NE(message.find('^'), std::string::npos) << message;
    return first.substr(std::string("my.rules:").size());
  }
  return "";
}

std::string rule(const std::string& body) { return "rule r \"says so\"\n" + body; }

TEST(RuleLanguage, ReadsARule) {
  const auto rules = check_rules(rule("  let a, b : [m, n]\n"
                                      "  let x : number\n"
                                      "  from p = scale(add(a, b), x)\n"
                                      "  to p = add(scale(a, x), scale(b, x))\n"
                                      "  if different(a, b), less(m, 2*n)\n"),
                                 "my.rules");
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].name, "r");
  EXPECT_EQ(rules[0].description, "says so");
  EXPECT_FALSE(rules[0].exact);
}

TEST(RuleLanguage, NamesAnUnknownWord) {
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = realu(a)\n  to b = a\n")),
            "3:12: unknown word realu (did you mean relu?)");
}

TEST(RuleLanguage, NamesWhatIsUnbound) {
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = add(a, c)\n  to b = a\n")),
            "3:19: there is no tensor c");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = scale(a, x)\n  to b = a\n")),
            "3:21: there is no number x");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a)\n  to b = view(a, [n])\n")),
            "4:19: the length n does not occur on the left side");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a)\n  to b = view(a, [*S])\n")),
            "4:20: *S does not occur on the left side");
  EXPECT_EQ(complaint(rule("  let a, c : [m]\n  from b = relu(a)\n  to b = c\n")),
            "1:6: c does not occur on the left side");
}

TEST(RuleLanguage, ChecksShapesOnBothSides) {
  EXPECT_EQ(complaint(rule("  let a, b : [m, n]\n  from p = mm(a, b)\n  to p = a\n")),
            "3:12: the lengths that a product sums over differ: n and m");
  EXPECT_EQ(complaint(rule("  let a : [m, n]\n  from p = relu(t(a))\n  to p = relu(a)\n")),
            "4:10: this has the shape [m, n], but p has [n, m]");
  EXPECT_EQ(
      complaint(rule("  let a : [m, n]\n  let b : [n, m]\n  from p = add(a, b)\n  to p = a\n")),
      "4:12: shapes [m, n] and [n, m] do not go together");
  EXPECT_EQ(complaint(rule("  let a : [m, n]\n  from v = view(a, [m, m])\n  to v = a\n")),
            "3:12: a view has as many elements as its base, but m*n and m*m may differ");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from v = permute(a, [1, 1])\n  to v = a\n")),
            "3:12: argument 1 has the shape [m], but needs 2 dimensions");
}

TEST(RuleLanguage, LearnsFromViewsHowLargeAStarIs) {
  EXPECT_EQ(complaint(rule("  let a : [m, n]\n"
                           "  from v = relu(view(a, [*S]))\n"
                           "  to v = view(relu(a), [*S])\n")),
            "");
}

TEST(RuleLanguage, WantsSomethingReplaced) {
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a)\n  to c = relu(a)\n")),
            "1:6: the rule replaces nothing: `to` names what `from` made");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a)\n  to a = relu(a)\n")),
            "4:6: a is a variable: it stays as it is");
}

TEST(RuleLanguage, PointsAtMistakesOfSyntax) {
  EXPECT_EQ(complaint("role r \"x\"\n"), "1:1: expected `rule`, found `role`");
  EXPECT_EQ(complaint("rule r\n"), "1:7: expected what the rule says, found the end of the line");
  EXPECT_EQ(complaint("rule r \"x\" fast\n"),
            "1:12: expected `exact`, `wide`, or the end of the line, found `fast`");
  EXPECT_EQ(complaint(rule("  let a : [*S, *R]\n  from b = relu(a)\n  to b = a\n")),
            "2:16: a shape has one * at most");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a)\n  to b = a\n  if often(a)\n")),
            "5:6: conditions are once, weight, different, complete, equal and less");
  EXPECT_EQ(complaint(rule("  let a : [m]\n  from b = relu(a, 1)\n  to b = a\n")),
            "3:20: expected a keyword, found `1`");
  const std::string fine = rule("  let a : [m]\n  from b = relu(relu(a))\n  to b = relu(a)\n");
  EXPECT_EQ(complaint(fine + fine), "5:1: there is a rule r already");
}

}  // namespace
}  // namespace magis
