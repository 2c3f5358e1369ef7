#include "search/rewriter.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "magis/base/error.h"
#include "magis/base/hash.h"
#include "magis/graph/builder.h"
#include "magis/graph/text.h"
#include "magis/schedule/decisions.h"
#include "magis/search/rule_effects.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

// What changes views alone: it costs nothing, and other rules find what they look for.
constexpr std::array<std::string_view, 4> kSimplifying = {"common_subexpression", "view_of_nothing",
                                                          "view_of_view", "permute_twice"};

constexpr Seconds kNothing = 1e-12;

bool simplifies(const RewriteRule& rule) {
  return std::ranges::find(kSimplifying, rule.info().name) != kSimplifying.end();
}

std::vector<const RewriteRule*> chosen(const RewriteOptions& options) {
  std::vector<const RewriteRule*> rules;
  for (const auto& rule : RuleBook::standard().rules()) {
    const RuleInfo& info = rule->info();
    if (options.exact && !info.exact) continue;
    if (std::ranges::find(options.without, info.name) != options.without.end()) continue;
    if (!options.only.empty() && info.name != options.only && !simplifies(*rule)) continue;
    rules.push_back(rule.get());
  }
  return rules;
}

void append(std::string& text, const TermGraph& terms, const Arg& arg) {
  if (const auto* id = std::get_if<ValueId>(&arg.value)) {
    text += to_text(terms.type(*id));
  } else if (const auto* list = std::get_if<ArgList>(&arg.value)) {
    for (const Arg& item : *list) append(text, terms, item);
  } else if (const auto* integer = std::get_if<int64_t>(&arg.value)) {
    text += std::to_string(*integer);
  }
  text += ',';
}

}  // namespace

Seconds TermCosts::of(const TermGraph& terms, TermId id) {
  const Term& term = terms.term(id);
  if (term.is_view()) return 0;
  std::string key = term.info->name;
  for (const Arg& arg : term.args) append(key, terms, arg);
  for (ValueId result : term.results) key += to_text(terms.type(result));
  const auto [found, is_new] = known_.try_emplace(std::move(key), 0);
  if (is_new) found->second = make_cost_table(terms.alone(id), profile_).seconds[OpId(0)];
  return found->second;
}

Rewriter::Rewriter(const Graph& graph, const DeviceProfile& profile, const RewriteOptions& options,
                   std::function<bool()> stop)
    : profile_(profile),
      stop_(std::move(stop)),
      terms_(graph),
      costs_(profile),
      index_(RuleBook::standard(), chosen(options)),
      only_(options.only) {
  for (const auto& [name, times] : rewrites_of(graph)) {
    if (const RewriteRule* rule = RuleBook::standard().find(name)) applied_[rule] = times;
  }
  index_.find_all(terms_);
  simplify();
}

// Views are equal only where they are the same one.
void Rewriter::simplify() {
  for (bool changed = true; changed && !stop_();) {
    changed = false;
    for (const RuleMatch& match : index_.matches()) {
      const Term& anchor = terms_.term(match.anchor);
      if (!simplifies(*match.rule) || anchor.dead || !anchor.is_view()) {
        continue;
      }
      const std::vector<RuleMatch> now = match.rule->find(terms_, match.anchor);
      if (now.empty() || !match.rule->apply(terms_, now.front())) continue;
      changed =
          changed || match.rule->info().name != "view_of_view" || terms_.term(match.anchor).dead;
    }
    index_.update(terms_, terms_.take_changed());
  }
}

bool Rewriter::save_time(bool keep_memory) {
  bool any = false;
  rejected_.clear();
  if (keep_memory) peak_ = program_order_peak();
  for (bool progress = true; progress && !stop_();) {
    progress = false;
    for (const Class& equal : classes_by_gain(keep_memory)) {
      if (stop_()) return any;
      if (equal.gain > 0 && accept(equal, keep_memory)) {
        progress = any = true;
      } else {
        rejected_.insert(equal.key);
      }
    }
    if (progress) simplify();
  }
  return any;
}

