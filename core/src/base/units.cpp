#include "magis/base/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace magis {

std::string format_bytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double amount = std::abs(static_cast<double>(bytes));
  if (amount < 1024) return std::to_string(bytes) + " B";
  std::size_t unit = 0;
  amount /= 1024;
  // 1023.995 would be rounded up to "1024.00" below.
  while (amount >= 1023.995 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s%.2f %s", bytes < 0 ? "-" : "", amount, kUnits[unit]);
  return text.data();
}

}  // namespace magis
