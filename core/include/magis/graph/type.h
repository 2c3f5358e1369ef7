// The static type of a value: dtype, shape, strides, and the extent of its storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/base/units.h"

namespace magis {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  u16,
  u32,
  u64,
  boolean,
  c64,
  c128,
  f8e4m3fn,
  f8e5m2,
};

Bytes element_size(DType dtype);
std::string_view to_text(DType dtype);                            // "f32", "bool"
std::optional<DType> parse_dtype(std::string_view text);          // inverse of to_text
std::string_view torch_word(DType dtype);                         // "float32": what torch calls it
std::optional<DType> dtype_of_torch_word(std::string_view word);  // inverse of torch_word
bool is_half(DType dtype);                                        // f16 or bf16

using Shape = std::vector<int64_t>;
using Strides = std::vector<int64_t>;  // in elements

struct Type {
  DType dtype = DType::f32;
  Shape shape = {};
  Strides strides = {};
  int64_t offset = 0;   // in elements, from the start of the storage
  Bytes storage = 0;    // bytes of the storage behind it (for a view: its base's)
  bool defined = true;  // false: the result is None (an optional gradient that was not asked for)

  bool operator==(const Type&) const = default;
};

int64_t element_count(const Shape& shape);
Strides contiguous_strides(const Shape& shape);
bool is_contiguous(const Type& type);
// The same, whatever the strides of dimensions 1 long: what PyTorch calls contiguous.
bool fills_memory_in_order(const Type& type);
// Every element has its own address and there are no holes: the tensor can be a storage of its own.
bool is_dense(const Type& type);
// Bytes of the smallest storage that holds `type` at its offset (0 if it has no elements).
Bytes minimal_storage(const Type& type);
// Offset, lengths and strides are small enough for the functions above not to overflow.
bool has_representable_size(const Type& type);
// Row-major in a storage of its own.
Type contiguous_type(DType dtype, Shape shape);
std::string to_text(const Type& type);

}  // namespace magis