bool Rewriter::can_split() const {
  return std::ranges::any_of(index_.matches(),
                             [](const RuleMatch& match) { return match.rule->splits(); });
}

bool Rewriter::split_up() {
  bool any = false;
  for (bool progress = true; progress && !stop_();) {
    progress = false;
    for (const Class& equal : classes()) {
      if (!equal.matches.front().rule->splits()) continue;
      terms_.begin_trial();
      const int applied = apply_all(equal);
      if (applied == 0) {
        terms_.roll_back();
        rejected_.insert(equal.key);
        continue;
      }
      saved_ += saved_in_trial();
      keep(equal, applied);
      progress = any = true;
    }
  }
  if (any) {
    simplify();
    save_time(true);
  }
  return any;
}

std::vector<Rewriter::Class> Rewriter::classes_by_gain(bool keep_memory) {
  std::vector<Class> found = classes();
  if (keep_memory) {
    std::erase_if(found, [](const Class& equal) { return equal.matches[0].rule->merges(); });
  }
  for (Class& equal : found) equal.gain = gain_of(equal);
  std::ranges::stable_sort(found, std::greater<>(), &Class::gain);
  return found;
}

std::vector<Rewritten> Rewriter::single_steps(std::size_t most) {
  std::vector<Rewritten> steps;
  for (const Class& equal : classes_by_gain(false)) {
    if (equal.gain <= 0 || steps.size() == most || stop_()) break;
    terms_.begin_trial();
    const int applied = apply_all(equal);
    if (applied > 0 && saved_in_trial() > kNothing) {
      const RewriteRule* rule = equal.matches.front().rule;
      applied_[rule] += applied;
      steps.push_back(terms_.rewritten(meta()));
      steps.back().rules.assign(static_cast<std::size_t>(applied), rule->info().name);
      if ((applied_[rule] -= applied) == 0) applied_.erase(rule);
    }
    terms_.roll_back();
  }
  return steps;
}

std::vector<Rewriter::Class> Rewriter::classes() const {
  std::vector<Class> found;
  std::unordered_map<uint64_t, std::size_t> place;
  for (RuleMatch& match : index_.matches()) {
    if (!only_.empty() && match.rule->info().name != only_) continue;
    const uint64_t key = key_of(match);
    if (rejected_.contains(key)) continue;
    const auto [at, is_new] = place.try_emplace(key, found.size());
    if (is_new) found.push_back({.key = key, .matches = {}});
    found[at->second].matches.push_back(std::move(match));
  }
  return found;
}

// The rule, and what its pattern covers: operators, types, and whether they are read elsewhere.
uint64_t Rewriter::key_of(const RuleMatch& match) const {
  uint64_t key = hash_text(match.rule->info().name);
  const auto add = [&](auto number) { key = combine(key, static_cast<uint64_t>(number)); };
  for (TermId id : match.terms) {
    const Term& term = terms_.term(id);
    key = combine(key, hash_text(term.info->name));
    for_each_value(term, [&](ValueId read) {
      for (int64_t length : terms_.type(read).shape) add(length);
      for (int64_t stride : terms_.type(read).strides) add(stride);
      add(terms_.producer(read).valid());
    });
    for (ValueId result : term.results) add(terms_.readers(result).size());
  }
  return key;
}

// Of the first place where it can be applied.
Seconds Rewriter::gain_of(const Class& equal) {
  for (const RuleMatch& match : equal.matches) {
    terms_.begin_trial();
    const bool applied = match.rule->apply(terms_, match);
    const Seconds gain = applied ? saved_in_trial() : 0;
    terms_.roll_back();
    if (applied) return gain;
  }
  return 0;
}

