#include "numbers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace magis {

namespace {

struct Amount {
  double number = 0;
  std::string unit;  // lower case
};

std::optional<Amount> parse_amount(const std::string& text) {
  Amount amount;
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  for (const char c : text.substr(digits)) {
    if (c != ' ') amount.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  auto [end, error] = std::from_chars(text.data(), text.data() + digits, amount.number);
  if (error == std::errc::result_out_of_range) {
    // More digits than a double holds, or a fraction of a byte: refused later by its size.
    error = std::errc();
    amount.number = text.find_first_of("123456789") < text.find('.') ? HUGE_VAL : 0;
  }
  if (error != std::errc() || end != text.data() + digits) return std::nullopt;
  return amount;
}

// Nothing if the unit is none of bytes.
std::optional<double> bytes_of(const Amount& amount) {
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
  const auto found = std::ranges::find(kUnits, amount.unit, &Unit::name);
  if (found == kUnits.end()) return std::nullopt;
  return amount.number * found->bytes;
}

Bytes representable(std::string_view option, const std::string& text, double bytes) {
  if (bytes < 0x1p63) return static_cast<Bytes>(bytes);
  throw UserError(std::string(option) + " " + text + " is larger than any memory");
}

}  // namespace

Bytes parse_bytes(std::string_view option, const std::string& text) {
  const std::optional<Amount> amount = parse_amount(text);
  const std::optional<double> bytes = amount ? bytes_of(*amount) : std::nullopt;
  if (bytes) return representable(option, text, *bytes);
  throw UserError(std::string(option) +
                  " needs bytes with or without a unit (8GiB, 500MB, 123456), not \"" + text +
                  "\"");
}

Bytes parse_memory_limit(const std::string& text, Bytes baseline) {
  const std::optional<Amount> amount = parse_amount(text);
  if (amount && amount->number > 0) {
    if (amount->unit == "%" && amount->number <= 100) {
      return static_cast<Bytes>(amount->number / 100 * static_cast<double>(baseline));
    }
    if (const std::optional<double> bytes = bytes_of(*amount)) {
      return representable("--memory-limit", text, *bytes);
    }
  }
  throw UserError(
      "--memory-limit needs bytes with or without a unit (8GiB, 500MB, 123456) or a "
      "share of the peak in program order (40%), not \"" +
      text + "\"");
}

}  // namespace magis
