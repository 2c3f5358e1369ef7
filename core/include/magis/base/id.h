// Typed indices and the dense maps keyed by them. Bare integers never name an operator, a value or
// a tensor.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace magis {

template <class Tag>
struct Id {
  int32_t index = -1;

  constexpr Id() = default;
  constexpr explicit Id(int32_t i) : index(i) {}
  constexpr explicit Id(std::size_t i) : index(static_cast<int32_t>(i)) {}
  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using OpId = Id<struct OpTag>;          // a kernel operator of a Graph
using ValueId = Id<struct ValueTag>;    // an input, an operator's result, or a view
using TensorId = Id<struct TensorTag>;  // a value that owns its storage
using EdgeId = Id<struct EdgeTag>;      // one (tensor, consumer) pair
using SiteId = Id<struct SiteTag>;      // a module path and source line
using LoopId = Id<struct LoopTag>;      // a loop of a Graph: an enabled fission region

// Dense map from ids 0..n-1 to T.
template <class I, class T>
class IdMap {
 public:
  IdMap() = default;
  explicit IdMap(std::size_t n, T value = T()) : data_(n, value) {}

  decltype(auto) operator[](I id) { return data_[static_cast<std::size_t>(id.index)]; }
  decltype(auto) operator[](I id) const { return data_[static_cast<std::size_t>(id.index)]; }
  I push_back(T value) {
    data_.push_back(std::move(value));
    return I(data_.size() - 1);
  }
  // Forgets the last ones, so that `n` remain.
  void shrink(std::size_t n) {
    data_.erase(data_.begin() + static_cast<std::ptrdiff_t>(n), data_.end());
  }
  std::size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  auto begin() { return data_.begin(); }
  auto end() { return data_.end(); }
  auto begin() const { return data_.begin(); }
  auto end() const { return data_.end(); }
  bool operator==(const IdMap&) const = default;

 private:
  std::vector<T> data_;
};

// Rows of unequal length, stored one after another.
template <class T>
class Rows {
 public:
  std::span<const T> operator[](std::size_t row) const {
    return {items_.data() + first_[row], items_.data() + first_[row + 1]};
  }
  std::size_t first(std::size_t row) const { return static_cast<std::size_t>(first_[row]); }
  std::size_t row_count() const { return first_.size() - 1; }
  const std::vector<T>& items() const { return items_; }
  // Appends to the last row, which end_row() closes.
  void push_back(T item) { items_.push_back(std::move(item)); }
  void end_row() { first_.push_back(static_cast<int32_t>(items_.size())); }
  // Row r gets the items whose row_of is r, in their order.
  template <class RowOf>
  static Rows group(std::size_t row_count, const std::vector<T>& items, RowOf&& row_of) {
    Rows rows;
    rows.first_.assign(row_count + 1, 0);
    for (const T& item : items) ++rows.first_[row_of(item) + 1];
    for (std::size_t r = 0; r < row_count; ++r) rows.first_[r + 1] += rows.first_[r];
    rows.items_.resize(items.size());
    std::vector<int32_t> next(rows.first_.begin(), rows.first_.end() - 1);
    for (const T& item : items) rows.items_[static_cast<std::size_t>(next[row_of(item)]++)] = item;
    return rows;
  }

 private:
  std::vector<int32_t> first_{0};
  std::vector<T> items_;
};

}  // namespace magis

template <class Tag>
struct std::hash<magis::Id<Tag>> {
  std::size_t operator()(magis::Id<Tag> id) const noexcept {
    return std::hash<int32_t>()(id.index);
  }
};
