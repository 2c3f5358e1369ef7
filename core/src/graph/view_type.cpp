#include "magis/graph/view_type.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/view_rules.h"
#include "magis/base/error.h"

namespace magis {

using namespace view_rules;

namespace {

// ---- one rule per view
// Replaces a length of -1 by what the number of elements leaves for it.
void infer_length(Shape& shape, int64_t count) {
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown == shape.end()) return;
  *unknown = 1;
  const int64_t others = count_elements(shape);
  *unknown = others == 0 ? 0 : count / others;
}

// Strides that read a tensor without elements, or nothing, as `shape`.
Strides strides_without_elements(const Type& base, const Shape& shape) {
  return base.shape == shape ? base.strides : contiguous_strides(shape);
}

// The base's dimensions fall into runs that are contiguous in themselves; each run must be covered
// by a run of new dimensions. Goes from the last dimension to the first. Nothing if some run is not
// covered exactly.
std::optional<Strides> regroup(const Type& base, const Shape& shape) {
  Strides strides(shape.size());
  std::size_t next = shape.size();  // new dimensions from here on are done
  int64_t run_length = 1;
  int64_t run_stride = base.strides.empty() ? 1 : base.strides.back();
  for (std::size_t d = base.shape.size(); d-- > 0;) {
    run_length *= base.shape[d];
    const bool run_goes_on =
        d > 0 && (base.shape[d - 1] == 1 || base.strides[d - 1] == run_length * run_stride);
    if (run_goes_on) continue;
    int64_t covered = 1;
    while (next > 0 && (covered < run_length || shape[next - 1] == 1)) {
      --next;
      strides[next] = covered * run_stride;
      covered *= shape[next];
    }
    if (covered != run_length) return std::nullopt;
    if (d > 0) run_stride = base.strides[d - 1];
    run_length = 1;
  }
  while (next > 0 && base.shape.empty()) strides[--next] = 1;
  return next == 0 ? std::optional(strides) : std::nullopt;
}

Type derive_reshaping(const Call& call, Type type) {
  Shape shape = integers(call, 1, "size");
  const int64_t count = element_count(type.shape);
  infer_length(shape, count);
  if (count_elements(shape) != count) {
    throw NoView{list_text(shape) + " and " + to_text(type) + " differ in the number of elements"};
  }
  if (count == 0) {
    type.strides = strides_without_elements(type, shape);
  } else {
    std::optional<Strides> strides = regroup(type, shape);
    if (!strides) {
      throw NoView{"the strides of " + to_text(type) + " do not allow the view " +
                   list_text(shape)};
    }
    type.strides = std::move(*strides);
  }
  type.shape = std::move(shape);
  return type;
}

Type derive_expand(const Call& call, Type type) {
  Shape shape = integers(call, 1, "size");
  if (shape.size() < type.shape.size()) {
    throw NoView{to_text(type) + " has more dimensions than " + list_text(shape)};
  }
  const std::size_t added = shape.size() - type.shape.size();
  Strides strides(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const bool is_new = i < added;
    const int64_t length = is_new ? 1 : type.shape[i - added];
    strides[i] = !is_new                 ? type.strides[i - added]
                 : i + 1 == shape.size() ? 1
                                         : times(shape[i + 1], strides[i + 1]);
    if (type.shape.empty()) strides[i] = 0;  // of a scalar, also along axes of length 1
    if (shape[i] == -1) shape[i] = length;
    if (shape[i] == length) continue;
    if (length != 1) throw NoView{to_text(type) + " cannot be expanded to " + list_text(shape)};
    strides[i] = 0;
  }
  type.shape = std::move(shape);
  type.strides = std::move(strides);
  return type;
}

Type derive_permute(const Call& call, Type type) {
  const std::vector<int64_t> order = integers(call, 1, "dims");
  std::set<std::size_t> seen;
  Shape shape;
  Strides strides;
  for (int64_t number : order) {
    const std::size_t d = dimension(number, type.shape.size());
    seen.insert(d);
    if (d >= type.shape.size()) break;  // a scalar has no dimension
    shape.push_back(type.shape[d]);
    strides.push_back(type.strides[d]);
  }
  if (seen.size() != type.shape.size() || order.size() != type.shape.size()) {
    throw NoView{list_text(order) + " is not an order of the dimensions of " + to_text(type)};
  }
  type.shape = std::move(shape);
  type.strides = std::move(strides);
  return type;
}

Type derive_unsqueeze(const Call& call, Type type) {
  const std::size_t rank = type.shape.size();
  const std::size_t d = dimension(integer(call, 1, "dim"), rank + 1);
  const int64_t stride = d == rank ? 1 : times(type.shape[d], type.strides[d]);
  const auto at = static_cast<std::ptrdiff_t>(d);
  type.shape.insert(type.shape.begin() + at, 1);
  type.strides.insert(type.strides.begin() + at, stride);
  return type;
}

Type derive_squeeze(const std::vector<int64_t>& numbers, Type type) {
  std::vector<bool> chosen(std::max<std::size_t>(type.shape.size(), 1));
  for (int64_t number : numbers) chosen[dimension(number, type.shape.size())] = true;
  Shape shape;
  Strides strides;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    if (chosen[d] && type.shape[d] == 1) continue;
    shape.push_back(type.shape[d]);
    strides.push_back(type.strides[d]);
  }
  type.shape = std::move(shape);
  type.strides = std::move(strides);
  return type;
}

