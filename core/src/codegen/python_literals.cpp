#include "codegen/python_literals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace magis {
namespace {

constexpr auto kKeywords = std::to_array<std::string_view>(
    {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
     "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
     "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
     "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});

constexpr auto kBuiltins = std::to_array<std::string_view>(
    {"abs",     "aiter",      "all",       "anext",   "any",          "ascii",      "bin",
     "bool",    "breakpoint", "bytearray", "bytes",   "callable",     "chr",        "classmethod",
     "compile", "complex",    "copyright", "credits", "delattr",      "dict",       "dir",
     "divmod",  "enumerate",  "eval",      "exec",    "exit",         "filter",     "float",
     "format",  "frozenset",  "getattr",   "globals", "hasattr",      "hash",       "help",
     "hex",     "id",         "input",     "int",     "isinstance",   "issubclass", "iter",
     "len",     "license",    "list",      "locals",  "map",          "max",        "memoryview",
     "min",     "next",       "object",    "oct",     "open",         "ord",        "pow",
     "print",   "property",   "quit",      "range",   "repr",         "reversed",   "round",
     "set",     "setattr",    "slice",     "sorted",  "staticmethod", "str",        "sum",
     "super",   "tuple",      "type",      "vars",    "zip"});

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string python_string(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view hex = "0123456789abcdef";
      quoted += "\\x";
      quoted += hex[byte >> 4];
      quoted += hex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

bool is_python_keyword(std::string_view name) {
  return std::ranges::find(kKeywords, name) != kKeywords.end();
}

bool is_python_word(std::string_view name) {
  return is_python_keyword(name) || std::ranges::find(kBuiltins, name) != kBuiltins.end();
}

std::string comma_separated(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

}  // namespace magis
