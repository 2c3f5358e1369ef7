// Units in the types: bytes are integers, seconds are doubles.
#pragma once

#include <cstdint>
#include <string>

namespace magis {

using Bytes = int64_t;
using Seconds = double;

constexpr Bytes operator""_KiB(unsigned long long n) { return static_cast<Bytes>(n) << 10; }
constexpr Bytes operator""_MiB(unsigned long long n) { return static_cast<Bytes>(n) << 20; }
constexpr Bytes operator""_GiB(unsigned long long n) { return static_cast<Bytes>(n) << 30; }

// "1.50 GiB", "96 B": for people, never for parsing.
std::string format_bytes(Bytes bytes);

}  // namespace magis
