// What every rule is to those who use it, written in the rule language or in C++.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "magis/transform/rewriting.h"
#include "transform/term_graph.h"

namespace magis {

class RewriteRule;

// A place where a rule applies.
struct RuleMatch {
  const RewriteRule* rule = nullptr;
  TermId anchor = {};               // found here; the rule looks at it and at what stands near it
  std::vector<TermId> terms = {};   // that the pattern covers
  std::vector<ValueId> roots = {};  // values that are replaced
  std::shared_ptr<const void> detail = {};  // the rule's own
  bool operator==(const RuleMatch& other) const {
    return rule == other.rule && terms == other.terms && roots == other.roots;
  }
};

// What a match depends on, in steps from its anchor.
struct Reach {
  int below = 0;        // along operands
  bool beside = false;  // from there as far along readers, and once more along operands
  int above = 0;        // along readers
  bool far = false;     // too far to say: every anchor is looked at again after every edit
};

class RewriteRule {
 public:
  virtual ~RewriteRule() = default;

  const RuleInfo& info() const { return info_; }
  // Matches anchored at a live term, in a fixed order. Cost: what stands within the pattern's
  // reach.
  virtual std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const = 0;
  // Applies a match that find() would find now. False, with nothing changed, if a layout or a cycle
  // forbids it.
  virtual bool apply(TermGraph& terms, const RuleMatch& match) const = 0;
  // Operators that an anchor may be, for an index; empty: any.
  virtual std::vector<const OpInfo*> anchors() const = 0;
  // It makes one tensor live where several did, or one of several: that may cost memory wherever
  // their readers stand far apart, whatever program order says.
  virtual bool merges() const { return false; }
  // It takes apart what one tensor held, which may save memory and take time.
  virtual bool splits() const { return false; }
  // Where a change may matter to a match.
  virtual Reach reach() const = 0;

 protected:
  explicit RewriteRule(RuleInfo info) : info_(std::move(info)) {}

 private:
  RuleInfo info_;
};

}  // namespace magis
