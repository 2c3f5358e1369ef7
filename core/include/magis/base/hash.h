// Our own hashing: the same on every platform and standard library.
#pragma once

#include <cstdint>
#include <string_view>

namespace magis {

// A bijection on 64 bits with good avalanche (splitmix64's finalizer).
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Order matters: combine(combine(h, a), b) differs from combine(combine(h, b), a).
constexpr uint64_t combine(uint64_t hash, uint64_t item) { return mix64(hash * 31 + item); }

constexpr uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(hash);
}

}  // namespace magis
