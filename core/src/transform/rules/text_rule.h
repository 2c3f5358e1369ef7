// A rule of the rule language at work.
#pragma once

#include "transform/rules/pattern_matcher.h"
#include "transform/rules/rewrite_rule.h"
#include "transform/rules/rule.h"

namespace magis {

class TextRule : public RewriteRule {
 public:
  explicit TextRule(Rule rule);
  TextRule(const TextRule&) = delete;
  TextRule& operator=(const TextRule&) = delete;

  const Rule& rule() const { return rule_; }
  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override;
  bool apply(TermGraph& terms, const RuleMatch& match) const override;
  std::vector<const OpInfo*> anchors() const override;
  bool merges() const override { return rule_.roots.size() > 1; }
  Reach reach() const override { return reach_; }

 private:
  const Rule rule_;
  const PatternMatcher matcher_;
  const Reach reach_;
  bool may_cycle_;  // the right side could come to depend on what it replaces
};

}  // namespace magis
