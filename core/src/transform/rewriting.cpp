#include "magis/transform/rewriting.h"

#include <algorithm>
#include <map>
#include <random>
#include <sstream>

#include "transform/rules/rule_book.h"
#include "transform/rules/rule_example.h"
#include "transform/rules/text_rule.h"

namespace magis {
std::vector<RuleInfo> rewrite_rules() {
  std::vector<RuleInfo> infos;
  for (const auto& rule : RuleBook::standard().rules()) infos.push_back(rule->info());
  return infos;
}

std::vector<RuleInfo> check_rules(std::string_view text, std::string_view file_name) {
  std::vector<RuleInfo> infos;
  for (Rule& rule : parse_rules(text, file_name)) infos.push_back(TextRule(std::move(rule)).info());
  return infos;
}

std::string rewrites_text(const std::vector<std::pair<std::string, int>>& applied) {
  std::string text;
  for (const auto& [name, times] : applied) {
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(times);
  }
  return text;
}

std::vector<std::pair<std::string, int>> rewrites_of(const Graph& graph) {
  std::vector<std::pair<std::string, int>> applied;
  for (const auto& [key, text] : graph.meta()) {
    if (key != kRewritesMeta) continue;
    std::istringstream words(text);
    std::string name;
    int times = 0;
    while (words >> name >> times) {
      applied.emplace_back(name, times);
      words.ignore();
    }
  }
  return applied;
}

bool rounds_otherwise(const Graph& graph) {
  if (!graph.loops().empty()) return true;
  return std::ranges::any_of(rewrites_of(graph), [](const auto& applied) {
    const RewriteRule* rule = RuleBook::standard().find(applied.first);
    return rule == nullptr || !rule->info().exact;
  });
}

std::optional<std::pair<Graph, Graph>> rule_example(std::string_view name, uint64_t seed) {
  const auto* rule = dynamic_cast<const TextRule*>(RuleBook::standard().find(name));
  if (rule == nullptr) return std::nullopt;
  std::optional<Graph> before = left_side(rule->rule(), seed);
  if (!before) return std::nullopt;
  TermGraph terms(*before);
  for (std::size_t i = 0; i < terms.term_count(); ++i) {
    for (const RuleMatch& match : rule->find(terms, TermId(i))) {
      if (rule->apply(terms, match)) {
        Graph after = terms.graph();
        return std::pair(*std::move(before), std::move(after));
      }
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, int>> count_matches(const Graph& graph) {
  const TermGraph terms(graph);
  MatchIndex index(RuleBook::standard(), RuleBook::standard().all());
  index.find_all(terms);
  std::map<const RewriteRule*, int> counts;
  for (const RuleMatch& match : index.matches()) ++counts[match.rule];
  std::vector<std::pair<std::string, int>> named;
  for (const RewriteRule* rule : RuleBook::standard().all()) {
    if (counts.contains(rule)) named.emplace_back(rule->info().name, counts[rule]);
  }
  return named;
}

Rewritten rewrite_at_random(const Graph& graph, int count, uint64_t seed,
                            std::span<const std::string> only) {
  std::mt19937_64 random(seed);
  std::vector<std::string> taken;
  TermGraph terms(graph);
  std::vector<const RewriteRule*> rules = RuleBook::standard().all();
  std::erase_if(rules, [&](const RewriteRule* rule) {
    return !only.empty() && std::ranges::find(only, rule->info().name) == only.end();
  });
  MatchIndex index(RuleBook::standard(), std::move(rules));
  index.find_all(terms);
  for (int done = 0; done < count;) {
    std::vector<RuleMatch> matches = index.matches();
    bool applied = false;
    while (!matches.empty() && !applied) {
      const std::size_t chosen = random() % matches.size();
      const RewriteRule* rule = matches[chosen].rule;
      applied = rule->apply(terms, matches[chosen]);
      if (applied) taken.push_back(rule->info().name);
      matches.erase(matches.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    if (!applied) break;
    index.update(terms, terms.take_changed());
    ++done;
  }
  Rewritten made = terms.rewritten();
  made.rules = std::move(taken);
  return made;
}

}  // namespace magis