void require_dimensions(const Call& call, const Type& type) {
  if (type.shape.empty())
    throw NoView{call.info->name + " needs a dimension, " + to_text(type) + " has none"};
}

Type derive_slice(const Call& call, Type type) {
  require_dimensions(call, type);
  const std::size_t d = dimension(integer(call, 1, "dim", 0), type.shape.size());
  const int64_t length = type.shape[d];
  const auto clamp = [&](int64_t place) {
    return std::clamp<int64_t>(place < 0 ? place + length : place, 0, length);
  };
  const int64_t start = clamp(integer(call, 2, "start", 0));
  const int64_t end = std::max(start, clamp(integer(call, 3, "end", length)));
  const int64_t step = integer(call, 4, "step", 1);
  if (step < 1) throw NoView{"a slice's step is positive"};
  type.offset += start * type.strides[d];
  type.shape[d] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  type.strides[d] = times(type.strides[d], step);
  return type;
}

Type derive_select(const Call& call, Type type) {
  require_dimensions(call, type);
  const std::size_t d = dimension(integer(call, 1, "dim"), type.shape.size());
  const int64_t index = integer(call, 2, "index");
  if (index < -type.shape[d] || index >= type.shape[d]) {
    throw NoView{"there is no index " + std::to_string(index) + " in dimension " +
                 std::to_string(d) + " of " + to_text(type)};
  }
  type.offset += (index < 0 ? index + type.shape[d] : index) * type.strides[d];
  type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(d));
  type.strides.erase(type.strides.begin() + static_cast<std::ptrdiff_t>(d));
  return type;
}

Type derive_as_strided(const Call& call, Type type) {
  type.shape = integers(call, 1, "size");
  type.strides = integers(call, 2, "stride");
  type.offset = integer(call, 3, "storage_offset", type.offset);
  const auto is_negative = [](int64_t number) { return number < 0; };
  if (type.shape.size() != type.strides.size() || type.offset < 0 ||
      std::any_of(type.shape.begin(), type.shape.end(), is_negative) ||
      std::any_of(type.strides.begin(), type.strides.end(), is_negative)) {
    throw NoView{"aten.as_strided needs as many strides as lengths, none negative"};
  }
  return type;
}

