#include "transform/part_values.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/loops.h"
#include "magis/base/error.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

bool follows_part(const PartValue& value) {
  return std::ranges::any_of(value.dims, [](const auto& dim) { return dim.has_value(); });
}

// Whether dimension `a`, which would be inside dimension `b`, belongs outside it: positive if it
// does, negative if they stand well, 0 if their strides say nothing, as strides of 0 never do.
int misplaced(const Type& type, std::size_t a, std::size_t b) {
  const int64_t left = type.strides[a];
  const int64_t right = type.strides[b];
  if (left == 0 || right == 0) return 0;
  if (left != right) return left < right ? -1 : 1;
  return type.shape[a] > type.shape[b] ? 1 : 0;
}

// Dense strides for `shape`, whose dimensions are given from the inside out.
Type dense_in_order(DType dtype, Shape shape, const std::vector<std::size_t>& inner_first) {
  Type type{.dtype = dtype, .shape = std::move(shape), .strides = Strides(inner_first.size())};
  int64_t stride = 1;
  for (const std::size_t d : inner_first) {
    type.strides[d] = stride;
    stride *= std::max<int64_t>(type.shape[d], 1);
  }
  type.storage = minimal_storage(type);
  return type;
}

// Replaces the lengths in a list argument where the view's dimensions follow a part.
void rescale(Arg& sizes, const std::vector<std::optional<PartLength>>& dims) {
  auto& list = std::get<ArgList>(sizes.value);
  for (std::size_t d = 0; d < std::min(list.size(), dims.size()); ++d) {
    if (dims[d]) list[d] = {*dims[d]};
  }
}

// Squeezes only what has length 1 in the source: a part of length 1 is not squeezed. Returns
// whether anything is left to do.
bool keep_to_source(Call& call, const Type& base) {
  const auto rank = static_cast<int64_t>(base.shape.size());
  const auto is_one = [&](const Arg& arg) {
    const int64_t dim = integer_value(arg).value_or(0);
    const int64_t index = dim < 0 ? dim + rank : dim;
    return index < 0 || index >= rank || base.shape[static_cast<std::size_t>(index)] == 1;
  };
  if (call.info->name == "aten.squeeze.dim") return is_one(call.args.at(1));
  if (call.info->name != "aten.squeeze.dims") return true;
  std::erase_if(std::get<ArgList>(call.args.at(1).value),
                [&](const Arg& arg) { return !is_one(arg); });
  return true;
}

}  // namespace

std::optional<PartLength> PartValues::length_of(OpId op, const DimAxis& dim,
                                                RegionIndex region) const {
  if (dim.axis < 0) return std::nullopt;
  for (; region != kOutside; region = tree_[region].parent) {
    const Label& label = tree_[region].labels[op];
    if (label.axis == dim.axis) return length(dim.step * label.step, region);
  }
  return std::nullopt;
}

const PartValue& PartValues::tensor(ValueId value, RegionIndex home) const {
  const auto found = tensors_.find({value, home});
  MAGIS_CHECK(found != tensors_.end(), "%" << source_.value(value).name << " is not made yet");
  return found->second;
}

std::string PartValues::unused(const std::string& name) const {
  std::string free = name;
  for (int n = 2; builder_.find(free).valid(); ++n) free = name + "_" + std::to_string(n);
  return free;
}

Type PartValues::dense_type(const Type& like, Shape shape, const std::string& name) {
  if (!is_dense(like)) {
    throw NoFission{"%" + name + " : " + to_text(like) + " has holes or overlaps itself"};
  }
  return in_stride_order(like, std::move(shape));
}

Type PartValues::in_stride_order(const Type& like, Shape shape) {
  std::vector<std::size_t> inner_first(shape.size());
  std::iota(inner_first.begin(), inner_first.end(), std::size_t{0});
  std::ranges::stable_sort(inner_first, [&](std::size_t a, std::size_t b) {
    return like.strides[a] != like.strides[b] ? like.strides[a] < like.strides[b] : a > b;
  });
  return dense_in_order(like.dtype, std::move(shape), inner_first);
}

// PyTorch's empty_like sorts by insertion, from the innermost dimension on.
Type PartValues::preserved(const Type& like) {
  if (is_dense(like)) {
    Type same{.dtype = like.dtype, .shape = like.shape, .strides = like.strides};
    same.storage = minimal_storage(same);
    return same;
  }
  std::vector<std::size_t> inner_first(like.shape.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), std::size_t{0});
  for (std::size_t i = 1; i < inner_first.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t other = i; other-- > 0;) {
      const int order = misplaced(like, inner_first[other], inner_first[moving]);
      if (order < 0) break;
      if (order == 0) continue;
      std::swap(inner_first[other], inner_first[moving]);
      moving = other;
    }
  }
  return dense_in_order(like.dtype, like.shape, inner_first);
}

Shape PartValues::part_shape(Shape shape, const std::vector<std::optional<PartLength>>& dims) {
  for (std::size_t d = 0; d < std::min(shape.size(), dims.size()); ++d) {
    if (dims[d]) shape[d] = dims[d]->value;
  }
  return shape;
}

