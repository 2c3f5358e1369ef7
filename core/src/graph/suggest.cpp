// "Did you mean": the closest name there is.
#include "graph/suggest.h"

#include <algorithm>
#include <numeric>

#include "graph/parser.h"

namespace magis {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string suggest_value(const IdMap<ValueId, Value>& values, std::string_view unknown) {
  const Value* closest = nullptr;
  std::size_t least = std::min<std::size_t>(3, unknown.size() / 2 + 1);  // from here on, not close
  for (const Value& value : values) {
    const std::size_t distance = edit_distance(unknown, value.name);
    if (distance < least) {
      least = distance;
      closest = &value;
    }
  }
  return closest == nullptr ? "" : " (did you mean %" + closest->name + "?)";
}

}  // namespace magis
