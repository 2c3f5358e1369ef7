// Where rules apply and what they make. That both sides compute the same is shown by running them
// (tests/python/truth/test_rules.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "magis/graph/builder.h"
#include "magis/graph/text.h"
#include "magis/transform/rewriting.h"
#include "transform/rules/rule_book.h"
#include "transform/rules/rule_example.h"
#include "transform/rules/text_rule.h"

namespace magis {
namespace {

std::vector<RuleMatch> matches_of(const RewriteRule& rule, const TermGraph& terms) {
  std::vector<RuleMatch> all;
  for (std::size_t i = 0; i < terms.term_count(); ++i) {
    for (RuleMatch& match : rule.find(terms, TermId(i))) all.push_back(std::move(match));
  }
  return all;
}

std::vector<const TextRule*> text_rules() {
  std::vector<const TextRule*> rules;
  for (const auto& rule : RuleBook::standard().rules()) {
    if (const auto* text = dynamic_cast<const TextRule*>(rule.get())) rules.push_back(text);
  }
  return rules;
}

// ---- every rule

TEST(Rules, EachAppliesToItsOwnLeftSide) {
  for (const TextRule* rule : text_rules()) {
    int applied = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto example = rule_example(rule->info().name, seed);
      if (!example) continue;
      ++applied;
      EXPECT_NE(to_text(example->first), to_text(example->second)) << rule->info().name;
    }
    EXPECT_GT(applied, 0) << rule->info().name;
  }
}

// Each operator of a pattern is needed: with another in its place the rule does not match.
TEST(Rules, NoneAppliesWhereAnOperatorOfItsPatternIsAnother) {
  for (const TextRule* rule : text_rules()) {
    std::optional<Graph> graph;
    for (uint64_t seed = 0; seed < 20 && !graph; ++seed) graph = left_side(rule->rule(), seed);
    ASSERT_TRUE(graph) << rule->info().name;
    const TermGraph terms(*graph);
    const std::vector<RuleMatch> matches = matches_of(*rule, terms);
    ASSERT_FALSE(matches.empty()) << rule->info().name;
    for (TermId covered : matches.front().terms) {
      const std::string& name = terms.term(covered).info->name;
      std::string text = to_text(*graph);
      const std::string& result = terms.name(terms.term(covered).results.front());
      const std::string call = "%" + result + " = " + name + "(";
      const std::size_t at = text.find(call);
      if (at == std::string::npos || terms.term(covered).is_view()) continue;
      text.replace(at, call.size(), "%" + result + " = aten.magis_test_unknown(");
      const Graph other = parse_graph(text, "other");
      const TermGraph changed(other);
      for (const RuleMatch& match : matches_of(*rule, changed)) {
        const bool covers = std::ranges::any_of(match.terms, [&](TermId id) {
          return changed.name(changed.term(id).results.front()) == result;
        });
        EXPECT_FALSE(covers) << rule->info().name << " takes another operator for " << name;
      }
    }
  }
}

TEST(Rules, NoneTouchesIntegers) {
  for (const TextRule* rule : text_rules()) {
    const std::optional<Graph> graph = left_side(rule->rule(), 1);
    if (!graph) continue;
    std::string text = to_text(*graph);
    for (std::size_t at = 0; (at = text.find(": f64[", at)) != std::string::npos;) {
      text.replace(at, 6, ": i64[");
    }
    const Graph integers = parse_graph(text, "integers");
    EXPECT_TRUE(matches_of(*rule, TermGraph(integers)).empty()) << rule->info().name;
  }
}

// ---- what a rewritten graph says of itself

// %a and %b become slices of one product, which stands where %a did; %r, that reads neither, stays.
TEST(Rewritten, SaysWhereItsOperatorsStood) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
param %x "x" : f32[4,6]
param %v "v" : f32[6,3]
param %w "w" : f32[6,2]

%r = aten.relu(%x) : f32[4,6]
%a = aten.mm(%x, %v) : f32[4,3]
%b = aten.mm(%x, %w) : f32[4,2]
%ra = aten.relu(%a) : f32[4,3]
%rb = aten.relu(%b) : f32[4,2]
output aux "r" %r
output aux "a" %ra
output aux "b" %rb
)",
                                  "test");
  const std::string rule = "merge_products";
  const Rewritten made = rewrite_at_random(graph, 1, 0, {&rule, 1});
  EXPECT_EQ(made.rules, std::vector{rule});
  std::string told;
  for (std::size_t o = 0; o < made.graph.op_count(); ++o) {
    const OpId op(o);
    const bool changed = std::ranges::find(made.changed, op) != made.changed.end();
    told += made.graph.op(op).info->name + " for " + graph.name(made.stands_for[op]) +
            (changed ? ", changed\n" : "\n");
  }
  EXPECT_EQ(told,
            "aten.relu for r\n"
            "aten.cat for a, changed\n"
            "aten.mm for a, changed\n"
            "aten.relu for ra, changed\n"
            "aten.relu for rb, changed\n");
}

