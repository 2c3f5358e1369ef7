#include "transform/rules/word_shapes.h"

#include <algorithm>
#include <utility>

namespace magis {

static const SymbolicShape& shape_of(const Rule& rule, const PatternNode& node,
                                     std::size_t position) {
  return rule.nodes[static_cast<std::size_t>(node.args[position].node)].shape;
}

static bool is_equal(const Rule& rule, const Polynomial& a, const Polynomial& b) {
  return rule.simplified(a) == rule.simplified(b);
}

static bool is_equal(const Rule& rule, const SymbolicShape& a, const SymbolicShape& b) {
  const auto same = [&](const Polynomial& x, const Polynomial& y) { return is_equal(rule, x, y); };
  return a.star == b.star && std::ranges::equal(a.before, b.before, same) &&
         std::ranges::equal(a.after, b.after, same);
}

static void require_equal(const Rule& rule, const Polynomial& a, const Polynomial& b,
                          const char* what) {
  if (is_equal(rule, a, b)) return;
  throw ShapeError{std::string(what) + " differ: " + to_text(a, rule.symbols) + " and " +
                   to_text(b, rule.symbols)};
}

[[noreturn]] static void fail_shapes(const Rule& rule, const SymbolicShape& a,
                                     const SymbolicShape& b) {
  throw ShapeError{"shapes " + to_text(a, rule.symbols) + " and " + to_text(b, rule.symbols) +
                   " do not go together"};
}

// The lengths of a tensor with exactly so many dimensions.
static const std::vector<Polynomial>& lengths_of(const Rule& rule, const PatternNode& node,
                                                 std::size_t position, std::size_t rank) {
  const SymbolicShape& shape = shape_of(rule, node, position);
  if (shape.has_star() || shape.before.size() != rank) {
    throw ShapeError{"argument " + std::to_string(position + 1) + " has the shape " +
                     to_text(shape, rule.symbols) + ", but needs " + std::to_string(rank) +
                     " dimensions"};
  }
  return shape.before;
}

// From the right, lengths are equal or 1, and a shape may end early.
static bool broadcasts(const Rule& rule, const SymbolicShape& small, const SymbolicShape& to) {
  if (is_equal(rule, small, to)) return true;
  if (small.has_star()) return false;
  for (std::size_t d = 0; d < small.before.size(); ++d) {
    const Polynomial& length = small.before[small.before.size() - 1 - d];
    const Polynomial* other = to.at(-1 - static_cast<int64_t>(d));
    if (!to.has_star() && other == nullptr) return false;
    if (length == Polynomial(1)) continue;
    if (other == nullptr || !is_equal(rule, length, *other)) return false;
  }
  return true;
}

SymbolicShape like_first(Rule& rule, const PatternNode& node, bool) {
  return shape_of(rule, node, 0);
}

SymbolicShape broadcast_both(Rule& rule, const PatternNode& node, bool) {
  const SymbolicShape& a = shape_of(rule, node, 0);
  const SymbolicShape& b = shape_of(rule, node, 1);
  if (broadcasts(rule, b, a)) return a;
  if (broadcasts(rule, a, b)) return b;
  fail_shapes(rule, a, b);
}

static SymbolicShape product(Rule& rule, const PatternNode& node, std::size_t first) {
  const auto& a = lengths_of(rule, node, first, 2);
  const auto& b = lengths_of(rule, node, first + 1, 2);
  require_equal(rule, a[1], b[0], "the lengths that a product sums over");
  return {.before = {a[0], b[1]}};
}

static SymbolicShape batched_product(Rule& rule, const PatternNode& node, std::size_t first) {
  const auto& a = lengths_of(rule, node, first, 3);
  const auto& b = lengths_of(rule, node, first + 1, 3);
  require_equal(rule, a[0], b[0], "the batches");
  require_equal(rule, a[2], b[1], "the lengths that a product sums over");
  return {.before = {a[0], a[1], b[2]}};
}

static SymbolicShape added_to(Rule& rule, const PatternNode& node, SymbolicShape made) {
  const SymbolicShape& added = shape_of(rule, node, 0);
  if (!broadcasts(rule, added, made)) fail_shapes(rule, added, made);
  return made;
}

SymbolicShape mm_shape(Rule& rule, const PatternNode& node, bool) { return product(rule, node, 0); }
SymbolicShape bmm_shape(Rule& rule, const PatternNode& node, bool) {
  return batched_product(rule, node, 0);
}
SymbolicShape addmm_shape(Rule& rule, const PatternNode& node, bool) {
  return added_to(rule, node, product(rule, node, 1));
}
SymbolicShape baddbmm_shape(Rule& rule, const PatternNode& node, bool) {
  return added_to(rule, node, batched_product(rule, node, 1));
}

SymbolicShape permute_shape(Rule& rule, const PatternNode& node, bool) {
  const std::vector<int64_t>& dims = node.args[1].dims;
  const auto& from = lengths_of(rule, node, 0, dims.size());
  SymbolicShape shape;
  std::vector<char> taken(dims.size(), 0);
  for (int64_t dim : dims) {
    if (dim < 0) dim += static_cast<int64_t>(dims.size());
    if (dim < 0 || dim >= static_cast<int64_t>(dims.size()) ||
        std::exchange(taken[static_cast<std::size_t>(dim)], 1) != 0) {
      throw ShapeError{"these dimensions are no permutation"};
    }
    shape.before.push_back(from[static_cast<std::size_t>(dim)]);
  }
  return shape;
}

SymbolicShape view_shape(Rule& rule, const PatternNode& node, bool left) {
  const SymbolicShape& from = shape_of(rule, node, 0);
  const SymbolicShape& to = node.args[1].shape;
  const Polynomial before = rule.simplified(elements(from, rule.symbols));
  const Polynomial after = rule.simplified(elements(to, rule.symbols));
  if (before == after) return to;
  if (left) {
    if (const std::optional<int> symbol = after.only_symbol()) {
      rule.facts.emplace_back(*symbol, before);
      return to;
    }
    if (const std::optional<int> symbol = before.only_symbol()) {
      rule.facts.emplace_back(*symbol, after);
      return to;
    }
  }
  throw ShapeError{"a view has as many elements as its base, but " + to_text(before, rule.symbols) +
                   " and " + to_text(after, rule.symbols) + " may differ"};
}

SymbolicShape expand_shape(Rule& rule, const PatternNode& node, bool) {
  const SymbolicShape& from = shape_of(rule, node, 0);
  const SymbolicShape& to = node.args[1].shape;
  if (!broadcasts(rule, from, to)) fail_shapes(rule, from, to);
  return to;
}

static Polynomial& length_at(const Rule& rule, SymbolicShape& shape, int64_t dim) {
  Polynomial* length = shape.at(dim);
  if (length == nullptr) {
    throw ShapeError{to_text(shape, rule.symbols) + " has no known dimension " +
                     std::to_string(dim)};
  }
  return *length;
}

SymbolicShape slice_shape(Rule& rule, const PatternNode& node, bool) {
  SymbolicShape shape = shape_of(rule, node, 0);
  length_at(rule, shape, node.args[1].dims[0]) = node.args[3].length - node.args[2].length;
  return shape;
}

SymbolicShape cat_shape(Rule& rule, const PatternNode& node, bool) {
  const int64_t dim = node.args[1].dims[0];
  std::optional<SymbolicShape> result;
  for (const ListItem& item : node.args[0].items) {
    SymbolicShape shape = item.sequence >= 0
                              ? rule.sequences[static_cast<std::size_t>(item.sequence)].shape
                              : rule.nodes[static_cast<std::size_t>(item.node)].shape;
    Polynomial& length = length_at(rule, shape, dim);
    if (result) {
      const Polynomial sum = length_at(rule, *result, dim) + length;
      length = length_at(rule, *result, dim);
      if (!is_equal(rule, shape, *result)) fail_shapes(rule, shape, *result);
      length_at(rule, *result, dim) = sum;
    } else {
      result = shape;
    }
  }
  if (!result) throw ShapeError{"a concatenation of nothing"};
  return *result;
}

SymbolicShape sum_shape(Rule& rule, const PatternNode& node, bool) {
  SymbolicShape shape = shape_of(rule, node, 0);
  for (int64_t dim : node.args[1].dims) {
    length_at(rule, shape, dim);
    if (!node.args[2].flag && (shape.has_star() || node.args[1].dims.size() > 1)) {
      throw ShapeError{"a sum that drops dimensions takes one, of a shape without *"};
    }
  }
  for (int64_t dim : node.args[1].dims) {
    if (node.args[2].flag) {
      length_at(rule, shape, dim) = Polynomial(1);
    } else {
      shape.before.erase(shape.before.begin() +
                         (dim < 0 ? dim + static_cast<int64_t>(shape.before.size()) : dim));
    }
  }
  return shape;
}

SymbolicShape softmax_shape(Rule& rule, const PatternNode& node, bool) {
  SymbolicShape shape = shape_of(rule, node, 0);
  length_at(rule, shape, node.args[1].dims[0]);
  return shape;
}

// What the size of a convolution's images follows from: where kernel, padding and dilation are
// literals, from what they take off together.
static std::string size_text(const Rule& rule, const PatternNode& node, std::size_t d,
                             const Polynomial& images, const Polynomial& kernel) {
  const auto literal = [&](std::size_t a) -> std::optional<int64_t> {
    const auto* list = std::get_if<ArgList>(&node.args[a].literal.value);
    if (list == nullptr || list->size() != 2) return std::nullopt;
    return integer_value((*list)[d - 2]);
  };
  const auto text = [&](std::size_t a) {
    const std::optional<int64_t> value = literal(a);
    return value ? std::to_string(*value)
                 : rule.attributes.at(static_cast<std::size_t>(node.args[a].attribute));
  };
  std::string name = to_text(images, rule.symbols) + " by " + text(3);
  const std::optional<int64_t> padding = literal(4);
  const std::optional<int64_t> dilation = literal(5);
  const std::optional<int64_t> length = kernel.constant();
  if (padding && dilation && length) {
    return name + " less " + std::to_string(*dilation * (*length - 1) - 2 * *padding);
  }
  return name + " under " + to_text(kernel, rule.symbols) + " " + text(4) + " " + text(5);
}

// Two dimensions of images: how long they are is a symbol of its own for each combination of what
// it follows from.
SymbolicShape convolution_shape(Rule& rule, const PatternNode& node, bool left) {
  const auto& images = lengths_of(rule, node, 0, 4);
  const auto& weight = lengths_of(rule, node, 1, 4);
  if (node.args[6].flag || node.args[8].literal != Arg{int64_t{1}}) {
    throw ShapeError{"only convolutions that are neither transposed nor grouped have a shape here"};
  }
  require_equal(rule, images[1], weight[1], "the channels");
  SymbolicShape shape{.before = {images[0], weight[0]}};
  for (std::size_t d : {2UL, 3UL}) {
    const std::string name =
        "(" + std::to_string(d) + ": " + size_text(rule, node, d, images[d], weight[d]) + ")";
    if (!left && !rule.symbols.find_length(name)) {
      throw ShapeError{"the size of this convolution's images does not follow from the left side"};
    }
    shape.before.push_back(Polynomial::symbol(rule.symbols.length(name)));
  }
  return shape;
}

SymbolicShape pad_shape(Rule& rule, const PatternNode& node, bool) {
  SymbolicShape shape = shape_of(rule, node, 0);
  const std::vector<int64_t>& padding = node.args[1].dims;
  for (std::size_t d = 0; 2 * d + 1 < padding.size(); ++d) {
    Polynomial& length = length_at(rule, shape, -1 - static_cast<int64_t>(d));
    length = length + Polynomial(padding[2 * d] + padding[2 * d + 1]);
  }
  return shape;
}

SymbolicShape one_element(Rule&, const PatternNode&, bool left) {
  if (left) throw ShapeError{"any() stands for nothing in particular: it has no place here"};
  return {.before = {Polynomial(1)}};
}

}  // namespace magis
