#include "support/rule_cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace magis::test {
namespace {

constexpr std::string_view kRule = "rule ";
constexpr std::string_view kGives = "gives";
constexpr std::string_view kNot = "not because ";
constexpr std::string_view kIndent = "  ";

bool is_statement(std::string_view line) { return line.starts_with('%'); }
bool is_output(std::string_view line) { return line.starts_with("output "); }

// What a line defines: "%a", "output a". Outputs are told apart by their paths.
std::string defined_name(const std::string& line) {
  std::istringstream words(line);
  std::string first, second, third;
  words >> first >> second >> third;
  if (is_output(line)) return first + " " + third;
  return is_statement(line) ? first : second;
}

RuleCaseFile read_file(const std::filesystem::path& path) {
  RuleCaseFile file{.path = path.string(), .cases = {}};
  std::ifstream in(path);
  std::vector<std::string>* lines = nullptr;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string place = path.filename().string() + ":" + std::to_string(number);
    if (line.empty()) continue;
    if (line.starts_with(kRule)) {
      file.cases.push_back({.rule = line.substr(kRule.size()), .place = place});
      lines = &file.cases.back().before;
    } else if (file.cases.empty()) {
      throw std::runtime_error(place + ": no rule is named yet");
    } else if (line == kGives) {
      lines = &file.cases.back().after;
    } else if (line.starts_with(kNot)) {
      file.cases.back().refusals.push_back({line.substr(kNot.size()), {}});
      lines = &file.cases.back().refusals.back().changes;
    } else if (line.starts_with(kIndent)) {
      lines->push_back(line.substr(kIndent.size()));
    } else {
      throw std::runtime_error(place + ": a line of a graph is indented");
    }
  }
  return file;
}

}  // namespace

std::vector<RuleCaseFile> read_rule_cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MAGIS_TEST_DATA "/rules")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<RuleCaseFile> files;
  for (const auto& path : paths) files.push_back(read_file(path));
  return files;
}

void write(const RuleCaseFile& file) {
  std::ostringstream text;
  const auto put = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) text << kIndent << line << '\n';
  };
  for (const RuleCase& of : file.cases) {
    text << (&of == &file.cases.front() ? "" : "\n") << kRule << of.rule << '\n';
    put(of.before);
    text << kGives << '\n';
    put(of.after);
    for (const RuleCase::Refusal& refusal : of.refusals) {
      text << kNot << refusal.reason << '\n';
      put(refusal.changes);
    }
  }
  std::ofstream(file.path) << text.str();
}

std::string graph_text(const std::vector<std::string>& lines) {
  std::string text = "magis 1\ndevice cpu\n";
  const auto rank = [](const std::string& line) {
    return is_output(line) ? 2 : is_statement(line) ? 1 : 0;
  };
  for (const int wanted : {0, 1, 2}) {
    for (const std::string& line : lines) {
      if (rank(line) == wanted) text += line + "\n";
    }
  }
  return text;
}

std::vector<std::string> made_lines(const std::string& graph,
                                    const std::vector<std::string>& before) {
  std::vector<std::string> found;
  std::istringstream in(graph);
  for (std::string line; std::getline(in, line);) {
    const bool other = is_output(line) && std::ranges::find(before, line) == before.end();
    if (is_statement(line) || other) found.push_back(line);
  }
  return found;
}

std::vector<std::string> changed(const std::vector<std::string>& before,
                                 const RuleCase::Refusal& refusal) {
  std::vector<std::string> lines = before;
  std::vector<std::string> waiting;
  for (const std::string& change : refusal.changes) {
    const auto found = std::ranges::find(lines, defined_name(change), defined_name);
    if (found == lines.end()) {
      waiting.push_back(change);
      continue;
    }
    *found = change;
    if (!is_statement(change)) continue;
    lines.insert(found, waiting.begin(), waiting.end());
    waiting.clear();
  }
  lines.insert(lines.end(), waiting.begin(), waiting.end());
  return lines;
}

}  // namespace magis::test
