#include "transform/rules/symbolic_shape.h"

#include <algorithm>
#include <utility>

namespace magis {

// ---- polynomials

Polynomial::Polynomial(int64_t constant) { add({}, constant); }

Polynomial Polynomial::symbol(int id) {
  Polynomial result;
  result.add({id}, 1);
  return result;
}

void Polynomial::add(const Monomial& monomial, int64_t coefficient) {
  const int64_t sum = terms_[monomial] += coefficient;
  if (sum == 0) terms_.erase(monomial);
}

Polynomial Polynomial::operator+(const Polynomial& other) const {
  Polynomial result = *this;
  for (const auto& [monomial, coefficient] : other.terms_) result.add(monomial, coefficient);
  return result;
}

Polynomial Polynomial::operator-(const Polynomial& other) const {
  return *this + other * Polynomial(-1);
}

Polynomial Polynomial::operator*(const Polynomial& other) const {
  Polynomial result;
  for (const auto& [a, x] : terms_) {
    for (const auto& [b, y] : other.terms_) {
      Monomial product = a;
      product.insert(product.end(), b.begin(), b.end());
      std::ranges::sort(product);
      result.add(product, x * y);
    }
  }
  return result;
}

std::optional<int64_t> Polynomial::constant() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_.begin()->first.empty()) return terms_.begin()->second;
  return std::nullopt;
}

std::optional<int> Polynomial::only_symbol() const {
  if (terms_.size() != 1) return std::nullopt;
  const auto& [monomial, coefficient] = *terms_.begin();
  if (monomial.size() != 1 || coefficient != 1) return std::nullopt;
  return monomial.front();
}

std::vector<int> Polynomial::symbols() const {
  std::vector<int> all;
  for (const auto& [monomial, coefficient] : terms_) {
    all.insert(all.end(), monomial.begin(), monomial.end());
  }
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

Polynomial Polynomial::substitute(int symbol, const Polynomial& by) const {
  Polynomial result;
  for (const auto& [monomial, coefficient] : terms_) {
    Polynomial product(coefficient);
    for (int factor : monomial) {
      product = product * (factor == symbol ? by : Polynomial::symbol(factor));
    }
    result = result + product;
  }
  return result;
}

std::optional<int64_t> Polynomial::evaluate(
    const std::vector<std::optional<int64_t>>& values) const {
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    int64_t product = coefficient;
    for (int factor : monomial) {
      const std::optional<int64_t>& value = values.at(static_cast<std::size_t>(factor));
      if (!value) return std::nullopt;
      product *= *value;
    }
    sum += product;
  }
  return sum;
}

// ---- shapes

const Polynomial* SymbolicShape::at(int64_t dim) const {
  const auto front = static_cast<int64_t>(before.size());
  const auto back = static_cast<int64_t>(after.size());
  if (dim < 0 && !has_star()) dim += front;
  if (dim >= 0) return dim < front ? &before[static_cast<std::size_t>(dim)] : nullptr;
  return -dim <= back ? &after[static_cast<std::size_t>(back + dim)] : nullptr;
}

Polynomial* SymbolicShape::at(int64_t dim) {
  return const_cast<Polynomial*>(std::as_const(*this).at(dim));
}

namespace {

std::optional<int> index_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

}  // namespace

std::optional<int> SymbolNames::find_length(const std::string& name) const {
  return index_of(lengths, name);
}
std::optional<int> SymbolNames::find_star(const std::string& name) const {
  return index_of(stars, name);
}

int SymbolNames::length(const std::string& name) {
  if (const std::optional<int> known = find_length(name)) return *known;
  lengths.push_back(name);
  return static_cast<int>(lengths.size()) - 1;
}

int SymbolNames::star(const std::string& name) {
  if (const std::optional<int> known = find_star(name)) return *known;
  stars.push_back(name);
  star_elements.push_back(length("#" + name));
  return static_cast<int>(stars.size()) - 1;
}