Seconds Rewriter::saved_in_trial() {
  Seconds saved = 0;
  for (TermId id : terms_.trial_changed()) {
    if (terms_.term(id).dead) saved += costs_.of(terms_, id);
  }
  for (std::size_t i = terms_.trial_begin(); i < terms_.term_count(); ++i) {
    if (!terms_.term(TermId(i)).dead) saved -= costs_.of(terms_, TermId(i));
  }
  return saved;
}

// What one application took from another is left out.
int Rewriter::apply_all(const Class& equal) {
  int applied = 0;
  for (const RuleMatch& match : equal.matches) {
    if (terms_.term(match.anchor).dead) continue;
    const std::vector<RuleMatch> now = match.rule->find(terms_, match.anchor);
    const auto same = std::ranges::find(now, match);
    if (same != now.end() && match.rule->apply(terms_, *same)) ++applied;
  }
  return applied;
}

bool Rewriter::accept(const Class& equal, bool keep_memory) {
  terms_.begin_trial();
  const int applied = apply_all(equal);
  const Seconds saved = applied > 0 ? saved_in_trial() : 0;
  const bool pays = saved > kNothing;
  const Bytes peak = pays && keep_memory ? program_order_peak() : peak_;
  if (!pays || peak > peak_) {
    terms_.roll_back();
    return false;
  }
  peak_ = peak;
  saved_ += saved;
  keep(equal, applied);
  return true;
}

void Rewriter::keep(const Class& equal, int applied) {
  terms_.commit();
  applied_[equal.matches.front().rule] += applied;
  index_.update(terms_, terms_.take_changed());
}

Bytes Rewriter::program_order_peak() const {
  const Graph graph = terms_.graph();
  const CostTable costs = make_cost_table(graph, profile_);
  return result_of(graph, costs, program_order(graph)).found.transient_peak + costs.persistent;
}

int Rewriter::count_matches(std::string_view rule) const {
  return static_cast<int>(std::ranges::count_if(
      index_.matches(), [&](const RuleMatch& match) { return match.rule->info().name == rule; }));
}

int Rewriter::count_applied(std::string_view rule) const {
  const auto found = applied_.find(RuleBook::standard().find(rule));
  return found == applied_.end() ? 0 : found->second;
}

std::vector<RuleEffect> rule_effects(const Graph& graph, const DeviceProfile& profile) {
  const CostTable costs = make_cost_table(graph, profile);
  const Footprint before = result_of(graph, costs, program_order(graph)).found;
  std::vector<RuleEffect> effects;
  for (const auto& rule : RuleBook::standard().rules()) {
    const std::string& name = rule->info().name;
    Rewriter rewriter(graph, profile, {.only = name}, [] { return false; });
    RuleEffect effect{.rule = name, .matches = rewriter.count_matches(name)};
    if (effect.matches == 0) continue;
    if (rule->splits() ? rewriter.split_up() : rewriter.save_time(false)) {
      const Graph made = rewriter.graph();
      const CostTable now = make_cost_table(made, profile);
      const Footprint after = result_of(made, now, program_order(made)).found;
      effect.applied = rewriter.count_applied(name);
      effect.saved = before.seconds - after.seconds;
      effect.peak_change = after.transient_peak - before.transient_peak;
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

Graph rewrite_to_save_time(const Graph& graph, const DeviceProfile& profile, bool merge) {
  Rewriter rewriter(graph, profile, {}, [] { return false; });
  rewriter.save_time(true);
  if (merge) rewriter.save_time(false);
  return rewriter.graph();
}

Graph Rewriter::graph() const { return terms_.graph(meta()); }

std::vector<std::pair<std::string, std::string>> Rewriter::meta() const {
  std::vector<std::pair<std::string, int>> applied;
  for (const auto& rule : RuleBook::standard().rules()) {
    const auto found = applied_.find(rule.get());
    if (found != applied_.end()) applied.emplace_back(rule->info().name, found->second);
  }
  return {{std::string(kRewritesMeta), rewrites_text(applied)}};
}

}  // namespace magis
