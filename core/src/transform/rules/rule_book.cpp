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
    reach_ = std::max(reach_, rule->reach());
    const std::vector<const OpInfo*> anchors = rule->anchors();
    if (anchors.empty()) anywhere_.push_back(rule.get());
    for (const OpInfo* info : anchors) by_anchor_[info].push_back(rule.get());
  }
  for (auto& [info, at] : by_anchor_) at.insert(at.begin(), anywhere_.begin(), anywhere_.end());
}

const RewriteRule* RuleBook::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(rules_, [&](const auto& rule) { return rule->info().name == name; });
  return found == rules_.end() ? nullptr : found->get();
}

const std::vector<const RewriteRule*>& RuleBook::rules_at(const OpInfo* info) const {
  const auto found = by_anchor_.find(info);
  return found == by_anchor_.end() ? anywhere_ : found->second;
}

MatchIndex::MatchIndex(const RuleBook& book, std::vector<const RewriteRule*> rules)
    : book_(book), rules_(std::move(rules)) {
  std::ranges::sort(rules_);
}

void MatchIndex::find_all(const TermGraph& terms) {
  by_anchor_.assign(terms.term_count(), {});
  for (std::size_t i = 0; i < terms.term_count(); ++i) look_at(terms, TermId(i));
}

void MatchIndex::look_at(const TermGraph& terms, TermId anchor) {
  ++looked_at_;
  std::vector<RuleMatch>& matches = by_anchor_[static_cast<std::size_t>(anchor.index)];
  matches.clear();
  if (terms.term(anchor).dead) return;
  for (const RewriteRule* rule : book_.rules_at(terms.term(anchor).info)) {
    if (!std::ranges::binary_search(rules_, rule)) continue;
    for (RuleMatch& match : rule->find(terms, anchor)) matches.push_back(std::move(match));
  }
}

void MatchIndex::update(const TermGraph& terms, const std::vector<TermId>& changed) {
  ++update_;
  by_anchor_.resize(terms.term_count());
  seen_.resize(terms.term_count(), 0);
  std::vector<TermId> reached;
  const auto reach = [&](TermId id) {
    if (!id.valid()) return;
    if (std::exchange(seen_[static_cast<std::size_t>(id.index)], update_) != update_) {
      reached.push_back(id);
    }
  };
  for (TermId id : changed) reach(id);
  std::size_t begin = 0;
  for (int step = 0; step < book_.reach(); ++step) {
    const std::size_t end = reached.size();
    for (; begin < end; ++begin) {
      const Term& term = terms.term(reached[begin]);
      for_each_value(term, [&](ValueId read) { reach(terms.producer(read)); });
      for (ValueId made : term.results) {
        for (TermId reader : terms.readers(made)) reach(reader);
      }
    }
  }
  for (TermId id : reached) look_at(terms, id);
}

std::vector<RuleMatch> MatchIndex::matches() const {
  std::vector<RuleMatch> all;
  for (const std::vector<RuleMatch>& at : by_anchor_) all.insert(all.end(), at.begin(), at.end());
  return all;
}

}  // namespace magis
