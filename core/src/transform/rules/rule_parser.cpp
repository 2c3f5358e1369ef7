// Reads and checks rules. The language is explained in README.md beside this file.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "transform/rules/expression_parser.h"
#include "transform/rules/words.h"

namespace magis {
namespace {

const std::map<std::string_view, Condition::Kind> kNodeConditions = {
    {"once", Condition::Kind::once},
    {"weight", Condition::Kind::weight},
    {"different", Condition::Kind::different},
    {"complete", Condition::Kind::complete},
};

class RuleParser : private ExpressionParser {
 public:
  RuleParser(std::string_view text, std::string_view file_name)
      : ExpressionParser(text, file_name) {}

  std::vector<Rule> parse() {
    std::vector<Rule> rules;
    while (!lexer_.at(TokenKind::end)) {
      const Token start = lexer_.peek();
      if (!lexer_.take_word("rule")) lexer_.fail_expected("`rule`");
      parse_rule();
      if (std::ranges::find(rules, rule_.name, &Rule::name) != rules.end()) {
        lexer_.fail(start, "there is a rule " + rule_.name + " already");
      }
      rules.push_back(std::move(rule_));
    }
    return rules;
  }

 private:
  // ---- lines

  void parse_rule() {
    rule_ = {};
    left_ = true;
    const Token name = lexer_.expect(TokenKind::word, "the rule's name");
    rule_.name = name.text;
    rule_.description = lexer_.unquote(lexer_.expect(TokenKind::string, "what the rule says"));
    while (!lexer_.at_end_of_line()) parse_flag();
    lexer_.expect_end_of_line();
    while (lexer_.take_word("let")) parse_let();
    while (lexer_.take_word("from")) parse_from();
    rule_.left_count = rule_.nodes.size();
    left_ = false;
    while (lexer_.take_word("to")) parse_to();
    while (lexer_.take_word("if")) parse_conditions();
    if (!lexer_.at(TokenKind::end) && !lexer_.at_word("rule")) {
      lexer_.fail_expected("`let`, `from`, `to` and `if`, in this order, or the next `rule`");
    }
    check_whole(name);
  }

  void parse_flag() {
    if (lexer_.take_word("exact")) {
      rule_.exact = true;
    } else if (lexer_.take_word("wide")) {
      rule_.wide = true;
    } else {
      lexer_.fail_expected("`exact`, `wide`, or the end of the line");
    }
  }

  // let a, b : [m, n]    let c : number    let s : attribute    let *xs : [m, k]
  void parse_let() {
    std::vector<std::pair<Token, bool>> names;  // is a sequence
    do {
      const bool sequence = lexer_.take_punctuation('*');
      names.emplace_back(take_new_name(), sequence);
    } while (lexer_.take_punctuation(','));
    lexer_.expect_punctuation(':', "before what it is");
    if (lexer_.take_word("number")) {
      for (const auto& [name, sequence] : names) rule_.numbers.emplace_back(name.text);
    } else if (lexer_.take_word("attribute")) {
      for (const auto& [name, sequence] : names) rule_.attributes.emplace_back(name.text);
    } else {
      const SymbolicShape shape = parse_shape(true);
      for (const auto& [name, sequence] : names) {
        if (sequence) {
          rule_.sequences.push_back({.name = std::string(name.text), .shape = shape});
        } else {
          rule_.nodes.push_back({.name = std::string(name.text), .shape = shape});
        }
      }
    }
    lexer_.expect_end_of_line();
  }

  Token take_new_name() {
    const Token name = lexer_.expect(TokenKind::word, "a name");
    const std::string text(name.text);
    if (find_node(text) || index_of(rule_.numbers, text) || index_of(rule_.attributes, text) ||
        std::ranges::find(rule_.sequences, text, &Sequence::name) != rule_.sequences.end()) {
      lexer_.fail(name, "there is a " + text + " already");
    }
    return name;
  }

  // from p = mm(x, w)
  void parse_from() {
    const Token name = take_new_name();
    lexer_.expect_punctuation('=', "after the name");
    const int node = parse_tensor();
    PatternNode& made = rule_.nodes[static_cast<std::size_t>(node)];
    if (made.word == nullptr || !made.name.empty()) lexer_.fail(name, "this has a name already");
    made.name = name.text;
    lexer_.expect_end_of_line();
  }

