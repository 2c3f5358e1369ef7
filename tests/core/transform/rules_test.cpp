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

const RewriteRule& rule_named(std::string_view name) {
  const RewriteRule* rule = RuleBook::standard().find(name);
  EXPECT_NE(rule, nullptr) << name;
  return *rule;
}

std::vector<RuleMatch> matches_of(const RewriteRule& rule, const TermGraph& terms) {
  std::vector<RuleMatch> all;
  for (std::size_t i = 0; i < terms.term_count(); ++i) {
    for (RuleMatch& match : rule.find(terms, TermId(i))) all.push_back(std::move(match));
  }
  return all;
}

// The statements of `text` after the first application of a rule; "none" if it does not apply.
std::string after(std::string_view rule, const std::string& text) {
  const Graph graph = parse_graph("magis 1\ndevice cpu\n" + text, "case");
  TermGraph terms(graph);
  for (const RuleMatch& match : matches_of(rule_named(rule), terms)) {
    if (!rule_named(rule).apply(terms, match)) continue;
    std::string made = to_text(terms.graph());
    const std::size_t begin = made.find("\n%");
    return made.substr(begin + 1, made.find("\noutput") - begin - 2);
  }
  return "none";
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

// ---- single rules

constexpr const char* kProducts = R"(param %x "x" : f32[4,6]
param %v "v" : f32[3,6]
param %w "w" : f32[2,6]
param %d "d" : f32[3]
param %e "e" : f32[2]

)";

TEST(Rules, MergesLinearLayers) {
  EXPECT_EQ(after("merge_linears",
                  std::string(kProducts) + R"(%vt = aten.permute(%v, [1,0]) : f32[6,3]{1,6}
%a = aten.addmm(%d, %x, %vt) : f32[4,3]
%wt = aten.permute(%w, [1,0]) : f32[6,2]{1,6}
%b = aten.addmm(%e, %x, %wt) : f32[4,2]
%ra = aten.relu(%a) : f32[4,3]
%rb = aten.relu(%b) : f32[4,2]
output aux "a" %ra
output aux "b" %rb
)"),
            R"(%a_cat = aten.cat([%d,%e], 0) : f32[5]
%a_cat_2 = aten.cat([%v,%w], 0) : f32[5,6]
%a_permute = aten.permute(%a_cat_2, [1,0]) : f32[6,5]{1,6}
%a_addmm = aten.addmm(%a_cat, %x, %a_permute) : f32[4,5]
%a = aten.slice.Tensor(%a_addmm, 1, 0, 3) : f32[4,3]{5,1}/80
%ra = aten.relu(%a) : f32[4,3]
%b = aten.slice.Tensor(%a_addmm, 1, 3, 5) : f32[4,2]{5,1}+3
%rb = aten.relu(%b) : f32[4,2])");
}

TEST(Rules, DoesNotMergeWhatFollowsFromEachOther) {
  EXPECT_EQ(after("merge_products", R"(param %x "x" : f32[4,4]
param %v "v" : f32[4,4]

%a = aten.mm(%x, %v) : f32[4,4]
%b = aten.mm(%x, %a) : f32[4,4]
%r = aten.relu(%b) : f32[4,4]
output aux "r" %r
)"),
            "none");
}

// Slices of a product have other strides: a view over both dimensions would be another tensor.
TEST(Rules, DoesNotMergeWhereAViewNeedsTheLayout) {
  EXPECT_EQ(after("merge_products", R"(param %x "x" : f32[4,6]
param %v "v" : f32[6,3]
param %w "w" : f32[6,2]

%a = aten.mm(%x, %v) : f32[4,3]
%b = aten.mm(%x, %w) : f32[4,2]
%flat = aten.view(%a, [12]) : f32[12]
%ra = aten.relu(%flat) : f32[12]
%rb = aten.relu(%b) : f32[4,2]
output aux "a" %ra
output aux "b" %rb
)"),
            "none");
}

// What the step returns is a tensor of its own.
TEST(Rules, DoesNotMakeSlicesOfOutputs) {
  EXPECT_EQ(after("merge_products", R"(param %x "x" : f32[4,6]
param %v "v" : f32[6,3]
param %w "w" : f32[6,2]

%a = aten.mm(%x, %v) : f32[4,3]
%b = aten.mm(%x, %w) : f32[4,2]
output aux "a" %a
output aux "b" %b
)"),
            "none");
}

