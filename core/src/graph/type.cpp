#include "magis/graph/type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "magis/base/error.h"

namespace magis {
namespace {

struct DTypeFacts {
  std::string_view name;
  Bytes size;
};
// In the order of DType.
constexpr std::array<DTypeFacts, 17> kDTypes = {{{"f64", 8},
                                                 {"f32", 4},
                                                 {"f16", 2},
                                                 {"bf16", 2},
                                                 {"i64", 8},
                                                 {"i32", 4},
                                                 {"i16", 2},
                                                 {"i8", 1},
                                                 {"u8", 1},
                                                 {"u16", 2},
                                                 {"u32", 4},
                                                 {"u64", 8},
                                                 {"bool", 1},
                                                 {"c64", 8},
                                                 {"c128", 16},
                                                 {"f8e4m3fn", 1},
                                                 {"f8e5m2", 1}}};

void append_list(std::string& text, const std::vector<int64_t>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(items[i]);
  }
}

// In the order of DType.
constexpr std::array<std::string_view, 17> kTorchWords = {
    "float64", "float32",   "float16",    "bfloat16",      "int64",      "int32",
    "int16",   "int8",      "uint8",      "uint16",        "uint32",     "uint64",
    "bool",    "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"};

}  // namespace

Bytes element_size(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].size; }

std::string_view to_text(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::string_view torch_word(DType dtype) { return kTorchWords[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_of_torch_word(std::string_view word) {
  const auto found = std::find(kTorchWords.begin(), kTorchWords.end(), word);
  if (found == kTorchWords.end()) return std::nullopt;
  return static_cast<DType>(found - kTorchWords.begin());
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t length : shape) count *= length;
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_contiguous(const Type& type) { return type.strides == contiguous_strides(type.shape); }

bool fills_memory_in_order(const Type& type) {
  if (element_count(type.shape) == 0) return true;
  int64_t expected = 1;
  for (std::size_t d = type.shape.size(); d-- > 0;) {
    if (type.shape[d] != 1 && type.strides[d] != expected) return false;
    expected *= type.shape[d];
  }
  return true;
}

bool is_dense(const Type& type) {
  if (element_count(type.shape) == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, length
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.shape[i] != 1) dimensions.emplace_back(type.strides[i], type.shape[i]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t expected = 1;
  for (const auto& [stride, length] : dimensions) {
    if (stride != expected) return false;
    expected *= length;
  }
  return true;
}

Bytes minimal_storage(const Type& type) {
  if (!type.defined) return 0;
  MAGIS_CHECK(type.shape.size() == type.strides.size(),
              type.shape.size() << " dimensions, " << type.strides.size() << " strides");
  if (element_count(type.shape) == 0) return 0;
  int64_t last = type.offset;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    last += (type.shape[i] - 1) * type.strides[i];
  }
  return (last + 1) * element_size(type.dtype);
}

bool has_representable_size(const Type& type) {
  int64_t last = type.offset;
  int64_t count = 1;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    int64_t extent = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(type.shape[i], 1), type.strides[i], &extent) ||
        __builtin_add_overflow(last, extent, &last) ||
        __builtin_mul_overflow(count, std::max<int64_t>(type.shape[i], 1), &count)) {
      return false;
    }
  }
  return std::max(last, count) < (int64_t{1} << 58);
}

Type contiguous_type(DType dtype, Shape shape) {
  Type type{.dtype = dtype, .shape = std::move(shape)};
  type.strides = contiguous_strides(type.shape);
  type.storage = minimal_storage(type);
  return type;
}

std::string to_text(const Type& type) {
  if (!type.defined) return "none";
  std::string text(to_text(type.dtype));
  text += '[';
  append_list(text, type.shape);
  text += ']';
  if (!is_contiguous(type)) {
    text += '{';
    append_list(text, type.strides);
    text += '}';
  }
  if (type.offset != 0) text += "+" + std::to_string(type.offset);
  if (type.storage != minimal_storage(type)) text += "/" + std::to_string(type.storage);
  return text;
}

}  // namespace magis
