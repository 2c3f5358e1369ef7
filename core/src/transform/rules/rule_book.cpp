#include "transform/rules/rule_book.h"

#include <algorithm>
#include <utility>

#include "magis/graph/builder.h"
#include "transform/rules/native_rules.h"
#include "transform/rules/rule_texts.h"
#include "transform/rules/text_rule.h"

namespace magis {

const RuleBook& RuleBook::standard() {
  static const RuleBook book = [] {
    std::vector<std::unique_ptr<RewriteRule>> rules = make_native_rules();
    for (std::string_view text : {kMovingRules, kFusionRules, kMergingRules, kAlgebraRules}) {
      for (Rule& rule : parse_rules(text, "built-in rules")) {
        rules.push_back(std::make_unique<TextRule>(std::move(rule)));
      }
    }
    return RuleBook(std::move(rules));
  }();
  return book;
}

RuleBook::RuleBook(std::vector<std::unique_ptr<RewriteRule>> rules) : rules_(std::move(rules)) {
  for (const auto& rule : rules_) {
    const std::vector<const OpInfo*> anchors = rule->anchors();
    if (anchors.empty()) anywhere_.push_back({rule.get(), rule->reach()});
    for (const OpInfo* info : anchors) by_anchor_[info].push_back({rule.get(), rule->reach()});
  }
  for (auto& [info, at] : by_anchor_) at.insert(at.begin(), anywhere_.begin(), anywhere_.end());
}

std::vector<const RewriteRule*> RuleBook::all() const {
  std::vector<const RewriteRule*> all;
  for (const auto& rule : rules_) all.push_back(rule.get());
  return all;
}

const RewriteRule* RuleBook::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(rules_, [&](const auto& rule) { return rule->info().name == name; });
  return found == rules_.end() ? nullptr : found->get();
}

const std::vector<RuleBook::Entry>& RuleBook::rules_at(const OpInfo* info) const {
  const auto found = by_anchor_.find(info);
  return found == by_anchor_.end() ? anywhere_ : found->second;
}

MatchIndex::MatchIndex(const RuleBook& book, std::vector<const RewriteRule*> rules)
    : book_(book), rules_(std::move(rules)) {
  std::ranges::sort(rules_);
  for (const RewriteRule* rule : rules_) {
    const Reach reach = rule->reach();
    most_.below = std::max(most_.below, reach.below);
    most_.above = std::max(most_.above, reach.above);
    if (reach.beside) beside_ = std::max(beside_, reach.below);
  }
}

void MatchIndex::find_all(const TermGraph& terms) {
  by_anchor_.assign(terms.term_count(), {});
  far_.clear();
  note_far_anchors(terms, 0);
  for (std::size_t i = 0; i < terms.term_count(); ++i) look_at(terms, TermId(i));
}

void MatchIndex::note_far_anchors(const TermGraph& terms, std::size_t first) {
  for (std::size_t i = first; i < terms.term_count(); ++i) {
    const auto& rules = book_.rules_at(terms.term(TermId(i)).info);
    if (std::ranges::any_of(rules, [](const auto& entry) { return entry.reach.far; })) {
      far_.emplace_back(i);
    }
  }
}

void MatchIndex::look_at(const TermGraph& terms, TermId anchor) {
  look_again(
      terms, anchor, [](const Reach&, int) { return true; }, 0);
}

// By the rules of whose reach that is wanted; matches of the others stay.
void MatchIndex::look_again(const TermGraph& terms, TermId anchor, Wanted wanted, int steps) {
  std::vector<RuleMatch>& matches = by_anchor_[static_cast<std::size_t>(anchor.index)];
  if (terms.term(anchor).dead) return matches.clear();
  const std::vector<RuleBook::Entry>& rules = book_.rules_at(terms.term(anchor).info);
  if (std::ranges::none_of(
          rules, [&](const RuleBook::Entry& entry) { return wanted(entry.reach, steps); })) {
    return;
  }
  std::vector<RuleMatch> now;
  auto known = matches.begin();  // in the order of the rules
  for (const auto& [rule, reach] : rules) {
    const bool again = wanted(reach, steps);
    for (; known != matches.end() && known->rule == rule; ++known) {
      if (!again) now.push_back(std::move(*known));
    }
    if (!again || !std::ranges::binary_search(rules_, rule)) continue;
    for (RuleMatch& match : rule->find(terms, anchor)) now.push_back(std::move(match));
  }
  matches = std::move(now);
}

// Terms within so many steps of `from`, with how many they take.
template <class Neighbours>
std::vector<std::pair<TermId, int>> MatchIndex::walk(std::vector<TermId> from, int steps,
                                                     Neighbours&& neighbours) {
  ++walk_;
  std::vector<std::pair<TermId, int>> reached;
  const auto reach = [&](TermId id, int step) {
    if (id.valid() && std::exchange(seen_[static_cast<std::size_t>(id.index)], walk_) != walk_) {
      reached.emplace_back(id, step);
    }
  };
  for (TermId id : from) reach(id, 0);
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const auto [id, step] = reached[next];
    if (step == steps) break;
    neighbours(id, [&, step = step](TermId neighbour) { reach(neighbour, step + 1); });
  }
  return reached;
}

void MatchIndex::update(const TermGraph& terms, const std::vector<TermId>& changed) {
  note_far_anchors(terms, by_anchor_.size());
  by_anchor_.resize(terms.term_count());
  seen_.resize(terms.term_count(), 0);
  const auto readers = [&](TermId id, auto&& visit) {
    for (ValueId made : terms.term(id).results) {
      for (TermId reader : terms.readers(made)) visit(reader);
    }
  };
  const auto operands = [&](TermId id, auto&& visit) {
    for_each_value(terms.term(id), [&](ValueId read) { visit(terms.producer(read)); });
  };
  const auto ids = [](const std::vector<std::pair<TermId, int>>& reached) {
    std::vector<TermId> all;
    for (const auto& [id, step] : reached) all.push_back(id);
    return all;
  };
  for (const auto& [id, steps] : walk(changed, most_.below, readers)) {
    look_again(
        terms, id, [](const Reach& reach, int n) { return reach.below >= n; }, steps);
  }
  for (const auto& [id, steps] : walk(changed, most_.above, operands)) {
    if (steps == 0) continue;  // it has been looked at
    look_again(
        terms, id, [](const Reach& reach, int n) { return reach.above >= n; }, steps);
  }
  for (int below = 1; below <= beside_; ++below) {
    const auto over = ids(walk(changed, below, readers));
    const auto shared = ids(walk(over, below, operands));
    for (const TermId id : ids(walk(shared, below, readers))) {
      look_again(
          terms, id, [](const Reach& r, int n) { return r.beside && r.below == n; }, below);
    }
  }
  for (const TermId id : far_) {
    look_again(
        terms, id, [](const Reach& reach, int) { return reach.far; }, 0);
  }
}

std::vector<RuleMatch> MatchIndex::matches() const {
  std::vector<RuleMatch> all;
  for (const std::vector<RuleMatch>& at : by_anchor_) all.insert(all.end(), at.begin(), at.end());
  return all;
}

}  // namespace magis