TEST(Rules, ReturnsNoInputAndNothingTwice) {
  const std::string negated = R"(param %a "a" : f32[4]

%n = aten.neg(%a) : f32[4]
%m = aten.neg(%n) : f32[4]
output aux "m" %m
)";
  EXPECT_EQ(after("negate_twice", negated), "none");
  EXPECT_EQ(after("relu_twice", R"(param %a "a" : f32[4]

%r = aten.relu(%a) : f32[4]
%q = aten.relu(%r) : f32[4]
output aux "r" %r
output aux "q" %q
)"),
            "none");
  // Neither through views.
  EXPECT_EQ(after("common_subexpression", R"(param %a "a" : f32[4,4]

%r = aten.sum.dim_IntList(%a, [0], true) : f32[1,4]
%s = aten.sum.dim_IntList(%a, [0], true) : f32[1,4]
%v = aten.view(%r, [4]) : f32[4]
%w = aten.view(%s, [4]) : f32[4]
output grad "v" %v
output grad "w" %w
)"),
            "none");
}

// An input that is written to is another value later.
TEST(Rules, LeavesAloneWhatReadsAnInputThatIsWrittenTo) {
  const std::string text = R"(param %x "x" : f32[4]
param %y "y" : f32[4]

%a = aten.add.Tensor(%x, %x) : f32[4]
%written = aten.add_.Tensor(%x, %y) : none
%r = aten.relu(%a) : f32[4]
output aux "r" %r
)";
  EXPECT_EQ(after("twice", text), "none");
  std::string unwritten = text;
  unwritten.replace(unwritten.find("add_.Tensor(%x"), 14, "add_.Tensor(%y");
  EXPECT_EQ(after("twice", unwritten).substr(0, 34), "%a = aten.mul.Scalar(%x, 2.0) : f3");
}

// A gradient of a weight is complete after the last part only.
TEST(Rules, AddsNoSumOverTheBatchToAnother) {
  const auto text = [](const std::string& added) {
    return "param %w \"w\" : f32[3,2]\nbatch %x \"x\" : f32[4,3]\nbatch %g \"g\" : f32[4,2]\n\n" +
           std::string(
               "%a = aten.relu(%x) : f32[4,3]\n%t = aten.permute(%a, [1,0]) : f32[3,4]{1,3}\n") +
           "%p = aten.mm(%t, %g) : f32[3,2]\n%e = aten.relu(%w) : f32[3,2]\n" +
           "%s = aten.add.Tensor(" + added + ", %p) : f32[3,2]\noutput aux \"s\" %s\n";
  };
  EXPECT_NE(after("add_to_product", text("%w")), "none");
  EXPECT_EQ(after("add_to_product", text("%e")), "none");
}

TEST(Rules, KeepsWideRulesAwayFrom16Bits) {
  const auto text = [](const std::string& dtype) {
    return "param %a \"a\" : " + dtype + "[4]\nparam %b \"b\" : " + dtype + "[4]\n\n" +
           "%s = aten.add.Tensor(%a, %b) : " + dtype +
           "[4]\n%p = aten.mul.Tensor(%s, %a) : " + dtype + "[4]\noutput aux \"p\" %p\n";
  };
  EXPECT_NE(after("distribute", text("f32")), "none");
  EXPECT_EQ(after("distribute", text("bf16")), "none");
}

TEST(Rules, ComputesOnceWhatIsComputedTwice) {
  const std::string text = R"(param %a "a" : f32[4]

%r = aten.relu(%a) : f32[4]
%q = aten.relu(%a) : f32[4]
%s = aten.mul.Tensor(%r, %q) : f32[4]
output aux "s" %s
)";
  EXPECT_EQ(after("common_subexpression", text),
            "%r = aten.relu(%a) : f32[4]\n%s = aten.mul.Tensor(%r, %r) : f32[4]");
  std::string drawn = text;
  for (const char* name : {"%r = aten.relu(%a)", "%q = aten.relu(%a)"}) {
    drawn.replace(drawn.find(name), 18, std::string(name).substr(0, 5) + "aten.rand_like(%a)");
  }
  EXPECT_EQ(after("common_subexpression", drawn), "none");
}