Polynomial elements(const SymbolicShape& shape, const SymbolNames& names) {
  Polynomial product(1);
  for (const Polynomial& length : shape.before) product = product * length;
  for (const Polynomial& length : shape.after) product = product * length;
  if (!shape.has_star()) return product;
  return product * Polynomial::symbol(names.star_elements[static_cast<std::size_t>(shape.star)]);
}

std::string to_text(const Polynomial& polynomial, const SymbolNames& names) {
  if (const std::optional<int64_t> constant = polynomial.constant()) {
    return std::to_string(*constant);
  }
  return polynomial.to_text(names.lengths);
}

std::string to_text(const SymbolicShape& shape, const SymbolNames& names) {
  std::string text;
  const auto item = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  for (const Polynomial& length : shape.before) item(to_text(length, names));
  if (shape.has_star()) item("*" + names.stars[static_cast<std::size_t>(shape.star)]);
  for (const Polynomial& length : shape.after) item(to_text(length, names));
  return "[" + text + "]";
}

// ---- values

SymbolValues::SymbolValues(const SymbolNames& names)
    : lengths(names.lengths.size()), stars(names.stars.size()) {}

bool SymbolValues::unify(const Polynomial& length, int64_t concrete) {
  if (const std::optional<int> symbol = length.only_symbol()) {
    std::optional<int64_t>& value = lengths[static_cast<std::size_t>(*symbol)];
    if (!value) value = concrete;
    return *value == concrete;
  }
  const std::optional<int64_t> known = length.evaluate(lengths);
  return !known || *known == concrete;
}

bool SymbolValues::unify(const SymbolicShape& shape, const Shape& concrete,
                         const SymbolNames& names) {
  const std::size_t front = shape.before.size();
  const std::size_t back = shape.after.size();
  if (shape.has_star() ? concrete.size() < front + back : concrete.size() != front) return false;
  for (std::size_t d = 0; d < front; ++d) {
    if (!unify(shape.before[d], concrete[d])) return false;
  }
  for (std::size_t d = 0; d < back; ++d) {
    if (!unify(shape.after[d], concrete[concrete.size() - back + d])) return false;
  }
  if (!shape.has_star()) return true;
  const Shape middle(concrete.begin() + static_cast<std::ptrdiff_t>(front),
                     concrete.end() - static_cast<std::ptrdiff_t>(back));
  std::optional<Shape>& value = stars[static_cast<std::size_t>(shape.star)];
  if (!value) value = middle;
  const int count = names.star_elements[static_cast<std::size_t>(shape.star)];
  return *value == middle && unify(Polynomial::symbol(count), element_count(middle));
}

std::optional<Shape> SymbolValues::evaluate(const SymbolicShape& shape) const {
  Shape result;
  const auto add = [&](const std::vector<Polynomial>& part) {
    for (const Polynomial& length : part) {
      const std::optional<int64_t> value = length.evaluate(lengths);
      if (!value || *value <= 0) return false;
      result.push_back(*value);
    }
    return true;
  };
  if (!add(shape.before)) return std::nullopt;
  if (shape.has_star()) {
    const std::optional<Shape>& middle = stars[static_cast<std::size_t>(shape.star)];
    if (!middle) return std::nullopt;
    result.insert(result.end(), middle->begin(), middle->end());
  }
  if (!add(shape.after)) return std::nullopt;
  return result;
}

// "m*n + 2*k"
std::string Polynomial::to_text(const std::vector<std::string>& names) const {
  std::string text;
  for (const auto& [monomial, coefficient] : terms_) {
    std::string product;
    if (coefficient != 1 || monomial.empty()) product = std::to_string(coefficient);
    for (int factor : monomial) {
      product += (product.empty() ? "" : "*") + names[static_cast<std::size_t>(factor)];
    }
    text += (text.empty() ? "" : " + ") + product;
  }
  return text;
}

}  // namespace magis
