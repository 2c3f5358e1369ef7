// All rules, and where they apply.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transform/rules/rewrite_rule.h"

namespace magis {

class RuleBook {
 public:
  // Those that come with magis.
  static const RuleBook& standard();
  explicit RuleBook(std::vector<std::unique_ptr<RewriteRule>> rules);

  const std::vector<std::unique_ptr<RewriteRule>>& rules() const { return rules_; }
  std::vector<const RewriteRule*> all() const;
  // Null if there is none of that name.
  const RewriteRule* find(std::string_view name) const;
  struct Entry {
    const RewriteRule* rule;
    Reach reach;
  };
  // Rules whose anchor may be this operator, in their order.
  const std::vector<Entry>& rules_at(const OpInfo* info) const;

 private:
  std::vector<std::unique_ptr<RewriteRule>> rules_;
  std::unordered_map<const OpInfo*, std::vector<Entry>> by_anchor_;
  std::vector<Entry> anywhere_;
};

// Every match in a graph, kept up to date while the graph is edited: after an edit only anchors
// from which a rule reaches what changed are looked at again, and by those rules alone.
class MatchIndex {
 public:
  // All matches of `rules`, which have to outlive the index.
  MatchIndex(const RuleBook& book, std::vector<const RewriteRule*> rules);

  void find_all(const TermGraph& terms);
  // After edits of the graph that find_all or update saw last; `changed` is what take_changed()
  // gave.
  void update(const TermGraph& terms, const std::vector<TermId>& changed);
  // In the order of their anchors.
  std::vector<RuleMatch> matches() const;

 private:
  using Wanted = bool (*)(const Reach& reach, int steps);
  void look_at(const TermGraph& terms, TermId anchor);
  void note_far_anchors(const TermGraph& terms, std::size_t first);
  void look_again(const TermGraph& terms, TermId anchor, Wanted wanted, int steps);
  template <class Neighbours>
  std::vector<std::pair<TermId, int>> walk(std::vector<TermId> from, int steps,
                                           Neighbours&& neighbours);

  const RuleBook& book_;
  std::vector<const RewriteRule*> rules_;
  Reach most_;               // of all rules
  int beside_ = 0;           // the most below of those that look beside
  std::vector<TermId> far_;  // anchors of rules that reach far
  std::vector<std::vector<RuleMatch>> by_anchor_;
  std::vector<std::size_t> seen_;  // by term: the walk that reached it last
  std::size_t walk_ = 0;
};

}  // namespace magis
