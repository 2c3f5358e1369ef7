#include "graph/lexer.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "magis/base/error.h"

namespace magis {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_letter(c) || is_digit(c); }
// Bytes that continue a character in UTF-8 take no column of their own.
bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

void append_utf8(std::string& text, uint32_t code) {
  const auto append = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    append(code);
  } else if (code < 0x800) {
    append(0xC0 | (code >> 6));
    append(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    append(0xE0 | (code >> 12));
    append(0x80 | ((code >> 6) & 0x3F));
    append(0x80 | (code & 0x3F));
  } else {
    append(0xF0 | (code >> 18));
    append(0x80 | ((code >> 12) & 0x3F));
    append(0x80 | ((code >> 6) & 0x3F));
    append(0x80 | (code & 0x3F));
  }
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view file_name)
    : text_(text), file_name_(file_name) {
  next_ = lex();
}

Token Lexer::take() {
  const Token token = next_;
  next_ = lex();
  return token;
}

bool Lexer::take_punctuation(char c) {
  if (!at_punctuation(c)) return false;
  take();
  return true;
}

bool Lexer::take_word(std::string_view word) {
  if (!at_word(word)) return false;
  take();
  return true;
}

Token Lexer::expect(TokenKind kind, std::string_view what) {
  if (next_.kind != kind) fail_expected(what);
  return take();
}

void Lexer::expect_punctuation(char c, std::string_view where) {
  if (!take_punctuation(c)) fail_expected("`" + std::string(1, c) + "` " + std::string(where));
}

void Lexer::expect_end_of_line() {
  if (!at_end_of_line()) fail_expected("the end of the line");
  if (at(TokenKind::newline)) take();
}

void Lexer::fail_expected(std::string_view what) const {
  fail(next_, "expected " + std::string(what) + ", found " + describe(next_));
}

void Lexer::skip_blanks() {
  while (place_ < text_.size()) {
    const char c = text_[place_];
    if (c == '#') {
      place_ = std::min(text_.find('\n', place_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && !line_has_tokens_)) {
      ++place_;
    } else {
      return;
    }
  }
}

Token Lexer::lex() {
  skip_blanks();
  const std::size_t begin = place_;
  if (begin == text_.size()) return token_from(TokenKind::end, begin);
  const char c = text_[begin];
  if (c == '\n') {
    ++place_;
    line_has_tokens_ = false;
    return token_from(TokenKind::newline, begin);
  }
  line_has_tokens_ = true;
  if (c == '%') return lex_value();
  if (is_letter(c)) return lex_word();
  if (is_digit(c) || c == '-') return lex_number();
  if (c == '"') return lex_string();
  if (c == '@') return lex_counted(TokenKind::site, "`@` needs the number of a site");
  if (c == '.') return lex_counted(TokenKind::copy, "`.` needs the number of a copy");
  if (std::string_view("()[]{},:=+/*").find(c) == std::string_view::npos) {
    place_ = begin + 1;
    while (place_ < text_.size() && !starts_character(text_[place_])) ++place_;
    const bool printable = static_cast<unsigned char>(c) >= ' ';
    fail(begin, printable ? "`" + std::string(text_.substr(begin, place_ - begin)) +
                                "` has no meaning here"
                          : "a control character: this is not a text file");
  }
  ++place_;
  return token_from(TokenKind::punctuation, begin);
}

Token Lexer::lex_value() {
  const std::size_t begin = place_++;
  if (!is_letter(at_offset())) fail(begin, "a name is `%` and a letter or underscore, then more");
  while (is_name(at_offset())) ++place_;
  Token token = token_from(TokenKind::value, begin);
  token.text.remove_prefix(1);
  if (at_offset() == '.' && is_digit(at_offset(1))) {
    ++place_;
    token.integer = lex_integer("the number of a copy is too large");
    if (token.integer == 0) fail(begin, "copies are numbered from 1");
  }
  return token;
}

Token Lexer::lex_word() {
  const std::size_t begin = place_;
  while (is_name(at_offset()) || (at_offset() == '.' && is_letter(at_offset(1)))) ++place_;
  Token token = token_from(TokenKind::word, begin);
  if (token.text == "inf" || token.text == "nan") {
    token.kind = TokenKind::real;
    token.real = token.text == "inf" ? std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::quiet_NaN();
  }
  return token;
}

Token Lexer::lex_number() {
  const std::size_t begin = place_;
  bool is_real = false;
  if (at_offset() == '-') ++place_;
  if (text_.substr(place_).starts_with("inf") && !is_name(at_offset(3))) {
    place_ += 3;
    Token token = token_from(TokenKind::real, begin);
    token.real = -std::numeric_limits<double>::infinity();
    return token;
  }
  while (is_digit(at_offset())) ++place_;
  if (at_offset() == '.') {
    is_real = true;
    ++place_;
    while (is_digit(at_offset())) ++place_;
  }
  if (at_offset() == 'e' || at_offset() == 'E') {
    is_real = true;
    ++place_;
    if (at_offset() == '-' || at_offset() == '+') ++place_;
    while (is_digit(at_offset())) ++place_;
  }
  Token token = token_from(is_real ? TokenKind::real : TokenKind::integer, begin);
  const char* first = token.text.data();
  const char* last = first + token.text.size();
  const auto read = is_real ? std::from_chars(first, last, token.real)
                            : std::from_chars(first, last, token.integer);
  if (read.ec == std::errc::result_out_of_range) {
    fail(begin, "the number " + std::string(token.text) + " is too large");
  }
  if (read.ec != std::errc() || read.ptr != last || is_name(at_offset())) {
    fail(begin, "`" + std::string(token.text) + "` is not a number");
  }
  return token;
}

Token Lexer::lex_string() {
  const std::size_t begin = place_++;
  while (at_offset() != '"') {
    if (place_ >= text_.size() || at_offset() == '\n') fail(begin, "the string has no end");
    place_ += at_offset() == '\\' ? 2 : 1;
  }
  ++place_;
  return token_from(TokenKind::string, begin);
}

Token Lexer::lex_counted(TokenKind kind, std::string_view what) {
  const std::size_t begin = place_++;
  if (!is_digit(at_offset())) fail(begin, what);
  const int64_t number = lex_integer(what);
  if (kind == TokenKind::copy && number == 0) fail(begin, "copies are numbered from 1");
  Token token = token_from(kind, begin);
  token.integer = number;
  return token;
}

// A number without sign that fits an int.
int64_t Lexer::lex_integer(std::string_view what) {
  const std::size_t begin = place_;
  while (is_digit(at_offset())) ++place_;
  int32_t number = 0;
  if (std::from_chars(text_.data() + begin, text_.data() + place_, number).ec != std::errc()) {
    fail(begin, what);
  }
  return number;
}

std::string Lexer::unquote(const Token& token) const {
  const std::string_view inner = token.text.substr(1, token.text.size() - 2);
  std::string text;
  text.reserve(inner.size());
  const auto hexadecimal = [&](std::size_t at) {
    uint32_t code = 0;
    const std::string_view digits = inner.substr(std::min(at, inner.size()), 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || read.ptr != digits.data() + 4) {
      fail(token.position + at - 1, "`\\u` needs four hexadecimal digits");
    }
    return code;
  };
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '\\') {
      text += inner[i];
      continue;
    }
    const char escape = inner[++i];
    static constexpr std::string_view kEscapes = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t known = kEscapes.find(escape); known != std::string_view::npos) {
      text += kMeanings[known];
    } else if (escape == 'u') {
      uint32_t code = hexadecimal(i + 1);
      i += 4;
      if (code >= 0xD800 && code < 0xDC00 && inner.substr(i + 1, 2) == "\\u") {
        code = 0x10000 + ((code - 0xD800) << 10) + (hexadecimal(i + 3) - 0xDC00);
        i += 6;
      }
      append_utf8(text, code);
    } else {
      fail(token.position + i, "unknown escape `\\" + std::string(1, escape) + "`");
    }
  }
  return text;
}

