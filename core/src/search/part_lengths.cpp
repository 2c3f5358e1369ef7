#include "search/part_lengths.h"

namespace magis {

std::vector<int64_t> part_lengths(int64_t length, std::size_t most) {
  std::vector<int64_t> parts;
  for (int64_t n = 2; n <= length; ++n) {
    const int64_t part = (length + n - 1) / n;
    if (parts.empty() || part < parts.back()) parts.push_back(part);
    if (part == 1) break;
  }
  while (parts.size() > most) {
    std::vector<int64_t> thinned(parts.begin(),
                                 parts.begin() + static_cast<std::ptrdiff_t>(most / 2));
    for (std::size_t i = most / 2 + 1; i < parts.size(); i += 2) thinned.push_back(parts[i]);
    if (thinned.back() != parts.back()) thinned.push_back(parts.back());
    if (thinned.size() == parts.size()) break;
    parts = std::move(thinned);
  }
  return parts;
}

std::vector<int64_t> halved_lengths(int64_t length) {
  std::vector<int64_t> parts;
  for (const int64_t n : {2, 4, 8}) {
    if (n <= length) parts.push_back((length + n - 1) / n);
  }
  return parts;
}

}  // namespace magis
