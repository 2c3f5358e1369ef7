#include "transform/rules/words.h"

#include <algorithm>
#include <utility>

#include "graph/suggest.h"
#include "magis/graph/view_type.h"
#include "transform/rules/word_shapes.h"

namespace magis {
namespace {

using enum ArgKind;

void add_elementwise(std::vector<Word>& words) {
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
}

void add_products_and_views(std::vector<Word>& words) {
  const auto add = [&](Word word) { words.push_back(std::move(word)); };
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
}

const std::vector<Word>& all_words() {
  static const std::vector<Word> words = [] {
    std::vector<Word> made;
    add_elementwise(made);
    add_products_and_views(made);
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
