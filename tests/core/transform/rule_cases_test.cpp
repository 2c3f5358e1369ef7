// Every rule on graphs written by hand: what it makes of them, and what it leaves alone.
// MAGIS_BLESS=1 rewrites what they give. tests/python/truth/test_rules.py runs both sides.
#include "support/rule_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "magis/graph/text.h"
#include "transform/rules/rule_book.h"

namespace magis {
namespace {

// The graph after the first place where the rule applies; nothing if there is none.
std::optional<std::string> after(const RewriteRule& rule, const std::string& text) {
  const Graph graph = parse_graph(text, "case");
  verify(graph);
  TermGraph terms(graph);
  for (std::size_t i = 0; i < terms.term_count(); ++i) {
    for (const RuleMatch& match : rule.find(terms, TermId(i))) {
      if (!rule.apply(terms, match)) continue;
      const Graph made = terms.graph();
      verify(made);
      std::string made_text = to_text(made);
      EXPECT_EQ(to_text(parse_graph(made_text, "again")), made_text);
      return made_text;
    }
  }
  return std::nullopt;
}

TEST(RuleCases, AreAsWritten) {
  const bool bless = std::getenv("MAGIS_BLESS") != nullptr;
  for (test::RuleCaseFile& file : test::read_rule_cases()) {
    for (test::RuleCase& of : file.cases) {
      SCOPED_TRACE(of.place + ": " + of.rule);
      const RewriteRule* rule = RuleBook::standard().find(of.rule);
      ASSERT_NE(rule, nullptr);
      const std::string before = test::graph_text(of.before);
      const std::optional<std::string> made = after(*rule, before);
      if (!made) {
        ADD_FAILURE() << "does not apply";
        continue;
      }
      if (bless) of.after = test::made_lines(*made, of.before);
      EXPECT_EQ(test::made_lines(*made, of.before), of.after);
      for (const test::RuleCase::Refusal& refusal : of.refusals) {
        const std::string other = test::graph_text(test::changed(of.before, refusal));
        EXPECT_NE(other, before);
        EXPECT_EQ(after(*rule, other), std::nullopt) << "applies though " << refusal.reason;
      }
    }
    if (bless) write(file);
  }
}

TEST(RuleCases, ThereIsOneOfEachKindForEveryRule) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> counts;
  for (const test::RuleCaseFile& file : test::read_rule_cases()) {
    for (const test::RuleCase& of : file.cases) {
      ++counts[of.rule].first;
      counts[of.rule].second += of.refusals.size();
    }
  }
  for (const auto& rule : RuleBook::standard().rules()) {
    const auto [applies, refuses] = counts[rule->info().name];
    EXPECT_GT(applies, 0U) << rule->info().name << ": no case in tests/data/rules";
    EXPECT_GT(refuses, 0U) << rule->info().name << ": no \"not because\" in tests/data/rules";
  }
}

}  // namespace
}  // namespace magis
