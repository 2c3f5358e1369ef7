// Small graphs by which rewrite rules are held to account: tests/data/rules, a file a family.
//
//   rule NAME                 a graph without its header: where the rule applies,
//     ...
//   gives                     its statements after that, and outputs that are called otherwise,
//     ...
//   not because REASON        and what it does not apply to: the same graph with other lines in
//     ...                     place of those that define the same name. Lines of new names stand
//                             before the one that follows them here, or else at the end.
#pragma once

#include <string>
#include <vector>

namespace magis::test {

struct RuleCase {
  struct Refusal {
    std::string reason;
    std::vector<std::string> changes;  // lines
  };
  std::string rule;
  std::string place;  // file:line
  std::vector<std::string> before = {};
  std::vector<std::string> after = {};
  std::vector<Refusal> refusals = {};
};

struct RuleCaseFile {
  std::string path;
  std::vector<RuleCase> cases;
};

// All files, by name.
std::vector<RuleCaseFile> read_rule_cases();
void write(const RuleCaseFile& file);

// As a graph file.
std::string graph_text(const std::vector<std::string>& lines);
// The statements of a graph file, and its outputs but for those in `before`.
std::vector<std::string> made_lines(const std::string& graph,
                                    const std::vector<std::string>& before);
std::vector<std::string> changed(const std::vector<std::string>& before,
                                 const RuleCase::Refusal& refusal);

}  // namespace magis::test
