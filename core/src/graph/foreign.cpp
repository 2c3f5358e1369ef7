// What people hand in by mistake, and what they meant.
#include <array>
#include <utility>

#include "graph/parser.h"

namespace magis {
namespace {

// The text from its first character that is not blank and not in a comment.
std::string_view skip_comments(std::string_view text) {
  while (true) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    text.remove_prefix(begin);
    if (text[0] != '#') return text;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end);
  }
}

std::string_view looks_like(std::string_view text) {
  using namespace std::string_view_literals;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kBeginnings = {{
      {"PK\x03\x04"sv, "a zip archive, as torch.save writes it"},
      {"\x80\x02"sv, "a Python pickle"},
      {"\x80\x04"sv, "a Python pickle"},
      {"\x7f"sv
       "ELF",
       "a compiled program"},
      {"\x93NUMPY"sv, "a NumPy array"},
      {"\x1f\x8b"sv, "compressed with gzip"},
      {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
      {"{"sv, "JSON"},
      {"import "sv, "Python source"},
      {"from "sv, "Python source"},
      {"def "sv, "Python source"},
      {"\"\"\""sv, "Python source"},
  }};
  for (const auto& [beginning, kind] : kBeginnings) {
    if (text.starts_with(beginning)) return kind;
  }
  if (text.substr(0, 512).find('\0') != std::string_view::npos) return "a binary file";
  return "";
}

bool is_whole_word(std::string_view text, std::size_t length) {
  return text.size() <= length ||
         std::string_view(" \t\r\n#").find(text[length]) != std::string_view::npos;
}

}  // namespace

std::string foreign_text_message(std::string_view text) {
  constexpr std::string_view kHowTo =
      "a graph file begins with `magis 1`; `magis capture` makes one from a model";
  const std::string_view start = skip_comments(text);
  if (start.starts_with("magis 1") && is_whole_word(start, 7)) return "";
  std::string message;
  if (start.starts_with("magis ")) {
    const std::size_t end = std::min(start.find_first_of("\r\n#"), start.size());
    message = "`" + std::string(start.substr(0, end)) +
              "`: this build reads version 1 of the text language (`magis 1`)";
    return message;
  }
  if (start.empty()) {
    message = "the file is empty";
  } else if (const std::string_view kind = looks_like(start); kind == "JSON") {
    return "this is JSON: if it is a plan, give it to `magis inspect` or `magis run`; " +
           std::string(kHowTo);
  } else if (!kind.empty()) {
    message = "this is not a graph but " + std::string(kind);
  } else {
    message = "this is not a graph in the text language";
  }
  return message + "; " + std::string(kHowTo);
}

std::string_view canonical_spelling(std::string_view operator_name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kAliases = {{
      {"aten.t", "aten.permute"},
      {"aten.transpose.int", "aten.permute"},
      {"aten.movedim.int", "aten.permute"},
      {"aten._unsafe_view", "aten.view"},
      {"aten._reshape_alias", "aten.view"},
      {"aten.reshape", "aten.view, or aten.clone and aten.view"},
      {"aten.detach", "its operand"},
      {"aten.alias", "its operand"},
      {"aten.lift_fresh", "its operand"},
      {"aten.squeeze", "aten.squeeze.dims"},
      {"aten.split.Tensor", "one aten.slice.Tensor per result"},
      {"aten.split_with_sizes", "one aten.slice.Tensor per result"},
      {"aten.unsafe_split.Tensor", "one aten.slice.Tensor per result"},
      {"aten.chunk", "one aten.slice.Tensor per result"},
      {"aten.narrow", "aten.slice.Tensor"},
      {"aten.unbind.int", "one aten.select.int per result"},
      {"aten.real", "aten.view_as_real and aten.select.int"},
      {"aten.imag", "aten.view_as_real and aten.select.int"},
      {"aten._conj", "aten._conj_physical"},
      {"aten._neg_view", "aten.neg"},
      {"aten.expand_as", "aten.expand"},
  }};
  for (const auto& [alias, spelling] : kAliases) {
    if (alias == operator_name) return spelling;
  }
  return "";
}

}  // namespace magis
