#include "graph/parser.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "graph/base64.h"
#include "graph/loops.h"
#include "graph/parse_call.h"
#include "magis/base/error.h"
#include "magis/graph/builder.h"
#include "magis/graph/text.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

class GraphParser {
 public:
  explicit GraphParser(Lexer lexer) : lexer_(lexer) {}

  ParsedGraph parse() {
    parse_header();
    while (const std::optional<InputKind> kind = input_kind()) parse_input(*kind);
    while (lexer_.at(TokenKind::value)) parse_statement();
    if (builder_.open_loop().valid()) {
      lexer_.fail_expected("the end of loop " + builder_.loop(builder_.open_loop()).name);
    }
    while (lexer_.at_word("output")) parse_output();
    check_at_end();
    const Lexer rest = lexer_;
    Graph graph = std::move(builder_).build();
    if (const auto problem = loop_violation(graph)) rest.fail(rest.peek(), *problem);
    return {std::move(graph), rest};
  }

 private:
  struct Name {
    std::string text;
    Token token;
  };

  // ---- header
  void parse_header() {
    lexer_.take();  // magis
    lexer_.take();  // 1
    lexer_.expect_end_of_line();
    if (!lexer_.take_word("device"))
      lexer_.fail_expected("`device <word>`, for instance `device cpu`");
    const Token device = lexer_.expect(TokenKind::word, "the device, for instance cpu");
    std::string name(device.text);
    if (lexer_.take_punctuation(':')) {
      name += ":" + std::string(lexer_.expect(TokenKind::integer, "the number of the device").text);
    }
    builder_.set_device(std::move(name));
    lexer_.expect_end_of_line();
    while (true) {
      if (lexer_.take_word("meta")) {
        parse_meta();
      } else if (lexer_.take_word("site")) {
        parse_site();
      } else {
        return;
      }
    }
  }

  void parse_meta() {
    const Token key = lexer_.expect(TokenKind::word, "the key");
    if (!meta_keys_.emplace(key.text).second) {
      lexer_.fail(key, "there is already a meta " + std::string(key.text));
    }
    std::string text = parse_string("the text in double quotes");
    builder_.add_meta(std::string(key.text), std::move(text));
    lexer_.expect_end_of_line();
  }

  void parse_site() {
    const Token number = lexer_.expect(TokenKind::site, "`@` and the number of the site");
    std::string module = parse_string("the module in double quotes");
    std::string source = parse_string("the file and line in double quotes");
    const auto [place, is_new] = sites_.try_emplace(number.integer);
    if (!is_new) lexer_.fail(number, "there is already a site " + std::string(number.text));
    place->second =
        builder_.add_site(static_cast<int>(number.integer), std::move(module), std::move(source));
    lexer_.expect_end_of_line();
  }

  // ---- inputs
  std::optional<InputKind> input_kind() const {
    if (!lexer_.at(TokenKind::word)) return std::nullopt;
    for (InputKind kind :
         {InputKind::param, InputKind::buffer, InputKind::batch, InputKind::constant,
          InputKind::state, InputKind::grad, InputKind::scalar}) {
      if (lexer_.peek().text == to_text(kind)) return kind;
    }
    return std::nullopt;
  }

  void parse_input(InputKind kind) {
    const Token word = lexer_.take();
    Name name = parse_new_name("the name of the input");
    const Token path_token = lexer_.peek();
    std::string path = parse_string("the path in double quotes");
    Type type{.defined = false};
    if (kind != InputKind::scalar) {
      lexer_.expect_punctuation(':', "and the type");
      const Token type_token = lexer_.peek();
      type = parse_type(lexer_).type;
      if (!type.defined) lexer_.fail(type_token, "an input has a type");
    } else if (lexer_.at_punctuation(':')) {
      lexer_.fail(lexer_.peek(), "a scalar has no type: it is a Python float");
    }
    if (kind == InputKind::constant) {
      check_data(path, type, path_token);
    } else if (!input_paths_.emplace(kind, path).second) {
      lexer_.fail(path_token, "there is already a " + std::string(word.text) + " " + quote(path));
    }
    builder_.add_input(kind, std::move(name.text), std::move(path), std::move(type));
    lexer_.expect_end_of_line();
  }

