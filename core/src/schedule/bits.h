// A set of up to 64 * Words small numbers: the nodes of one piece.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace magis {

template <int Words>
class Bits {
 public:
  static constexpr int kCapacity = 64 * Words;

  // 0 .. count-1
  static Bits first(int count) {
    Bits bits;
    for (int i = 0; i < Words && count > 0; ++i, count -= 64) {
      bits.words_[word(64 * i)] = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    }
    return bits;
  }
  bool has(int i) const { return (words_[word(i)] >> (i & 63) & 1) != 0; }
  void insert(int i) { words_[word(i)] |= uint64_t{1} << (i & 63); }
  void erase(int i) { words_[word(i)] &= ~(uint64_t{1} << (i & 63)); }
  bool empty() const {
    uint64_t any = 0;
    for (const uint64_t w : words_) any |= w;
    return any == 0;
  }
  int count() const {
    int total = 0;
    for (const uint64_t w : words_) total += std::popcount(w);
    return total;
  }
  // The set is not empty.
  int lowest() const {
    int i = 0;
    while (words_[at(i)] == 0) ++i;
    return 64 * i + std::countr_zero(words_[at(i)]);
  }
  bool within(const Bits& other) const {
    uint64_t outside = 0;
    for (int i = 0; i < Words; ++i) outside |= words_[at(i)] & ~other.words_[at(i)];
    return outside == 0;
  }
  bool meets(const Bits& other) const {
    uint64_t common = 0;
    for (int i = 0; i < Words; ++i) common |= words_[at(i)] & other.words_[at(i)];
    return common != 0;
  }
  Bits& operator|=(const Bits& other) {
    for (int i = 0; i < Words; ++i) words_[at(i)] |= other.words_[at(i)];
    return *this;
  }
  bool operator==(const Bits&) const = default;

  // In increasing order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (int i = 0; i < Words; ++i) {
      for (uint64_t left = words_[at(i)]; left != 0; left &= left - 1) {
        visit(64 * i + std::countr_zero(left));
      }
    }
  }
  uint64_t hash() const {
    uint64_t mixed = 0;
    for (const uint64_t w : words_) {
      mixed = (mixed ^ w) * 0x9e3779b97f4a7c15;
      mixed ^= mixed >> 32;
    }
    return mixed;
  }

 private:
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static constexpr std::size_t word(int i) { return static_cast<std::size_t>(i) >> 6; }

  std::array<uint64_t, static_cast<std::size_t>(Words)> words_{};
};

}  // namespace magis
