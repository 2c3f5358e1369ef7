#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/lexer.h"
#include "graph/parser.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

class ProgramParser {
 public:
  ProgramParser(const Graph& graph, Lexer lexer) : graph_(graph), lexer_(lexer) {
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      values_.emplace(graph.value(ValueId(i)).name, ValueId(i));
    }
  }

  Program parse() {
    lexer_.take();  // `program`
    lexer_.expect_end_of_line();
    Program program;
    while (!lexer_.at(TokenKind::end)) {
      program.statements.push_back(statement());
      lexer_.expect_end_of_line();
    }
    return program;
  }

 private:
  Statement statement() {
    if (lexer_.take_word("run")) return run();
    if (lexer_.take_word("free")) return copies(Statement::Kind::free);
    if (lexer_.take_word("await")) return copies(Statement::Kind::await);
    if (lexer_.take_word("store")) return store();
    if (lexer_.take_word("load")) return load();
    lexer_.fail_expected("`run`, `free`, `store`, `load` or `await`");
  }

  Statement run() {
    Statement statement;
    statement.op = run_operator();
    statement.operand_copies.assign(graph_.reads(statement.op).size(), 0);
    if (lexer_.take_word("as")) statement.copy = copy_number();
    if (lexer_.take_word("reading")) {
      do {
        reading(statement);
      } while (lexer_.take_punctuation(','));
    }
    if (lexer_.take_word("over")) over(statement);
    return statement;
  }

  OpId run_operator() {
    const Token name = lexer_.expect(TokenKind::value, "the first result of an operator");
    const Value& value = find(name);
    if (value.kind != ValueKind::result || name.integer != 0 ||
        graph_.op(value.producer).results.front() != values_.at(name.text)) {
      lexer_.fail(name, describe(name) + " is not the first result of an operator");
    }
    return value.producer;
  }

  // Position within the operator's reads of the tensor that the token names.
  std::size_t operand(const Token& name, OpId op) {
    const auto reads = graph_.reads(op);
    const auto found = std::ranges::find(reads, tensor(name));
    if (found == reads.end()) {
      lexer_.fail(name, "the operator does not read %" + std::string(name.text));
    }
    return static_cast<std::size_t>(found - reads.begin());
  }

  void reading(Statement& statement) {
    const Token name = lexer_.expect(TokenKind::value, "a copy that the operator reads");
    int& copy = statement.operand_copies[operand(name, statement.op)];
    if (name.integer == 0) {
      lexer_.fail(name, "`reading` names copies; originals are read without saying so");
    }
    if (copy != 0) lexer_.fail(name, "%" + std::string(name.text) + " is named twice");
    copy = static_cast<int>(name.integer);
  }

  void over(Statement& statement) {
    const Token name = lexer_.expect(TokenKind::value, "the operand to run over");
    const std::size_t position = operand(name, statement.op);
    if (statement.operand_copies[position] != name.integer) {
      lexer_.fail(name, "the operator reads another copy of %" + std::string(name.text));
    }
    const auto choices = graph_.in_place_choices(statement.op);
    const auto first = static_cast<std::size_t>(graph_.first_edge(statement.op).index);
    const EdgeId edge(first + position);
    const auto choice = std::ranges::find(choices, edge, &Graph::InPlaceChoice::edge);
    if (choice == choices.end()) {
      lexer_.fail(name, graph_.op(statement.op).info->name + " cannot run over " + describe(name));
    }
    statement.over = static_cast<int>(position);
    statement.over_argument = choice->argument;
  }

  int copy_number() {
    const Token copy = lexer_.expect(TokenKind::copy, "the number of a copy, as in `.1`");
    if (copy.integer == 0) lexer_.fail(copy, "copies are numbered from 1");
    return static_cast<int>(copy.integer);
  }

  CopyRef copy() {
    const Token name = lexer_.expect(TokenKind::value, "a tensor");
    return {tensor(name), static_cast<int>(name.integer)};
  }

  Statement copies(Statement::Kind kind) {
    Statement statement;
    statement.kind = kind;
    do {
      statement.copies.push_back(copy());
    } while (lexer_.take_punctuation(','));
    return statement;
  }

  Statement store() {
    Statement statement;
    statement.kind = Statement::Kind::store;
    statement.copies = {copy()};
    return statement;
  }

  Statement load() {
    const Token name = lexer_.expect(TokenKind::value, "a tensor");
    if (name.integer != 0) lexer_.fail(name, "a tensor is loaded, as in `load %a as .1`");
    if (!lexer_.take_word("as")) lexer_.fail_expected("`as` and the number of a copy");
    Statement statement;
    statement.kind = Statement::Kind::load;
    statement.copies = {{tensor(name), copy_number()}};
    return statement;
  }

  const Value& find(const Token& name) const {
    const auto found = values_.find(name.text);
    if (found == values_.end()) {
      lexer_.fail(name, "the graph has no %" + std::string(name.text) +
                            suggest_value(graph_.values(), name.text));
    }
    return graph_.value(found->second);
  }

  TensorId tensor(const Token& name) const {
    const Value& value = find(name);
    if (value.kind == ValueKind::view || !value.tensor.valid()) {
      lexer_.fail(name, "%" + std::string(name.text) + " owns no memory");
    }
    return value.tensor;
  }

  const Graph& graph_;
  Lexer lexer_;
  std::unordered_map<std::string_view, ValueId> values_;
};

}  // namespace

PlanText parse_plan(std::string_view text, std::string_view file_name) {
  ParsedGraph parsed = parse_graph_part(text, file_name);
  if (!parsed.rest.at_word("program")) {
    parsed.rest.fail_expected("`program`: a plan is a graph and a program");
  }
  PlanText plan{std::move(parsed.graph), {}};
  plan.program = ProgramParser(plan.graph, parsed.rest).parse();
  return plan;
}

Program parse_program(const Graph& graph, std::string_view text, std::string_view file_name) {
  Lexer lexer(text, file_name);
  if (!lexer.at_word("program")) lexer.fail_expected("`program`");
  return ProgramParser(graph, lexer).parse();
}

bool is_plan(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.substr(0, line.find_first_of(" \t\r#")) == "program") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace magis
