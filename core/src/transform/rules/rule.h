// A rewrite rule as data: a pattern, what takes its place, and when.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"
#include "transform/rules/symbolic_shape.h"

namespace magis {

struct Word;

// A number that a rule names or computes: alpha, 2, a * b, 1 / c.
struct NumberExpr {
  enum class Kind : uint8_t { constant, variable, sum, product, quotient };
  Kind kind = Kind::constant;
  double constant = 1;
  int variable = -1;                      // of Rule::numbers
  std::vector<NumberExpr> operands = {};  // two
};

// One item of a list of tensors: a node, or a variable that stands for any number of them.
struct ListItem {
  int node = -1;
  int sequence = -1;  // of Rule::sequences
};

// One argument of a word; which member counts is said by the word (words.h).
struct PatternArg {
  int node = -1;
  std::vector<ListItem> items = {};
  NumberExpr number = {};
  Polynomial length = {};
  std::vector<int64_t> dims = {};
  SymbolicShape shape = {};
  bool flag = false;
  int attribute = -1;  // of Rule::attributes; -1: what `literal` says
  Arg literal = {};
};

struct PatternNode {
  const Word* word = nullptr;  // null: a variable
  std::string name = {};       // empty: it has none
  std::vector<PatternArg> args = {};
  NumberExpr beta = {}, alpha = {};  // of words that scale
  SymbolicShape shape = {};
};

struct Condition {
  enum class Kind : uint8_t {
    once,       // one reads the node, and it is no output
    weight,     // the node is a parameter, a buffer or a constant, or a view of one
    different,  // two nodes are different values
    // The first node is an input, or the second no transpose. A product of a transposed activation
    // sums over the batch, as weights' gradients do: in parts it is complete only after the last
    // one, and no other sum over the batch can be added to it before.
    complete,
    equal,  // two lengths
    less,   // the first length is less than the second
  };
  Kind kind;
  std::vector<int> nodes;
  std::vector<Polynomial> lengths;
};

struct Sequence {
  std::string name = {};
  SymbolicShape shape = {};  // of its concatenation
};

struct Rule {
  std::string name = {};
  std::string description;
  bool exact = false;  // the same bits
  bool wide = false;   // loses too much in 16 bits: float32 and wider alone, unless asked for

  SymbolNames symbols;
  std::vector<std::string> numbers;
  std::vector<std::string> attributes;
  std::vector<Sequence> sequences;
  // Each after the nodes that it reads; variables and what is on the left come first.
  std::vector<PatternNode> nodes;
  std::size_t left_count = 0;  // of nodes that are variables or on the left
  // What is replaced, and by what.
  struct Root {
    int from;
    int to;
  };
  std::vector<Root> roots;
  std::vector<Condition> conditions;
  // Symbols that follow from others: how many elements a star has, where a view says so.
  std::vector<std::pair<int, Polynomial>> facts;

  Polynomial simplified(Polynomial polynomial) const {
    for (const auto& [symbol, by] : facts) polynomial = polynomial.substitute(symbol, by);
    return polynomial;
  }
};

// Reads rules (transform/rules/README.md says how they are written) and checks them: every word
// and name is known, shapes fit, and both sides have the same shapes. Throws UserError with
// file:line:column and a caret.
std::vector<Rule> parse_rules(std::string_view text, std::string_view file_name);

}  // namespace magis