Type derive_diagonal(const Call& call, Type type) {
  const int64_t offset = integer(call, 1, "offset", 0);
  std::size_t rows = dimension(integer(call, 2, "dim1", 0), type.shape.size());
  std::size_t columns = dimension(integer(call, 3, "dim2", 1), type.shape.size());
  if (rows == columns) throw NoView{"a diagonal has two different dimensions"};
  const int64_t length = offset >= 0 ? std::min(type.shape[rows], type.shape[columns] - offset)
                                     : std::min(type.shape[rows] + offset, type.shape[columns]);
  const int64_t stride = type.strides[rows] + type.strides[columns];
  if (length > 0) {
    type.offset += offset >= 0 ? offset * type.strides[columns] : -offset * type.strides[rows];
  }
  for (std::size_t d : {std::max(rows, columns), std::min(rows, columns)}) {
    type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(d));
    type.strides.erase(type.strides.begin() + static_cast<std::ptrdiff_t>(d));
  }
  type.shape.push_back(std::max<int64_t>(length, 0));
  type.strides.push_back(stride);
  return type;
}

Type derive_unfold(const Call& call, Type type) {
  const int64_t size = integer(call, 2, "size");
  const int64_t step = integer(call, 3, "step");
  const std::size_t d = dimension(integer(call, 1, "dimension"), type.shape.size());
  const int64_t length = type.shape.empty() ? 1 : type.shape[d];
  if (size < 0 || size > length || step < 1) {
    throw NoView{"windows of " + std::to_string(size) + " every " + std::to_string(step) +
                 " do not fit dimension " + std::to_string(d) + " of " + to_text(type)};
  }
  const int64_t stride = type.shape.empty() ? 1 : type.strides[d];
  if (!type.shape.empty()) {
    type.shape[d] = (length - size) / step + 1;
    type.strides[d] = times(stride, step);
  }
  type.shape.push_back(size);
  type.strides.push_back(stride);
  return type;
}

// magis.part(%x, dim, length): the slice of a loop's first iteration.
Type derive_part(const Call& call, Type type) {
  require_dimensions(call, type);
  const std::size_t d = dimension(integer(call, 1, "dim"), type.shape.size());
  const int64_t length = integer(call, 2, "length");
  if (length < 0 || length > type.shape[d]) {
    throw NoView{"a part of " + std::to_string(length) + " is no part of dimension " +
                 std::to_string(d) + " of " + to_text(type)};
  }
  type.shape[d] = length;
  return type;
}

Type derive(const Call& call, const Type& base) {
  const std::string& name = call.info->name;
  if (name == "aten.view") return derive_reshaping(call, base);
  if (name == "aten.expand") return derive_expand(call, base);
  if (name == "aten.permute") return derive_permute(call, base);
  if (name == "aten.unsqueeze") return derive_unsqueeze(call, base);
  if (name == "aten.squeeze.dim") return derive_squeeze({integer(call, 1, "dim")}, base);
  if (name == "aten.squeeze.dims") return derive_squeeze(integers(call, 1, "dim"), base);
  if (name == "aten.slice.Tensor") return derive_slice(call, base);
  if (name == "aten.select.int") return derive_select(call, base);
  if (name == "aten.as_strided") return derive_as_strided(call, base);
  if (name == "aten.diagonal") return derive_diagonal(call, base);
  if (name == "aten.unfold") return derive_unfold(call, base);
  if (name == "aten.view.dtype") return derive_dtype(call, base);
  if (name == "aten.view_as_real") return derive_view_as_real(base);
  if (name == "aten.view_as_complex") return derive_view_as_complex(base);
  if (name == "magis.part") return derive_part(call, base);
  MAGIS_CHECK(false, name << " has no rule");
}

}  // namespace

std::variant<Type, std::string> derive_view(const Call& call, const Type& base) {
  try {
    Type type = derive(call, base);
    if (!has_representable_size(type)) return "the view is too large";
    if (minimal_storage(type) > base.storage) {
      return to_text(type) + " reads past the end of the storage, which has " +
             std::to_string(base.storage) + " bytes";
    }
    return type;
  } catch (const NoView& no_view) {
    return no_view.reason;
  }
}

bool same_layout(const Type& a, const Type& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.storage != b.storage ||
      a.defined != b.defined) {
    return false;
  }
  if (element_count(a.shape) == 0) return true;
  if (a.offset != b.offset) return false;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

}  // namespace magis
