#include "graph/parse_call.h"

#include <algorithm>

#include "graph/parser.h"

namespace magis {
namespace {

constexpr int kMaxNesting = 32;

class ArgumentParser {
 public:
  ArgumentParser(Lexer& lexer, const GraphBuilder& builder) : lexer_(lexer), builder_(builder) {}

  void parse(Call& call) {
    lexer_.expect_punctuation('(', "and the arguments");
    if (lexer_.take_punctuation(')')) return;
    call.args.reserve(4);  // most have no more: spares the growth one by one
    do {
      if (lexer_.at(TokenKind::word) && parse_keyword(call)) continue;
      if (!call.kwargs.empty()) lexer_.fail_expected("`name=`, as after the argument before");
      parse_positional(call);
    } while (lexer_.take_punctuation(','));
    lexer_.expect_punctuation(')', "after the arguments");
  }

 private:
  void parse_positional(Call& call) {
    const Token token = lexer_.peek();
    const auto position = static_cast<int>(call.args.size());
    call.args.push_back(parse_argument(0));
    if (std::ranges::count(call.info->mutated, position) != 0) check_written(call, token);
  }

  // The argument just read is one that the operator writes to.
  void check_written(const Call& call, const Token& token) const {
    for_each_value(call.args.back(), [&](ValueId id) {
      const Value* value = &builder_.value(id);
      while (value->kind == ValueKind::view) value = &builder_.value(value->base);
      if (value->kind == ValueKind::input && value->type.defined) return;
      if (value->kind == ValueKind::result && builder_.is_loop_result(*value)) return;
      lexer_.fail(token, call.info->name + " writes to %" + value->name +
                             ", which is not a tensor that the step is given: write the operator "
                             "that returns its result instead");
    });
  }

  // A word may begin a keyword argument, or be an argument itself.
  bool parse_keyword(Call& call) {
    Lexer ahead = lexer_;
    const Token keyword = ahead.take();
    if (!ahead.take_punctuation('=')) return false;
    lexer_ = ahead;
    for (const auto& [name, arg] : call.kwargs) {
      if (name == keyword.text) lexer_.fail(keyword, "`" + name + "` is given twice");
    }
    call.kwargs.emplace_back(std::string(keyword.text), parse_argument(0));
    return true;
  }

  Arg parse_argument(int depth) {
    const Token token = lexer_.peek();
    switch (token.kind) {
      case TokenKind::value:
        return {parse_read(lexer_, builder_)};
      case TokenKind::integer:
        lexer_.take();
        if (lexer_.at_punctuation('*')) return {parse_part_length(token.integer)};
        return {token.integer};
      case TokenKind::real:
        lexer_.take();
        return {token.real};
      case TokenKind::string:
        lexer_.take();
        return {lexer_.unquote(token)};
      case TokenKind::word:
        return parse_word();
      default:
        if (!lexer_.at_punctuation('[')) lexer_.fail_expected("an argument");
        return {parse_list(depth + 1)};
    }
  }

  // What follows the coefficient: "*r1*r2".
  PartLength parse_part_length(int64_t coefficient) {
    std::vector<LoopId> loops;
    while (lexer_.take_punctuation('*')) {
      const Token name = lexer_.expect(TokenKind::word, "the name of a loop");
      loops.push_back(builder_.find_open_loop(name.text));
      if (!loops.back().valid()) lexer_.fail(name, "there is no loop " + describe(name) + " here");
    }
    return builder_.part_length(coefficient, std::move(loops));
  }

  ArgList parse_list(int depth) {
    const Token open = lexer_.take();
    if (depth > kMaxNesting) lexer_.fail(open, "lists are nested too deeply");
    ArgList items;
    if (lexer_.take_punctuation(']')) return items;
    do items.push_back(parse_argument(depth));
    while (lexer_.take_punctuation(','));
    lexer_.expect_punctuation(']', "after the list");
    return items;
  }

  Arg parse_word() {
    const Token word = lexer_.take();
    if (word.text == "none") return {None{}};
    if (word.text == "true" || word.text == "false") return {word.text == "true"};
    constexpr std::string_view kTorch = "torch.";
    if (word.text.starts_with(kTorch)) {
      return {Symbol{std::string(word.text.substr(kTorch.size()))}};
    }
    if (word.text != "device") lexer_.fail(word, "expected an argument, found " + describe(word));
    lexer_.expect_punctuation('(', "and a device in double quotes");
    const Token name = lexer_.expect(TokenKind::string, "a device in double quotes");
    lexer_.expect_punctuation(')', "after the device");
    return {Device{lexer_.unquote(name)}};
  }

  Lexer& lexer_;
  const GraphBuilder& builder_;
};

}  // namespace

const OpInfo& operator_named(const Lexer& lexer, const Token& token) {
  std::string_view name = token.text;
  if (name.ends_with(".default")) name.remove_suffix(std::string_view(".default").size());
  if (name.find('.') == std::string_view::npos) {
    lexer.fail(token, "`" + std::string(name) + "` is not an operator: write its namespace too, " +
                          "for instance aten." + std::string(name));
  }
  if (const std::string_view spelling = canonical_spelling(name); !spelling.empty()) {
    lexer.fail(token, std::string(name) + " is an alias of its operand, but no view of this " +
                          "language: write " + std::string(spelling));
  }
  return op_info(name);
}

void parse_arguments(Lexer& lexer, const GraphBuilder& builder, Call& call) {
  ArgumentParser(lexer, builder).parse(call);
}

ValueId parse_read(Lexer& lexer, const GraphBuilder& builder) {
  const Token token = lexer.take();
  if (token.integer != 0) {
    lexer.fail(token, describe(token) + " is a copy: only a program has copies");
  }
  const ValueId id = builder.find(token.text);
  if (!id.valid()) {
    lexer.fail(token,
               describe(token) + " is not defined" + suggest_value(builder.values(), token.text));
  }
  const Value& value = builder.value(id);
  if (!value.type.defined && value.kind == ValueKind::result) {
    lexer.fail(token, describe(token) + " has no value (its type is none): write `none`");
  }
  return id;
}

}  // namespace magis