  // to p = addmm(c, x, w), where the left side has p; or a name for what follows
  void parse_to() {
    const Token name = lexer_.expect(TokenKind::word, "a name");
    lexer_.expect_punctuation('=', "after the name");
    const Token start = lexer_.peek();
    const int node = parse_tensor();
    const std::optional<int> replaced = find_node(std::string(name.text));
    PatternNode& made = rule_.nodes[static_cast<std::size_t>(node)];
    if (replaced && static_cast<std::size_t>(*replaced) < rule_.left_count) {
      const PatternNode& old = rule_.nodes[static_cast<std::size_t>(*replaced)];
      if (old.word == nullptr) lexer_.fail(name, old.name + " is a variable: it stays as it is");
      if (!(simplified(old.shape) == simplified(made.shape))) {
        lexer_.fail(start, "this has the shape " + to_text(made.shape, rule_.symbols) + ", but " +
                               old.name + " has " + to_text(old.shape, rule_.symbols));
      }
      rule_.roots.push_back({*replaced, node});
    } else {
      if (replaced) lexer_.fail(name, "there is a " + made.name + " already");
      if (!made.name.empty()) lexer_.fail(name, "this has a name already");
      made.name = name.text;
    }
    lexer_.expect_end_of_line();
  }

  // if once(p), weight(w), equal(m, n)
  void parse_conditions() {
    do {
      const Token word = lexer_.expect(TokenKind::word, "a condition");
      lexer_.expect_punctuation('(', "after the condition");
      Condition condition{};
      const auto of_nodes = kNodeConditions.find(word.text);
      if (of_nodes != kNodeConditions.end()) {
        condition.kind = of_nodes->second;
        do {
          condition.nodes.push_back(take_known_node());
        } while (lexer_.take_punctuation(','));
      } else if (word.text == "equal" || word.text == "less") {
        condition.kind = word.text == "equal" ? Condition::Kind::equal : Condition::Kind::less;
        condition.lengths.push_back(parse_length());
        lexer_.expect_punctuation(',', "between the lengths");
        condition.lengths.push_back(parse_length());
      } else {
        lexer_.fail(word, "conditions are once, weight, different, complete, equal and less");
      }
      lexer_.expect_punctuation(')', "after the condition");
      rule_.conditions.push_back(std::move(condition));
    } while (lexer_.take_punctuation(','));
    lexer_.expect_end_of_line();
  }

  void check_whole(const Token& name) {
    if (rule_.roots.empty())
      lexer_.fail(name, "the rule replaces nothing: `to` names what `from` made");
    for (std::size_t i = 0; i < rule_.nodes.size(); ++i) {
      if (rule_.nodes[i].word == nullptr && !is_read(static_cast<int>(i))) {
        lexer_.fail(name, rule_.nodes[i].name + " does not occur on the left side");
      }
    }
  }

  bool is_read(int node) const {
    for (std::size_t i = 0; i < rule_.left_count; ++i) {
      for (const PatternArg& arg : rule_.nodes[i].args) {
        if (arg.node == node) return true;
        for (const ListItem& item : arg.items) {
          if (item.node == node) return true;
        }
      }
    }
    return false;
  }

  // ---- tensors

  // A name, or word(arguments). Returns the node.
  int parse_tensor() {
    const Token token = lexer_.expect(TokenKind::word, "a tensor");
    if (!lexer_.at_punctuation('(')) return known_node(token);
    return parse_call(token);
  }

  int parse_call(const Token& token) {
    // The transposes that rules are full of.
    if (token.text == "t") return parse_permuted(token, {1, 0});
    if (token.text == "bt") return parse_permuted(token, {0, 2, 1});
    const Word* word = find_word(token.text);
    if (word == nullptr) {
      lexer_.fail(token, "unknown word " + std::string(token.text) + " (did you mean " +
                             std::string(closest_word(token.text)) + "?)");
    }
    PatternNode node{.word = word};
    lexer_.expect_punctuation('(', "after the word");
    for (std::size_t a = 0; a < word->args.size(); ++a) {
      if (a > 0) lexer_.expect_punctuation(',', "before the next argument");
      node.args.push_back(parse_argument(word->args[a]));
    }
    while (lexer_.take_punctuation(',')) parse_keyword(node);
    lexer_.expect_punctuation(')', "after the arguments");
    return add_node(std::move(node), token);
  }

  int parse_permuted(const Token& token, std::vector<int64_t> dims) {
    lexer_.expect_punctuation('(', "after the word");
    PatternNode node{.word = find_word("permute")};
    node.args.push_back(parse_argument(ArgKind::tensor));
    node.args.push_back({.dims = std::move(dims)});
    lexer_.expect_punctuation(')', "after the argument");
    return add_node(std::move(node), token);
  }