  void check_data(std::string_view data, const Type& type, const Token& token) const {
    const std::optional<Bytes> bytes = base64_decoded_size(data);
    if (!bytes) lexer_.fail(token, "a constant's data is base64");
    const Bytes needed = element_count(type.shape) * element_size(type.dtype);
    if (*bytes != needed) {
      lexer_.fail(token, "the data has " + std::to_string(*bytes) + " bytes, " + to_text(type) +
                             " has " + std::to_string(needed));
    }
  }

  // ---- statements
  void parse_statement() {
    std::vector<Name> names;
    do names.push_back(parse_new_name("the name of a result"));
    while (lexer_.take_punctuation(','));
    for (std::size_t i = 1; i < names.size(); ++i) check_not_among(names, i);
    lexer_.expect_punctuation('=', "after the results");
    const Token name = lexer_.expect(TokenKind::word, "an operator, for instance aten.mm");
    Operator op;
    op.info = &operator_named(lexer_, name);
    parse_arguments(lexer_, builder_, op);
    lexer_.expect_punctuation(':', "and the types of the results");
    const Token first_type = lexer_.peek();
    std::vector<ParsedType> types;
    do types.push_back(parse_type(lexer_));
    while (lexer_.take_punctuation(','));
    if (types.size() != names.size()) {
      lexer_.fail(first_type, "expected a type for each of " + std::to_string(names.size()) +
                                  " results, found " + std::to_string(types.size()));
    }
    parse_attributes(op);
    lexer_.expect_end_of_line();
    if (op.info->purity == Purity::view) {
      add_view(std::move(op), names, std::move(types[0]), name, first_type);
    } else {
      check_loop(op, name);
      add_operator(std::move(op), std::move(names), std::move(types));
    }
  }

  // A begin or end of the right form, nested rightly.
  void check_loop(const Operator& op, const Token& name) const {
    if (op.info->name == kLoopBegin) {
      const std::optional<Loop> loop = read_loop_begin(op);
      if (!loop) {
        lexer_.fail(name, "expected magis.begin(name, part, length, [tensors read])");
      }
      if (loop->part < 1 || loop->part > loop->length.value) {
        lexer_.fail(name, "a part of " + std::to_string(loop->part) + " is no part of " +
                              std::to_string(loop->length.value));
      }
      if (!is_word(loop->name)) {
        lexer_.fail(name, "the name of a loop is a letter or underscore, then more");
      }
      if (builder_.find_open_loop(loop->name).valid()) {
        lexer_.fail(name, "loop " + loop->name + " is already there");
      }
    } else if (op.info->name == kLoopEnd) {
      const std::optional<std::string> ended = read_loop_end(op);
      if (!ended) lexer_.fail(name, "expected magis.end(name, [results], [tensors read])");
      const LoopId open = builder_.open_loop();
      if (!open.valid() || builder_.loop(open).name != *ended) {
        lexer_.fail(name, "the loop to end here is " +
                              (open.valid() ? builder_.loop(open).name : "none") + ", not " +
                              *ended);
      }
    }
  }

  void parse_attributes(Operator& op) {
    if (lexer_.at(TokenKind::site)) {
      const Token token = lexer_.take();
      const auto site = sites_.find(token.integer);
      if (site == sites_.end()) {
        lexer_.fail(token, "there is no site " + std::string(token.text) + " in the header");
      }
      op.site = site->second;
    }
    op.backward = lexer_.take_word("backward");
    if (lexer_.take_word("scratch")) {
      const Token bytes = lexer_.expect(TokenKind::integer, "the bytes of scratch");
      if (bytes.integer < 0) lexer_.fail(bytes, "scratch is not negative");
      op.scratch = bytes.integer;
    }
  }

  void add_view(Operator op, std::vector<Name>& names, ParsedType type, const Token& name,
                const Token& type_token) {
    if (names.size() != 1) lexer_.fail(names[1].token, "a view has one result");
    const auto* base = op.args.empty() ? nullptr : std::get_if<ValueId>(&op.args[0].value);
    if (base == nullptr || !builder_.value(*base).type.defined) {
      lexer_.fail(name, "a view's first argument is the tensor that it is a view of");
    }
    const Type& base_type = builder_.value(*base).type;
    if (!type.storage_given) type.type.storage = base_type.storage;
    const auto derived = derive_view(op, base_type);
    if (const auto* problem = std::get_if<std::string>(&derived)) lexer_.fail(name, *problem);
    if (const Type& expected = std::get<Type>(derived); !same_layout(type.type, expected)) {
      lexer_.fail(type_token, op.info->name + " of " + to_text(base_type) + " is " +
                                  to_text(expected) + ", not " + to_text(type.type));
    }
    builder_.add_view(std::move(names[0].text), std::move(op), std::move(type.type));
  }

