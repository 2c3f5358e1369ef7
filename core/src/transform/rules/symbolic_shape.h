// Shapes of a rule's tensors: lengths are polynomials over named lengths, and one place may stand
// for any number of dimensions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "magis/graph/type.h"

namespace magis {

// A sum of products of symbols with integer coefficients.
class Polynomial {
 public:
  Polynomial() = default;  // 0
  Polynomial(int64_t constant);
  static Polynomial symbol(int id);

  Polynomial operator+(const Polynomial& other) const;
  Polynomial operator-(const Polynomial& other) const;
  Polynomial operator*(const Polynomial& other) const;
  bool operator==(const Polynomial&) const = default;

  std::optional<int64_t> constant() const;
  // The symbol that it is, if it is one and nothing else.
  std::optional<int> only_symbol() const;
  std::vector<int> symbols() const;
  // "m*n + 2*k"
  std::string to_text(const std::vector<std::string>& names) const;
  Polynomial substitute(int symbol, const Polynomial& by) const;
  // Nothing if a symbol has no value.
  std::optional<int64_t> evaluate(const std::vector<std::optional<int64_t>>& values) const;

 private:
  using Monomial = std::vector<int>;  // symbols, sorted, as often as they occur
  void add(const Monomial& monomial, int64_t coefficient);
  std::map<Monomial, int64_t> terms_;  // without zeros
};

// [before..., *star, after...]; without a star all lengths are in `before`.
struct SymbolicShape {
  std::vector<Polynomial> before = {};
  int star = -1;  // -1: none
  std::vector<Polynomial> after = {};

  bool operator==(const SymbolicShape&) const = default;
  bool has_star() const { return star >= 0; }
  std::size_t known_rank() const { return before.size() + after.size(); }
  // The length of a dimension counted from the front, or from the end if negative; null if it may
  // be one of the star's or is out of range.
  const Polynomial* at(int64_t dim) const;
  Polynomial* at(int64_t dim);
};

// What names of lengths and of stars stand for; of a star also how many elements it has, which is a
// symbol of its own.
struct SymbolNames {
  std::vector<std::string> lengths;
  std::vector<std::string> stars;
  std::vector<int> star_elements;  // symbol, by star

  int length(const std::string& name);  // made on first sight
  int star(const std::string& name);
  std::optional<int> find_length(const std::string& name) const;
  std::optional<int> find_star(const std::string& name) const;
};

Polynomial elements(const SymbolicShape& shape, const SymbolNames& names);
std::string to_text(const Polynomial& polynomial, const SymbolNames& names);
std::string to_text(const SymbolicShape& shape, const SymbolNames& names);

// Values of symbols, as matching finds them.
struct SymbolValues {
  std::vector<std::optional<int64_t>> lengths;
  std::vector<std::optional<Shape>> stars;

  explicit SymbolValues(const SymbolNames& names);
  // Whether `shape` can be `concrete`; binds what has no value yet. What is neither a symbol nor a
  // constant is left for equals().
  bool unify(const SymbolicShape& shape, const Shape& concrete, const SymbolNames& names);
  bool unify(const Polynomial& length, int64_t concrete);
  // Nothing if a symbol has no value, or if a length is not positive.
  std::optional<Shape> evaluate(const SymbolicShape& shape) const;
};

}  // namespace magis