// ---- editing and matching

std::string network(int layers) {
  std::string text = "param %x0 \"x\" : f32[8,6]\n";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "param %v" + n + " \"v" + n + "\" : f32[6,6]\nparam %w" + n + " \"w" + n +
            "\" : f32[6,6]\n";
  }
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "%a" + n + " = aten.mm(%x" + n + ", %v" + n + ") : f32[8,6]\n";
    text += "%b" + n + " = aten.mm(%x" + n + ", %w" + n + ") : f32[8,6]\n";
    text += "%s" + n + " = aten.mul.Scalar(%a" + n + ", 0.5) : f32[8,6]\n";
    text += "%u" + n + " = aten.add.Tensor(%s" + n + ", %b" + n + ") : f32[8,6]\n";
    text += "%m" + n + " = aten.mul.Tensor(%u" + n + ", %u" + n + ") : f32[8,6]\n";
    text +=
        "%x" + std::to_string(i + 1) + " = aten.add.Tensor(%m" + n + ", %x" + n + ") : f32[8,6]\n";
  }
  return "magis 1\ndevice cpu\n" + text + "output aux \"x\" %x" + std::to_string(layers) + "\n";
}

TEST(MatchIndex, EqualsMatchingAnewAfterEveryEdit) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = parse_graph(network(4), "network");
    std::mt19937_64 random(seed);
    TermGraph terms(graph);
    MatchIndex index(RuleBook::standard(), RuleBook::standard().all());
    index.find_all(terms);
    for (int edit = 0; edit < 25; ++edit) {
      const std::vector<RuleMatch> matches = index.matches();
      if (matches.empty()) break;
      const RuleMatch& match = matches[random() % matches.size()];
      match.rule->apply(terms, match);
      index.update(terms, terms.take_changed());
      MatchIndex anew(RuleBook::standard(), RuleBook::standard().all());
      anew.find_all(terms);
      ASSERT_EQ(index.matches(), anew.matches()) << "seed " << seed << ", edit " << edit;
    }
  }
}

TEST(TermGraph, IsAsBeforeWhenATrialIsRolledBack) {
  const Graph graph = parse_graph(network(3), "network");
  TermGraph terms(graph);
  MatchIndex index(RuleBook::standard(), RuleBook::standard().all());
  index.find_all(terms);
  const std::string before = to_text(terms.graph());
  EXPECT_EQ(before, to_text(graph));
  for (const RuleMatch& match : index.matches()) {
    terms.begin_trial();
    match.rule->apply(terms, match);
    terms.roll_back();
    ASSERT_EQ(to_text(terms.graph()), before) << match.rule->info().name;
    ASSERT_TRUE(terms.take_changed().empty());
  }
}

}  // namespace
}  // namespace magis