  void add_operator(Operator op, std::vector<Name> names, std::vector<ParsedType> types) {
    std::vector<std::string> result_names;
    std::vector<Type> result_types;
    for (std::size_t i = 0; i < names.size(); ++i) {
      result_names.push_back(std::move(names[i].text));
      result_types.push_back(std::move(types[i].type));
    }
    builder_.add_operator(std::move(op), std::move(result_names), std::move(result_types));
  }

  // ---- outputs
  void parse_output() {
    lexer_.take();
    const Token word = lexer_.expect(TokenKind::word, "the kind of the output");
    const std::optional<OutputKind> kind = output_kind(word.text);
    if (!kind) {
      lexer_.fail(word, "`" + std::string(word.text) +
                            "` is no kind of output; kinds are loss aux grad buffer param state");
    }
    const Token path_token = lexer_.peek();
    std::string path = parse_string("the path in double quotes");
    if (!output_paths_.emplace(*kind, path).second) {
      lexer_.fail(path_token,
                  "there is already an output " + std::string(word.text) + " " + quote(path));
    }
    if (!lexer_.at(TokenKind::value)) lexer_.fail_expected("the value");
    const Token token = lexer_.peek();
    const ValueId value = parse_read(lexer_, builder_);
    if (!builder_.value(value).type.defined) lexer_.fail(token, "a scalar is no output");
    builder_.add_output(*kind, std::move(path), value);
    lexer_.expect_end_of_line();
  }

  static std::optional<OutputKind> output_kind(std::string_view word) {
    for (OutputKind kind : {OutputKind::loss, OutputKind::aux, OutputKind::grad, OutputKind::buffer,
                            OutputKind::param, OutputKind::state}) {
      if (word == to_text(kind)) return kind;
    }
    return std::nullopt;
  }

  void check_at_end() {
    if (lexer_.at_word("program") || lexer_.at(TokenKind::end)) {
      if (output_paths_.empty()) {
        lexer_.fail(lexer_.peek(), "there is no output: the file seems to be cut off");
      }
      return;
    }
    if (input_kind()) lexer_.fail(lexer_.peek(), "inputs stand before the first operator");
    if (lexer_.at_word("meta") || lexer_.at_word("site") || lexer_.at_word("device")) {
      lexer_.fail(lexer_.peek(), describe(lexer_.peek()) + " stands before the inputs");
    }
    if (lexer_.at(TokenKind::value))
      lexer_.fail(lexer_.peek(), "operators stand before the outputs");
    lexer_.fail_expected("an input, an operator or an output");
  }

  // ---- pieces
  std::string parse_string(std::string_view what) {
    return lexer_.unquote(lexer_.expect(TokenKind::string, what));
  }

  Name parse_new_name(std::string_view what) {
    const Token token = lexer_.expect(TokenKind::value, what);
    if (token.integer != 0) {
      lexer_.fail(token, describe(token) + " is a copy: only a program has copies");
    }
    if (builder_.find(token.text).valid()) {
      lexer_.fail(token, describe(token) + " is defined twice");
    }
    return {std::string(token.text), token};
  }

  void check_not_among(const std::vector<Name>& names, std::size_t i) const {
    for (std::size_t before = 0; before < i; ++before) {
      if (names[before].text == names[i].text) {
        lexer_.fail(names[i].token, describe(names[i].token) + " is defined twice");
      }
    }
  }

  Lexer lexer_;
  GraphBuilder builder_;
  std::map<int64_t, SiteId> sites_;
  std::set<std::string, std::less<>> meta_keys_;
  std::set<std::pair<InputKind, std::string>> input_paths_;
  std::set<std::pair<OutputKind, std::string>> output_paths_;
};

}  // namespace

ParsedGraph parse_graph_part(std::string_view text, std::string_view file_name) {
  if (const std::string message = foreign_text_message(text); !message.empty()) {
    throw UserError(std::string(file_name) + ":1:1: " + message);
  }
  return GraphParser(Lexer(text, file_name)).parse();
}

Graph parse_graph(std::string_view text, std::string_view file_name) {
  ParsedGraph parsed = parse_graph_part(text, file_name);
  if (!parsed.rest.at(TokenKind::end)) {
    parsed.rest.fail(parsed.rest.peek(), "this is a plan: a program follows the graph");
  }
  return std::move(parsed.graph);
}

}  // namespace magis
