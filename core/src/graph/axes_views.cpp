// Which axes a view shares with its base.
#include <algorithm>
#include <numeric>

#include "graph/view_rules.h"
#include "magis/graph/axes.h"

namespace magis {

using namespace view_rules;

namespace {

using Links = std::vector<ViewAxis>;

void link(Links& links, std::size_t base_dim, std::size_t view_dim) {
  links.push_back({static_cast<int>(base_dim), static_cast<int>(view_dim), 1, 1});
}

// The first dimensions of two groups that hold the same elements in row-major order. `base_rest`
// and `view_rest` are the elements behind one element of them.
void link_leading(Links& links, std::size_t base_dim, int64_t base_rest, std::size_t view_dim,
                  int64_t view_rest, int64_t elements) {
  const int64_t unit = std::lcm(base_rest, view_rest);
  if (unit == elements) return;  // only whole groups correspond
  links.push_back(
      {static_cast<int>(base_dim), static_cast<int>(view_dim), unit / base_rest, unit / view_rest});
}

// Cuts both shapes into the smallest groups that hold equally many elements; dimensions of length 1
// belong nowhere.
Links reshaping_axes(const Shape& base, const Shape& view) {
  Links links;
  const auto skip_ones = [](const Shape& shape, std::size_t& d) {
    while (d < shape.size() && shape[d] == 1) ++d;
  };
  std::size_t b = 0;
  std::size_t v = 0;
  for (;;) {
    skip_ones(base, b);
    skip_ones(view, v);
    if (b == base.size() || v == view.size()) return links;
    const std::size_t base_first = b;
    const std::size_t view_first = v;
    int64_t base_elements = base[b++];
    int64_t view_elements = view[v++];
    while (base_elements != view_elements) {
      if (base_elements < view_elements && b < base.size()) {
        base_elements *= base[b++];
      } else if (view_elements < base_elements && v < view.size()) {
        view_elements *= view[v++];
      } else {
        return links;
      }
    }
    link_leading(links, base_first, base_elements / base[base_first], view_first,
                 view_elements / view[view_first], base_elements);
  }
}

Links expand_axes(const Shape& base, const Shape& view) {
  Links links;
  const std::size_t added = view.size() - base.size();
  for (std::size_t d = 0; d < base.size(); ++d) {
    if (base[d] == view[added + d]) link(links, d, added + d);
  }
  return links;
}

Links permute_axes(const Call& call, std::size_t rank) {
  Links links;
  const std::vector<int64_t> order = integers(call, 1, "dims");
  for (std::size_t d = 0; d < order.size() && d < rank; ++d) {
    link(links, dimension(order[d], rank), d);
  }
  return links;
}

// Dimensions of the base but for those left out, one after the other.
Links remaining_axes(std::size_t rank, const std::vector<bool>& left_out) {
  Links links;
  std::size_t view_dim = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!left_out[d]) link(links, d, view_dim++);
  }
  return links;
}

Links unsqueeze_axes(const Call& call, std::size_t rank) {
  const std::size_t added = dimension(integer(call, 1, "dim"), rank + 1);
  Links links;
  for (std::size_t d = 0; d < rank; ++d) link(links, d, d < added ? d : d + 1);
  return links;
}

Links squeeze_axes(const std::vector<int64_t>& numbers, const Shape& base) {
  std::vector<bool> left_out(std::max<std::size_t>(base.size(), 1));
  for (int64_t number : numbers) {
    const std::size_t d = dimension(number, base.size());
    left_out[d] = d < base.size() && base[d] == 1;
  }
  return remaining_axes(base.size(), left_out);
}

// All dimensions but one, which is linked too where the view takes all of it.
Links axes_beside(std::size_t dim, bool whole, std::size_t rank) {
  Links links;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != dim || whole) link(links, d, d);
  }
  return links;
}

Links axes_without(const std::vector<std::size_t>& dims, std::size_t rank) {
  std::vector<bool> left_out(std::max<std::size_t>(rank, 1));
  for (std::size_t d : dims) left_out[d] = true;
  return remaining_axes(rank, left_out);
}

Links derive_axes(const Call& call, const Type& base, const Type& view) {
  const std::string& name = call.info->name;
  const std::size_t rank = base.shape.size();
  if (element_count(base.shape) == 0) return {};
  if (name == "aten.view") return reshaping_axes(base.shape, view.shape);
  if (name == "aten.expand") return expand_axes(base.shape, view.shape);
  if (name == "aten.permute") return permute_axes(call, rank);
  if (name == "aten.unsqueeze") return unsqueeze_axes(call, rank);
  if (name == "aten.squeeze.dim") return squeeze_axes({integer(call, 1, "dim")}, base.shape);
  if (name == "aten.squeeze.dims") return squeeze_axes(integers(call, 1, "dim"), base.shape);
  if (name == "aten.slice.Tensor") {
    const std::size_t d = dimension(integer(call, 1, "dim", 0), rank);
    return axes_beside(d, view.shape[d] == base.shape[d], rank);
  }
  if (name == "aten.select.int") {
    return axes_without({dimension(integer(call, 1, "dim"), rank)}, rank);
  }
  if (name == "aten.diagonal") {
    return axes_without({dimension(integer(call, 2, "dim1", 0), rank),
                         dimension(integer(call, 3, "dim2", 1), rank)},
                        rank);
  }
  if (name == "aten.unfold") {
    return axes_beside(dimension(integer(call, 1, "dimension"), rank), false, rank);
  }
  if (name == "aten.view.dtype" || name == "aten.view_as_real" || name == "aten.view_as_complex") {
    Links links;
    for (std::size_t d = 0; d < rank && d < view.shape.size(); ++d) {
      if (base.shape[d] == view.shape[d]) link(links, d, d);
    }
    // The last dimension counts elements of another size.
    const bool same_elements = element_size(base.dtype) == element_size(view.dtype);
    const bool last_changes = name == "aten.view.dtype" && !same_elements;
    if (last_changes && !links.empty() && links.back().base_dim + 1 == static_cast<int>(rank)) {
      links.pop_back();
    }
    return links;
  }
  return {};  // aten.as_strided names places in the storage, which parts do not share
}

}  // namespace

std::vector<ViewAxis> view_axes(const Graph& graph, const Value& view) {
  try {
    return derive_axes(graph.view(view), graph.value(view.base).type, view.type);
  } catch (const NoView&) {
    return {};
  }
}

}  // namespace magis