  int add_node(PatternNode node, const Token& token) {
    try {
      node.shape = node.word->shape(rule_, node, left_);
    } catch (const ShapeError& error) {
      lexer_.fail(token, error.reason);
    }
    rule_.nodes.push_back(std::move(node));
    return static_cast<int>(rule_.nodes.size()) - 1;
  }

  PatternArg parse_argument(ArgKind kind) {
    PatternArg arg;
    switch (kind) {
      case ArgKind::tensor:
        arg.node = parse_tensor();
        break;
      case ArgKind::tensors:
        arg.items = parse_items();
        break;
      case ArgKind::number:
        arg.number = parse_number();
        break;
      case ArgKind::length:
        arg.length = parse_length();
        break;
      case ArgKind::dim:
        arg.dims = {lexer_.expect(TokenKind::integer, "a dimension").integer};
        break;
      case ArgKind::dims:
        arg.dims = parse_dims();
        break;
      case ArgKind::shape:
        arg.shape = parse_shape(left_);
        break;
      case ArgKind::flag:
        if (lexer_.take_word("true")) {
          arg.flag = true;
        } else if (!lexer_.take_word("false")) {
          lexer_.fail_expected("true or false");
        }
        break;
      case ArgKind::attribute:
        parse_attribute(arg);
        break;
    }
    return arg;
  }

  // A name, none, an integer, or a list of integers.
  void parse_attribute(PatternArg& arg) {
    if (lexer_.take_word("none")) return;
    if (lexer_.at(TokenKind::integer)) {
      arg.literal = {lexer_.take().integer};
    } else if (lexer_.at_punctuation('[')) {
      ArgList list;
      for (int64_t item : parse_dims()) list.push_back({item});
      arg.literal = {std::move(list)};
    } else {
      const Token name = lexer_.expect(TokenKind::word, "an attribute");
      const std::optional<int> known = index_of(rule_.attributes, std::string(name.text));
      if (!known) lexer_.fail(name, "there is no attribute " + std::string(name.text));
      arg.attribute = *known;
    }
  }

  void parse_keyword(PatternNode& node) {
    const Token name = lexer_.expect(TokenKind::word, "a keyword");
    if (!node.word->scales || (name.text != "beta" && name.text != "alpha")) {
      lexer_.fail(name, std::string(node.word->name) + " takes no more arguments");
    }
    lexer_.expect_punctuation('=', "after the keyword");
    (name.text == "beta" ? node.beta : node.alpha) = parse_number();
  }

  std::vector<ListItem> parse_items() {
    std::vector<ListItem> items;
    lexer_.expect_punctuation('[', "before the list");
    do {
      if (lexer_.take_punctuation('*')) {
        const Token name = lexer_.expect(TokenKind::word, "a name");
        const auto found = std::ranges::find(rule_.sequences, name.text, &Sequence::name);
        if (found == rule_.sequences.end()) {
          lexer_.fail(name, "there is no *" + std::string(name.text));
        }
        items.push_back({.sequence = static_cast<int>(found - rule_.sequences.begin())});
      } else {
        items.push_back({.node = parse_tensor()});
      }
    } while (lexer_.take_punctuation(','));
    lexer_.expect_punctuation(']', "after the list");
    return items;
  }

  // ---- names

  std::optional<int> find_node(const std::string& name) const {
    const auto found = std::ranges::find(rule_.nodes, name, &PatternNode::name);
    if (found == rule_.nodes.end()) return std::nullopt;
    return static_cast<int>(found - rule_.nodes.begin());
  }

  int known_node(const Token& token) const {
    const std::optional<int> known = find_node(std::string(token.text));
    if (!known) lexer_.fail(token, "there is no tensor " + std::string(token.text));
    return *known;
  }

  int take_known_node() { return known_node(lexer_.expect(TokenKind::word, "a tensor")); }

  SymbolicShape simplified(SymbolicShape shape) const {
    for (Polynomial& length : shape.before) length = rule_.simplified(length);
    for (Polynomial& length : shape.after) length = rule_.simplified(length);
    return shape;
  }
};

}  // namespace

std::vector<Rule> parse_rules(std::string_view text, std::string_view file_name) {
  return RuleParser(text, file_name).parse();
}

}  // namespace magis
