#include "graph/base64.h"

#include <algorithm>

namespace magis {

std::optional<Bytes> base64_decoded_size(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const auto is_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  };
  if (!std::all_of(text.begin(), text.end() - static_cast<std::ptrdiff_t>(padding), is_digit)) {
    return std::nullopt;
  }
  return static_cast<Bytes>(text.size() / 4 * 3 - padding);
}

}  // namespace magis
