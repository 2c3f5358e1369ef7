#include "transform/rules/words.h"

#include <algorithm>
#include <utility>

#include "graph/suggest.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

using enum ArgKind;

const SymbolicShape& shape_of(const Rule& rule, const PatternNode& node, std::size_t position) {
  return rule.nodes[static_cast<std::size_t>(node.args[position].node)].shape;
}

bool is_equal(const Rule& rule, const Polynomial& a, const Polynomial& b) {
  return rule.simplified(a) == rule.simplified(b);
}

bool is_equal(const Rule& rule, const SymbolicShape& a, const SymbolicShape& b) {
  const auto same = [&](const Polynomial& x, const Polynomial& y) { return is_equal(rule, x, y); };
  return a.star == b.star && std::ranges::equal(a.before, b.before, same) &&
         std::ranges::equal(a.after, b.after, same);
}

void require_equal(const Rule& rule, const Polynomial& a, const Polynomial& b, const char* what) {
  if (is_equal(rule, a, b)) return;
  throw ShapeError{std::string(what) + " differ: " + to_text(a, rule.symbols) + " and " +
                   to_text(b, rule.symbols)};
}

[[noreturn]] void fail_shapes(const Rule& rule, const SymbolicShape& a, const SymbolicShape& b) {
  throw ShapeError{"shapes " + to_text(a, rule.symbols) + " and " + to_text(b, rule.symbols) +
                   " do not go together"};
}

