// Rewrite rules (paper section 5: A-Trans and I-Trans, after TASO): identities under which a graph
// computes the same with other operators. core/src/transform/rules/README.md says how they are
// written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

struct RuleInfo {
  std::string name;
  std::string description;  // a line
  bool exact = false;       // the same bits
  bool wide = false;        // loses too much in 16 bits: float32 and wider alone
};

// The rules that come with magis, in the order in which they are tried.
std::vector<RuleInfo> rewrite_rules();

// Throws UserError with file:line:column and a caret if `text` is not a file of rules.
std::vector<RuleInfo> check_rules(std::string_view text, std::string_view file_name);

// The left side of a rule as a graph of random shapes, and what the rule makes of it: what its
// proof compares. Nothing if the rule is not written in the rule language, or if these shapes do
// not go.
std::optional<std::pair<Graph, Graph>> rule_example(std::string_view rule, uint64_t seed);

// The meta of a rewritten graph: "add_to_product 24, scale_in_products 12".
inline constexpr std::string_view kRewritesMeta = "rewrites";
std::string rewrites_text(const std::vector<std::pair<std::string, int>>& applied);
std::vector<std::pair<std::string, int>> rewrites_of(const Graph& graph);
// The graph may round otherwise than the one that it was made of: it adds up parts, or a rewrite
// changed more than what is computed when.
bool rounds_otherwise(const Graph& graph);

// How often each rule matches in `graph`, those that do not left out. Requires a graph without
// loops.
std::vector<std::pair<std::string, int>> count_matches(const Graph& graph);

// A rewritten graph, and what its operators have to do with those of the graph before.
struct Rewritten {
  Graph graph;
  std::vector<std::string> rules = {};  // that were applied, one after another
  // By operator: itself in the graph before or, where it is new, the one in whose place it stands.
  IdMap<OpId, OpId> stands_for = {};
  std::vector<OpId> changed = {};  // new operators, and those that read other tensors than before
};

// The graph after `count` matches, one after another, taken at random from those there are; fewer
// if there are none left. Of the rules named in `only`, unless it is empty.
Rewritten rewrite_at_random(const Graph& graph, int count, uint64_t seed,
                            std::span<const std::string> only = {});

}  // namespace magis
