#include "support/nasnet.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "support/random.h"

namespace magis::test {
namespace {

using Kind = MatrixNetwork::Kind;
using Item = MatrixNetwork::Item;

class Forward {
 public:
  Forward(uint64_t seed, const NasnetSize& size) : size_(size), random_(seed) {}

  MatrixNetwork build() {
    const int image = net_.add_source(Kind::input, size_.pixels, 16);
    int before = convolve(image, size_.channels);
    int last = convolve(net_.add(Kind::relu, {before}), size_.channels);
    for (int c = 0; c < size_.cells; ++c) before = std::exchange(last, add_cell(before, last));
    net_.outputs = {convolve(last, 16)};
    return std::move(net_);
  }

 private:
  int convolve(int x, int64_t channels) {
    const int w = net_.add_source(Kind::weight, net_.item(x).columns, channels);
    return net_.add(Kind::mm, {x, w});
  }

  // One of the operations that a block may apply.
  int apply_any(int x) {
    switch (random_.below(5)) {
      case 0:  // identity
        return x;
      case 1:
        return convolve(x, size_.channels);
      case 2:
        return net_.add(Kind::relu, {x});
      default: {  // separable, often with a wider middle
        const int64_t middle = size_.channels * (1 + static_cast<int64_t>(random_.below(4)));
        const int wide = convolve(net_.add(Kind::relu, {x}), middle);
        return convolve(net_.add(Kind::relu, {wide}), size_.channels);
      }
    }
  }

  int add_cell(int before, int last) {
    std::vector<int> states = {before, last};
    std::vector<char> read = {1, 1};
    for (int b = 0; b < size_.blocks; ++b) {
      int halves[2];
      for (int& half : halves) {
        const std::size_t chosen = random_.below(states.size());
        read[chosen] = 1;
        half = apply_any(states[chosen]);
      }
      states.push_back(net_.add(Kind::add, {halves[0], halves[1]}));
      read.push_back(0);
    }
    std::vector<int> unread;
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (!read[s]) unread.push_back(states[s]);
    }
    const int joined = unread.size() == 1 ? unread[0] : net_.add(Kind::cat, unread, 1);
    return convolve(net_.add(Kind::relu, {joined}), size_.channels);
  }

  const NasnetSize& size_;
  Random random_;
  MatrixNetwork net_;
};

// Appends the loss and the gradients of all weights.
class Backward {
 public:
  explicit Backward(MatrixNetwork net) : net_(std::move(net)) {}

  MatrixNetwork build() {
    const int out = net_.outputs[0];
    const std::vector<Item> forward = net_.items;
    net_.outputs = {net_.add(Kind::sum, {net_.add(Kind::square, {out})})};
    gradients_[out] = net_.add(Kind::scale, {out});
    for (auto item = forward.rbegin(); item != forward.rend(); ++item) {
      const auto found = gradients_.find(item->id);
      if (found != gradients_.end()) pass_on(*item, found->second);
    }
    return std::move(net_);
  }

 private:
  void pass_on(const Item& item, int gradient) {
    switch (item.kind) {
      case Kind::mm:
        if (net_.item(item.operands[0]).kind != Kind::input) {
          const int w = net_.add(Kind::permute, {item.operands[1]});
          accumulate(item.operands[0], net_.add(Kind::mm, {gradient, w}));
        }
        accumulate(item.operands[1],
                   net_.add(Kind::mm, {net_.add(Kind::permute, {item.operands[0]}), gradient}));
        break;
      case Kind::add:
        for (const int operand : item.operands) accumulate(operand, gradient);
        break;
      case Kind::relu:
        accumulate(item.operands[0], net_.add(Kind::threshold_backward, {gradient, item.id}));
        break;
      case Kind::cat: {
        int64_t begin = 0;
        for (const int operand : item.operands) {
          const int64_t end = begin + net_.item(operand).columns;
          accumulate(operand, net_.add(Kind::slice, {gradient}, 1, begin, end));
          begin = end;
        }
        break;
      }
      case Kind::weight:
        net_.outputs.push_back(gradient);
        break;
      default:
        break;
    }
  }

  void accumulate(int id, int gradient) {
    const auto [entry, first] = gradients_.emplace(id, gradient);
    if (!first) entry->second = net_.add(Kind::add, {entry->second, gradient});
  }

  MatrixNetwork net_;
  std::map<int, int> gradients_;  // by item
};

}  // namespace

MatrixNetwork make_nasnet(uint64_t seed, const NasnetSize& size) {
  MatrixNetwork net = Forward(seed, size).build();
  if (size.training) net = Backward(std::move(net)).build();
  net.put_in_order();
  return net;
}

}  // namespace magis::test