TEST(Rules, FoldsPermutationsAndCopies) {
  EXPECT_EQ(after("permute_twice", R"(param %a "a" : f32[2,3,4]

%p = aten.permute(%a, [2,0,1]) : f32[4,2,3]{1,12,4}
%q = aten.permute(%p, [1,2,0]) : f32[2,3,4]
%r = aten.relu(%q) : f32[2,3,4]
output aux "r" %r
)"),
            "%r = aten.relu(%a) : f32[2,3,4]");
  const std::string copied = R"(param %a "a" : f32[2,3]

%c = aten.clone(%a) : f32[2,3]
%r = aten.relu(%c) : f32[2,3]
output aux "r" %r
)";
  EXPECT_EQ(after("needless_copy", copied), "%r = aten.relu(%a) : f32[2,3]");
  EXPECT_EQ(after("needless_copy", copied + "output aux \"c\" %c\n"), "none");
}

TEST(Rules, CastsOnce) {
  const auto text = [](const std::string& first, const std::string& middle,
                       const std::string& word) {
    return "param %a \"a\" : " + first + "[4]\n\n%m = aten._to_copy(%a, dtype=torch." + word +
           ") : " + middle + "[4]\n%l = aten._to_copy(%m, dtype=torch.bfloat16) : bf16[4]\n" +
           "%r = aten.relu(%l) : bf16[4]\noutput aux \"r\" %r\n";
  };
  EXPECT_EQ(after("cast_twice", text("bf16", "f32", "float32")), "%r = aten.relu(%a) : bf16[4]");
  EXPECT_EQ(after("cast_twice", text("f32", "f16", "float16")), "none") << "f16 holds less";
}

TEST(Rules, SeesThroughConcatenations) {
  EXPECT_EQ(after("slice_of_concatenation", R"(param %a "a" : f32[2,3]
param %b "b" : f32[2,4]

%c = aten.cat([%a, %b], 1) : f32[2,7]
%s = aten.slice.Tensor(%c, 1, 3, 7) : f32[2,4]{7,1}+3/56
%r = aten.relu(%s) : f32[2,4]
output aux "r" %r
)"),
            "%r = aten.relu(%b) : f32[2,4]");
  const std::string cut = R"(param %a "a" : f32[2,7]

%b = aten.slice.Tensor(%a, 1, 0, 3) : f32[2,3]{7,1}/56
%d = aten.slice.Tensor(%a, 1, 3, 7) : f32[2,4]{7,1}+3/56
%c = aten.cat([%b, %d], 1) : f32[2,7]
%r = aten.relu(%c) : f32[2,7]
output aux "r" %r
)";
  EXPECT_EQ(after("concatenation_of_slices", cut), "%r = aten.relu(%a) : f32[2,7]");
  std::string turned = cut;
  turned.replace(turned.find("[%b, %d]"), 8, "[%d, %b]");
  EXPECT_EQ(after("concatenation_of_slices", turned), "none");
}

TEST(Rules, LetsProductsScale) {
  const std::string text = R"(param %a "a" : f32[2,3,4]
param %b "b" : f32[2,4,5]
param %c "c" : f32[2,5,4]

%d = aten.div.Scalar(%a, 8.0) : f32[2,3,4]
%p = aten.bmm(%d, %b) : f32[2,3,5]
%t = aten.permute(%d, [0,2,1]) : f32[2,4,3]{12,1,4}
%q = aten.bmm(%c, %t) : f32[2,5,3]
output aux "p" %p
output aux "q" %q
)";
  EXPECT_EQ(after("scale_in_products", text),
            R"(%a_element = aten.slice.Tensor(%a, 0, 0, 1) : f32[1,3,4]/96
%a_element_2 = aten.slice.Tensor(%a_element, 1, 0, 1) : f32[1,1,4]{12,4,1}/96
%a_element_3 = aten.slice.Tensor(%a_element_2, 2, 0, 1) : f32[1,1,1]{12,4,1}/96
%a_element_4 = aten.view(%a_element_3, [1]) : f32[1]/96
%p = aten.baddbmm(%a_element_4, %a, %b, beta=0.0, alpha=0.125) : f32[2,3,5]
%t_2 = aten.permute(%a, [0,2,1]) : f32[2,4,3]{12,1,4}
%q = aten.baddbmm(%a_element_4, %c, %t_2, beta=0.0, alpha=0.125) : f32[2,5,3])");
  EXPECT_EQ(after("scale_in_products", text + "output aux \"d\" %d\n"), "none");
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