void Lexer::fail(std::size_t position, std::string_view message) const {
  position = std::min(position, text_.size());
  const std::string_view before = text_.substr(0, position);
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  std::string_view line = text_.substr(line_begin);
  line = line.substr(0, std::min(line.find('\n'), line.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto characters = [](std::string_view part) {
    return std::count_if(part.begin(), part.end(), starts_character);
  };
  const auto line_number = std::count(before.begin(), before.end(), '\n') + 1;
  const auto column = characters(before.substr(line_begin)) + 1;

  // A constant's data can make a line of megabytes: show what is around the place.
  constexpr std::size_t kShown = 100;
  std::size_t shown_begin = position - line_begin > kShown ? position - line_begin - kShown : 0;
  while (shown_begin > 0 && !starts_character(line[shown_begin])) --shown_begin;
  std::size_t shown_end = std::min(line.size(), position - line_begin + kShown);
  while (shown_end < line.size() && !starts_character(line[shown_end])) ++shown_end;
  const std::string_view shown = line.substr(shown_begin, shown_end - shown_begin);
  const std::string_view lead = shown_begin == 0 ? "" : "...";

  std::string text(file_name_);
  text += ":" + std::to_string(line_number) + ":" + std::to_string(column) + ": ";
  text += message;
  text += "\n";
  text += lead;
  text += shown;
  text += shown_end < line.size() ? "...\n" : "\n";
  text.append(lead.size(), ' ');
  for (char c : shown.substr(0, position - line_begin - shown_begin)) {
    if (starts_character(c)) text += c == '\t' ? '\t' : ' ';
  }
  throw UserError(text + "^");
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the file";
    case TokenKind::newline:
      return "the end of the line";
    case TokenKind::value:
      return "`%" + std::string(token.text) +
             (token.integer == 0 ? "`" : "." + std::to_string(token.integer) + "`");
    case TokenKind::string:
      return "a string";
    default:
      return "`" + std::string(token.text) + "`";
  }
}

std::string quote(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += "\\u00";
      quoted += kDigits[static_cast<unsigned char>(c) >> 4];
      quoted += kDigits[static_cast<unsigned char>(c) & 0xF];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace magis
