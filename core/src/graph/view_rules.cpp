#include "graph/view_rules.h"

#include <algorithm>

#include "magis/graph/builder.h"

namespace magis::view_rules {

std::string list_text(const std::vector<int64_t>& items) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(items[i]);
  }
  return text + "]";
}

int64_t integer(const Call& call, std::size_t position, std::string_view keyword,
                std::optional<int64_t> otherwise) {
  const Arg* arg = find_argument(call, position, keyword);
  if (arg != nullptr) {
    if (const std::optional<int64_t> number = integer_value(*arg)) return *number;
  }
  const bool absent = arg == nullptr || std::holds_alternative<None>(arg->value);
  if (absent && otherwise) return *otherwise;
  throw NoView{call.info->name + " needs the integer `" + std::string(keyword) + "`"};
}

std::vector<int64_t> integers(const Call& call, std::size_t position, std::string_view keyword) {
  const Arg* arg = find_argument(call, position, keyword);
  const auto* list = arg == nullptr ? nullptr : std::get_if<ArgList>(&arg->value);
  std::vector<int64_t> numbers;
  bool all_integers = list != nullptr;
  if (list != nullptr) {
    for (const Arg& item : *list) {
      const std::optional<int64_t> number = integer_value(item);
      all_integers = all_integers && number.has_value();
      if (number) numbers.push_back(*number);
    }
  }
  if (!all_integers) {
    throw NoView{call.info->name + " needs the list of integers `" + std::string(keyword) + "`"};
  }
  return numbers;
}

std::size_t dimension(int64_t number, std::size_t rank) {
  const auto count = static_cast<int64_t>(std::max<std::size_t>(rank, 1));
  if (number < -count || number >= count) {
    throw NoView{"there is no dimension " + std::to_string(number) + " among " +
                 std::to_string(rank)};
  }
  return static_cast<std::size_t>(number < 0 ? number + count : number);
}

int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw NoView{"the view is too large"};
  return product;
}

int64_t count_elements(const Shape& shape) {
  int64_t count = 1;
  for (int64_t length : shape) {
    if (length < 0) throw NoView{"negative lengths are not possible: " + list_text(shape)};
    count = times(count, length);
  }
  return count;
}

}  // namespace magis::view_rules
