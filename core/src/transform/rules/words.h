// The words of the rule language: what each is called in graphs, what it takes, and the shape and
// layout of what it makes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transform/rules/rule.h"

namespace magis {

enum class ArgKind : uint8_t {
  tensor,
  tensors,    // a list
  number,     // a literal float or integer
  length,     // an integer that counts elements
  dim,        // a dimension, from the end if negative
  dims,       // a list of them
  shape,      // a list of lengths
  flag,       // true or false
  attribute,  // whatever stands there: a list of strides, none
};

// How the result of a word lies in memory, given its operands; where that is not known for sure the
// word cannot be written there.
enum class Layout : uint8_t {
  contiguous,   // whatever the operands
  elementwise,  // as the operands that have its shape, if they lie all alike
  ordered,      // contiguous if the operands are, or have too few dimensions for another order
  packed,       // the same, but only images have another order
  view,
};

// Why a shape cannot be.
struct ShapeError {
  std::string reason;
};

struct Word {
  std::string_view name;
  std::vector<std::string_view> spellings =
      {};  // of the operators that it matches; the first is written
  std::vector<ArgKind> args;
  // Throws ShapeError. May learn facts where `rule` is still reading its left side.
  SymbolicShape (*shape)(Rule& rule, const PatternNode& node, bool left);
  Layout layout = Layout::contiguous;
  bool commutative = false;  // its first two arguments
  bool scales = false;       // has the keywords beta and alpha

  KeywordArgs keywords = {};  // that every call of it has

  std::vector<const OpInfo*> infos = {};  // of the spellings

  bool matches(const OpInfo* info) const;
};

// Null if there is none.
const Word* find_word(std::string_view name);
// For a message: the word with the most similar name.
std::string_view closest_word(std::string_view name);
// Every word that matches the operator.
std::vector<const Word*> words_of(const OpInfo* info);

// The type of what `word` makes when its tensors have these types, in order, and the result this
// shape; nothing if it is not known for sure how it lies in memory. Views have `call`.
std::optional<Type> result_type(const Word& word, const Call& call,
                                const std::vector<const Type*>& operands, const Shape& shape);

}  // namespace magis