ValueId PartValues::read(ValueId value, OpId op, const std::vector<DimAxis>& dims,
                         RegionIndex here) {
  const Value& info = source_.value(value);
  if (!info.tensor.valid()) return tensor(value, kOutside).id;  // a scalar
  const OpId producer = source_.tensor(info.tensor).producer;
  const RegionIndex home = producer.valid() ? tree_.common(tree_.around(producer), here) : kOutside;
  PartValue read = in_body(value, home, here);
  const std::vector<RegionIndex> chain = tree_.chain(here);
  const auto inside = std::ranges::find(chain, home);
  const auto first_outside_value = inside == chain.end() ? chain.begin() : inside + 1;
  for (std::size_t d = 0; d < info.type.shape.size(); ++d) {
    const DimAxis dim = d < dims.size() ? dims[d] : DimAxis{};
    for (auto region = chain.begin(); region != chain.end(); ++region) {
      const Label& label = tree_[*region].labels[op];
      if (dim.axis < 0 || label.axis != dim.axis) continue;
      // Inside its own body the value is a part already, unless it is the same for all parts.
      if (region < first_outside_value && read.dims[d].has_value()) continue;
      read = slice(read, d, dim.step * label.step, *region);
    }
    if (read.dims[d] != length_of(op, dim, here)) {
      throw NoFission{"%" + source_.name(op) + " needs %" + info.name +
                      " in another part than it is there"};
    }
  }
  return read.id;
}

ValueId PartValues::read_contiguous(ValueId value, OpId op, const std::vector<DimAxis>& dims,
                                    RegionIndex here) {
  const ValueId part = read(value, op, dims, here);
  return fills_memory_in_order(builder_.value(part).type) ? part : contiguous_copy(part, here);
}

PartValue PartValues::in_body(ValueId value, RegionIndex home, RegionIndex here) {
  if (source_.value(value).kind != ValueKind::view) return tensor(value, home);
  const auto found = views_.find({value, here});
  if (found != views_.end()) return found->second;
  PartValue view = rebuilt_view(value, home, here);
  views_[{value, here}] = view;
  return view;
}

PartValue PartValues::rebuilt_view(ValueId value, RegionIndex home, RegionIndex here) {
  const Value& view = source_.value(value);
  PartValue base = in_body(view.base, home, here);
  PartValue result;
  result.dims.resize(view.type.shape.size());
  Call call = source_.view(view);
  if (follows_part(base)) {
    const std::vector<ViewAxis> links = view_axes(source_, view);
    for (std::size_t d = 0; d < base.dims.size(); ++d) {
      if (!base.dims[d]) continue;
      const auto link = std::ranges::find(links, static_cast<int>(d), &ViewAxis::base_dim);
      if (link == links.end() || base.dims[d]->coefficient % link->base_step != 0) {
        throw NoFission{"%" + view.name + " = " + call.info->name + " cannot be a view of a part"};
      }
      const int64_t coefficient = base.dims[d]->coefficient / link->base_step * link->view_step;
      result.dims[static_cast<std::size_t>(link->view_dim)] =
          builder_.part_length(coefficient, base.dims[d]->loops);
    }
    if (!keep_to_source(call, source_.value(view.base).type)) return base;
    if (call.info->name == "aten.view" || call.info->name == "aten.expand") {
      rescale(call.args.at(1), result.dims);
    }
  }
  for (int attempt = 0;; ++attempt) {
    call.args[0] = {base.id};
    const auto derived = derive_view(call, builder_.value(base.id).type);
    if (const Type* type = std::get_if<Type>(&derived)) {
      result.id = builder_.add_view(unused(view.name), std::move(call), *type);
      return result;
    }
    // Strides that a whole tensor's view does not mind can forbid it on a part.
    if (attempt > 0 || call.info->name != "aten.view") {
      throw NoFission{"%" + view.name + ": " + std::get<std::string>(derived)};
    }
    base.id = contiguous_copy(base.id, here);
  }
}

ValueId PartValues::contiguous_copy(ValueId base, RegionIndex here) {
  MAGIS_CHECK(here != kOutside, "outside regions tensors are what they were");
  ValueId& copy = copies_[{base, here}];
  if (copy.valid()) return copy;
  const Value& value = builder_.value(base);
  Operator clone;
  clone.info = &op_info("aten.clone");
  clone.args = {{base}};
  clone.kwargs = {{"memory_format", {Symbol{"contiguous_format"}}}};
  Type type = contiguous_type(value.type.dtype, value.type.shape);
  const std::string name = unused(value.name + "_contiguous");
  return copy = builder_.add_operator(std::move(clone), {name}, {std::move(type)})[0];
}

PartValue PartValues::slice(const PartValue& whole, std::size_t dim, int64_t coefficient,
                            RegionIndex region) {
  const auto key = std::tuple(whole.id, dim, coefficient, loop(region));
  const auto found = slices_.find(key);
  if (found != slices_.end()) return found->second;
  const PartLength part = length(coefficient, region);
  Call call;
  call.info = &op_info(kPart);
  call.args = {{whole.id}, {static_cast<int64_t>(dim)}, {part}};
  const auto derived = derive_view(call, builder_.value(whole.id).type);
  MAGIS_CHECK(std::holds_alternative<Type>(derived), std::get<std::string>(derived));
  PartValue result{builder_.add_view(unused(builder_.value(whole.id).name + "_slice"),
                                     std::move(call), std::get<Type>(derived)),
                   whole.dims};
  result.dims[dim] = part;
  slices_[key] = result;
  return result;
}

}  // namespace magis
