// Typed indices and the dense maps keyed by them. Bare integers never name an operator, a value or a tensor.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
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

}  // namespace magis

template <class Tag>
struct std::hash<magis::Id<Tag>> {
  std::size_t operator()(magis::Id<Tag> id) const noexcept {
    return std::hash<int32_t>()(id.index);
  }
};
