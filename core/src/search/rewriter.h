// Which rewrites pay: greedily, all equal places of repeated layers at once, by the time that they
// save and what they do to the peak in program order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "magis/simulate/profile.h"
#include "transform/rules/rule_book.h"

namespace magis {

// What operators cost by themselves, counted once for each call and types.
class TermCosts {
 public:
  explicit TermCosts(const DeviceProfile& profile) : profile_(profile) {}
  Seconds of(const TermGraph& terms, TermId id);

 private:
  const DeviceProfile& profile_;
  std::unordered_map<std::string, Seconds> known_;
};

struct RewriteOptions {
  bool exact = false;                     // only rules that keep all bits
  std::vector<std::string> without = {};  // names of rules that are not used
  std::string only = {};  // if not empty: the one rule that is used, besides what simplifies views
};

class Rewriter {
 public:
  // `stop` is asked between places. Keeps references to all but the options.
  Rewriter(const Graph& graph, const DeviceProfile& profile, const RewriteOptions& options,
           std::function<bool()> stop);

  // Applies what saves time, most first, until nothing does. If memory is kept, only what does not
  // raise the peak in program order and merges nothing. Whether anything changed.
  bool save_time(bool keep_memory);
  Seconds saved() const { return saved_; }
  bool can_split() const;
  // Applies all rules that split, whatever time it takes, and what saves time then. Whether
  // anything was split.
  bool split_up();
  // What the graph becomes by one rule at all equal places, for those rules and places that save
  // most time, at most `most`.
  std::vector<Rewritten> single_steps(std::size_t most);
  // Places where a rule applies now.
  int count_matches(std::string_view rule) const;
  int count_applied(std::string_view rule) const;
  // What has come of the graph; its meta says how often each rule was applied.
  Graph graph() const;

 private:
  struct Class {  // equal places
    uint64_t key;
    std::vector<RuleMatch> matches;
    Seconds gain = 0;  // of one of them
  };

  void simplify();
  std::vector<Class> classes() const;
  // Those that save time, most first.
  std::vector<Class> classes_by_gain(bool keep_memory);
  std::vector<std::pair<std::string, std::string>> meta() const;
  uint64_t key_of(const RuleMatch& match) const;
  Seconds gain_of(const Class& equal);
  Seconds saved_in_trial();
  int apply_all(const Class& equal);
  bool accept(const Class& equal, bool keep_memory);
  void keep(const Class& equal, int applied);
  Bytes program_order_peak() const;

  const DeviceProfile& profile_;
  const std::function<bool()> stop_;
  TermGraph terms_;
  TermCosts costs_;
  MatchIndex index_;
  const std::string only_;
  std::unordered_set<uint64_t> rejected_;  // classes that did not pay
  std::unordered_map<const RewriteRule*, int> applied_;
  Bytes peak_ = 0;  // in program order, where it is to be kept
  Seconds saved_ = 0;
};

}  // namespace magis
