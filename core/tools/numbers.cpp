#include "numbers.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace magis {

Bytes parse_memory_limit(const std::string& text, Bytes baseline) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                                {"b", 1},
                                                {"kb", 1e3},
                                                {"mb", 1e6},
                                                {"gb", 1e9},
                                                {"tb", 1e12},
                                                {"kib", 0x1p10},
                                                {"mib", 0x1p20},
                                                {"gib", 0x1p30},
                                                {"tib", 0x1p40}}};
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit;
  for (const char c : text.substr(digits)) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  double amount = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + digits, amount);
  if (error == std::errc::result_out_of_range) {
    // More digits than a double holds, or a fraction of a byte: refused below by its size.
    error = std::errc();
    amount = text.find_first_of("123456789") < text.find('.') ? HUGE_VAL : 0;
  }
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  const bool is_share = unit == "%" && amount <= 100;
  if (error != std::errc() || end != text.data() + digits || amount <= 0 ||
      (!is_share && found == kUnits.end())) {
    throw UserError(
        "--memory-limit needs bytes with or without a unit (8GiB, 500MB, 123456) or a "
        "share of the peak in program order (40%), not \"" +
        text + "\"");
  }
  if (is_share) return static_cast<Bytes>(amount / 100 * static_cast<double>(baseline));
  const double bytes = amount * found->bytes;
  if (bytes >= 0x1p63) {  // the first that Bytes cannot hold
    throw UserError("--memory-limit " + text + " is larger than any memory");
  }
  return static_cast<Bytes>(bytes);
}

}  // namespace magis
