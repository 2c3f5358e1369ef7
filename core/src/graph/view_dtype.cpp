// Views that read the same bytes as another dtype.
#include <array>
#include <utility>

#include "graph/view_rules.h"
#include "magis/graph/builder.h"

namespace magis::view_rules {
namespace {

DType dtype_of_symbol(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, DType>, 17> kSymbols = {{
      {"float64", DType::f64},
      {"float32", DType::f32},
      {"float16", DType::f16},
      {"bfloat16", DType::bf16},
      {"int64", DType::i64},
      {"int32", DType::i32},
      {"int16", DType::i16},
      {"int8", DType::i8},
      {"uint8", DType::u8},
      {"uint16", DType::u16},
      {"uint32", DType::u32},
      {"uint64", DType::u64},
      {"bool", DType::boolean},
      {"complex64", DType::c64},
      {"complex128", DType::c128},
      {"float8_e4m3fn", DType::f8e4m3fn},
      {"float8_e5m2", DType::f8e5m2},
  }};
  for (const auto& [symbol, dtype] : kSymbols) {
    if (symbol == word) return dtype;
  }
  throw NoView{"torch." + std::string(word) + " is not a dtype"};
}

// The last dimension takes in, or is divided by, the ratio of the element sizes; all other
// distances are rescaled.
void rescale(Type& type, Bytes old_size, Bytes new_size) {
  if (old_size == new_size) return;
  if (type.shape.empty() || type.strides.back() != 1) {
    throw NoView{"another element size needs a last dimension of stride 1"};
  }
  const auto scale = [&](int64_t& number) {
    if (number * old_size % new_size != 0) {
      throw NoView{to_text(type) + " does not divide into elements of " + std::to_string(new_size) +
                   " bytes"};
    }
    number = number * old_size / new_size;
  };
  const Strides before = type.strides;
  scale(type.shape.back());
  scale(type.offset);
  for (int64_t& stride : type.strides) {
    if (&stride != &type.strides.back()) scale(stride);
  }
}

}  // namespace

Type derive_dtype(const Call& call, Type type) {
  const Arg* arg = find_argument(call, 1, "dtype");
  const auto* symbol = arg == nullptr ? nullptr : std::get_if<Symbol>(&arg->value);
  if (symbol == nullptr) throw NoView{"aten.view.dtype needs a dtype, for instance torch.int32"};
  const DType dtype = dtype_of_symbol(symbol->word);
  rescale(type, element_size(type.dtype), element_size(dtype));
  type.dtype = dtype;
  return type;
}

Type derive_view_as_real(Type type) {
  if (type.dtype != DType::c64 && type.dtype != DType::c128) {
    throw NoView{"aten.view_as_real needs a complex tensor, not " + to_text(type)};
  }
  type.dtype = type.dtype == DType::c64 ? DType::f32 : DType::f64;
  type.offset *= 2;
  for (int64_t& stride : type.strides) stride *= 2;
  type.shape.push_back(2);
  type.strides.push_back(1);
  return type;
}

Type derive_view_as_complex(Type type) {
  const bool is_pair = !type.shape.empty() && type.shape.back() == 2 && type.strides.back() == 1;
  if (!is_pair || (type.dtype != DType::f32 && type.dtype != DType::f64)) {
    throw NoView{"aten.view_as_complex needs pairs of f32 or f64 in the last dimension, not " +
                 to_text(type)};
  }
  type.dtype = type.dtype == DType::f32 ? DType::c64 : DType::c128;
  type.shape.pop_back();
  type.strides.pop_back();
  const auto halve = [&](int64_t& number) {
    if (number % 2 != 0) throw NoView{"odd strides or offset do not allow aten.view_as_complex"};
    number /= 2;
  };
  halve(type.offset);
  for (int64_t& stride : type.strides) halve(stride);
  return type;
}

}  // namespace magis::view_rules