// The lengths of a tensor with exactly so many dimensions.
const std::vector<Polynomial>& lengths_of(const Rule& rule, const PatternNode& node,
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
bool broadcasts(const Rule& rule, const SymbolicShape& small, const SymbolicShape& to) {
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

SymbolicShape product(Rule& rule, const PatternNode& node, std::size_t first) {
  const auto& a = lengths_of(rule, node, first, 2);
  const auto& b = lengths_of(rule, node, first + 1, 2);
  require_equal(rule, a[1], b[0], "the lengths that a product sums over");
  return {.before = {a[0], b[1]}};
}

SymbolicShape batched_product(Rule& rule, const PatternNode& node, std::size_t first) {
  const auto& a = lengths_of(rule, node, first, 3);
  const auto& b = lengths_of(rule, node, first + 1, 3);
  require_equal(rule, a[0], b[0], "the batches");
  require_equal(rule, a[2], b[1], "the lengths that a product sums over");
  return {.before = {a[0], a[1], b[2]}};
}

SymbolicShape added_to(Rule& rule, const PatternNode& node, SymbolicShape made) {
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

Polynomial& length_at(const Rule& rule, SymbolicShape& shape, int64_t dim) {
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
std::string size_text(const Rule& rule, const PatternNode& node, std::size_t d,
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

std::vector<Word> make_words() {
  std::vector<Word> words;
  const auto add = [&](Word word) { words.push_back(std::move(word)); };
  const auto elementwise = [&](std::string_view name, std::vector<std::string_view> spellings,
                               bool commutative) {
    add({.name = name,
         .spellings = std::move(spellings),
         .args = {tensor, tensor},
         .shape = broadcast_both,
         .layout = Layout::elementwise,
         .commutative = commutative});
  };
  elementwise("add", {"aten.add.Tensor"}, true);
  elementwise("mul", {"aten.mul.Tensor"}, true);
  elementwise("sub", {"aten.sub.Tensor"}, false);
  elementwise("div", {"aten.div.Tensor"}, false);
  elementwise("maximum", {"aten.maximum"}, true);
  elementwise("minimum", {"aten.minimum"}, true);
  for (std::string_view name : {"neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs",
                                "sigmoid", "tanh", "relu", "silu", "sin", "cos", "sign"}) {
    add({.name = name,
         .spellings = {},
         .args = {tensor},
         .shape = like_first,
         .layout = Layout::elementwise});
  }
  elementwise("tanh_backward", {"aten.tanh_backward"}, false);
  const KeywordArgs tanh{{"approximate", Arg{std::string("tanh")}}};
  add({.name = "gelu_tanh",
       .spellings = {"aten.gelu"},
       .args = {tensor},
       .shape = like_first,
       .layout = Layout::elementwise,
       .keywords = tanh});
  add({.name = "gelu_tanh_backward",
       .spellings = {"aten.gelu_backward"},
       .args = {tensor, tensor},
       .shape = broadcast_both,
       .layout = Layout::elementwise,
       .keywords = tanh});
  const auto by_number = [&](std::string_view name, std::vector<std::string_view> spellings) {
    add({.name = name,
         .spellings = std::move(spellings),
         .args = {tensor, number},
         .shape = like_first,
         .layout = Layout::elementwise});
  };
  by_number("scale", {"aten.mul.Scalar", "aten.mul.Tensor"});
  by_number("over", {"aten.div.Scalar", "aten.div.Tensor"});
  by_number("shift", {"aten.add.Scalar", "aten.add.Tensor"});
  by_number("power", {"aten.pow.Tensor_Scalar"});
  add({.name = "any", .spellings = {}, .args = {}, .shape = one_element, .layout = Layout::view});
  add({.name = "mm", .spellings = {}, .args = {tensor, tensor}, .shape = mm_shape});
  add({.name = "bmm", .spellings = {}, .args = {tensor, tensor}, .shape = bmm_shape});
  add({.name = "addmm",
       .spellings = {},
       .args = {tensor, tensor, tensor},
       .shape = addmm_shape,
       .scales = true});
  add({.name = "baddbmm",
       .spellings = {},
       .args = {tensor, tensor, tensor},
       .shape = baddbmm_shape,
       .scales = true});
  add({.name = "convolution",
       .spellings = {},
       .args = {tensor, tensor, attribute, attribute, attribute, attribute, flag, attribute,
                attribute},
       .shape = convolution_shape,
       .layout = Layout::ordered});
  add({.name = "pad",
       .spellings = {"aten.constant_pad_nd"},
       .args = {tensor, dims, number},
       .shape = pad_shape,
       .layout = Layout::ordered});
  add({.name = "permute",
       .spellings = {},
       .args = {tensor, dims},
       .shape = permute_shape,
       .layout = Layout::view});
  add({.name = "view",
       .spellings = {},
       .args = {tensor, ArgKind::shape},
       .shape = view_shape,
       .layout = Layout::view});
  add({.name = "expand",
       .spellings = {},
       .args = {tensor, ArgKind::shape},
       .shape = expand_shape,
       .layout = Layout::view});
  add({.name = "slice",
       .spellings = {"aten.slice.Tensor"},
       .args = {tensor, dim, length, length},
       .shape = slice_shape,
       .layout = Layout::view});
  add({.name = "cat",
       .spellings = {},
       .args = {tensors, dim},
       .shape = cat_shape,
       .layout = Layout::packed});
  add({.name = "sum",
       .spellings = {"aten.sum.dim_IntList"},
       .args = {tensor, dims, flag},
       .shape = sum_shape,
       .layout = Layout::ordered});
  add({.name = "softmax",
       .spellings = {"aten._softmax"},
       .args = {tensor, dim, flag},
       .shape = softmax_shape,
       .layout = Layout::packed});
  return words;
}

const std::vector<Word>& all_words() {
  static const std::vector<Word> words = [] {
    std::vector<Word> made = make_words();
    for (Word& word : made) {
      if (word.spellings.empty()) {
        word.infos.push_back(&op_info("aten." + std::string(word.name)));
      }
      for (std::string_view spelling : word.spellings) word.infos.push_back(&op_info(spelling));
    }
    return made;
  }();
  return words;
}

// Of the operands that have the result's shape, if they lie alike and densely.
std::optional<Type> elementwise_type(const std::vector<const Type*>& operands, const Shape& shape) {
  const Type* whole = nullptr;
  bool in_order = true;
  bool alike = true;
  for (const Type* operand : operands) {
    if (operand->shape != shape) {
      if (!fills_memory_in_order(*operand)) return std::nullopt;
      continue;
    }
    if (whole != nullptr) alike = alike && whole->strides == operand->strides;
    if (whole == nullptr) whole = operand;
    in_order = in_order && fills_memory_in_order(*operand);
  }
  if (whole == nullptr || (!in_order && !(alike && is_dense(*whole)))) return std::nullopt;
  Type type = contiguous_type(whole->dtype, shape);
  if (!in_order) type.strides = whole->strides;
  return type;
}

}  // namespace

bool Word::matches(const OpInfo* info) const {
  return std::ranges::find(infos, info) != infos.end();
}

const Word* find_word(std::string_view name) {
  const std::vector<Word>& words = all_words();
  const auto found = std::ranges::find(words, name, &Word::name);
  return found == words.end() ? nullptr : &*found;
}

std::string_view closest_word(std::string_view name) {
  return std::ranges::min_element(all_words(), {},
                                  [&](const Word& word) { return edit_distance(word.name, name); })
      ->name;
}

std::vector<const Word*> words_of(const OpInfo* info) {
  std::vector<const Word*> found;
  for (const Word& word : all_words()) {
    if (word.matches(info)) found.push_back(&word);
  }
  return found;
}

std::optional<Type> result_type(const Word& word, const Call& call,
                                const std::vector<const Type*>& operands, const Shape& shape) {
  const DType dtype = operands.front()->dtype;
  switch (word.layout) {
    case Layout::contiguous:
      return contiguous_type(dtype, shape);
    case Layout::elementwise:
      return elementwise_type(operands, shape);
    case Layout::ordered:
    case Layout::packed: {
      const std::size_t orderly = word.layout == Layout::packed ? 4 : 3;
      const bool known = std::ranges::all_of(operands, [&](const Type* type) {
        return type->shape.size() < orderly || fills_memory_in_order(*type);
      });
      return known ? std::optional(contiguous_type(dtype, shape)) : std::nullopt;
    }
    case Layout::view: {
      const std::variant<Type, std::string> derived = derive_view(call, *operands.front());
      const auto* type = std::get_if<Type>(&derived);
      if (type == nullptr || type->shape != shape) return std::nullopt;
      return *type;
    }
  }
  return std::nullopt;
}

}  // namespace magis
