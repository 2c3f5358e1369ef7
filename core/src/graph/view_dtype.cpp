// Views that read the same bytes as another dtype.
#include <optional>

#include "graph/view_rules.h"
#include "magis/graph/builder.h"

namespace magis::view_rules {
namespace {

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
  const std::optional<DType> dtype = dtype_of_torch_word(symbol->word);
  if (!dtype) throw NoView{"torch." + symbol->word + " is not a dtype"};
  rescale(type, element_size(type.dtype), element_size(*dtype));
  type.dtype = *dtype;
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
