// Tokens of the text language, with their places in the file. Graphs and programs are read with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace magis {

enum class TokenKind : uint8_t {
  end,          // of the file
  newline,      // ends a statement; blank lines and comments give none of their own
  word,         // identifiers joined by dots: aten.add.Tensor, f32, none
  value,        // %name or %name.2
  copy,         // .2
  integer,      // -3
  real,         // 1e-05, inf, -inf, nan
  string,       // "..."
  site,         // @7
  punctuation,  // one of ( ) [ ] { } , : = + /
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;     // as in the file; of a value: its name, without % and copy
  std::size_t position = 0;  // byte offset of its first character in the file
  int64_t integer = 0;       // integer; number of a copy (value: 0 if there is none) or site
  double real = 0;
};

// Looks one token ahead. Both texts must outlive it. Copyable: a copy reads on from the same place.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file_name);

  const Token& peek() const { return next_; }
  Token take();

  bool at(TokenKind kind) const { return next_.kind == kind; }
  bool at_punctuation(char c) const {
    return next_.kind == TokenKind::punctuation && next_.text[0] == c;
  }
  bool at_word(std::string_view word) const {
    return next_.kind == TokenKind::word && next_.text == word;
  }
  bool at_end_of_line() const {
    return next_.kind == TokenKind::newline || next_.kind == TokenKind::end;
  }
  // Takes the next token if it is that; says whether it was.
  bool take_punctuation(char c);
  bool take_word(std::string_view word);
  // Takes the next token, or fails with "expected <what>, found <token>".
  Token expect(TokenKind kind, std::string_view what);
  void expect_punctuation(char c, std::string_view where);
  // The end of a statement: a newline or the end of the file.
  void expect_end_of_line();

  // The characters that a string token stands for.
  std::string unquote(const Token& token) const;

  // Throws UserError: "file:line:column: message", the line, and a caret under `position`.
  [[noreturn]] void fail(std::size_t position, std::string_view message) const;
  [[noreturn]] void fail(const Token& token, std::string_view message) const {
    fail(token.position, message);
  }
  // Fails at the next token with "expected <what>, found <token>".
  [[noreturn]] void fail_expected(std::string_view what) const;

  std::string_view text() const { return text_; }

 private:
  Token lex();
  Token lex_value();
  Token lex_word();
  Token lex_number();
  Token lex_string();
  Token lex_counted(TokenKind kind, std::string_view what);
  int64_t lex_integer(std::string_view what);
  void skip_blanks();
  char at_offset(std::size_t ahead = 0) const {
    return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0';
  }
  Token token_from(TokenKind kind, std::size_t begin) const {
    return {.kind = kind, .text = text_.substr(begin, place_ - begin), .position = begin};
  }

  std::string_view text_;
  std::string_view file_name_;
  std::size_t place_ = 0;  // behind next_
  bool line_has_tokens_ = false;
  Token next_;
};

// "end of line", "end of file", "`aten.mm`".
std::string describe(const Token& token);
// In double quotes, with JSON's escapes.
std::string quote(std::string_view text);

}  // namespace magis
