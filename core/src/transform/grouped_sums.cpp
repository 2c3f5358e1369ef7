#include "transform/grouped_sums.h"

#include <utility>

namespace magis {

std::optional<GroupedSums::Sum> GroupedSums::add(Sum sum, const Type& part) {
  if (part.storage > most_) return sum;
  std::optional<Sum> full;
  if (!waiting_.empty() && (part.dtype != dtype_ || bytes_ + part.storage > most_)) full = take();
  waiting_.push_back(std::move(sum));
  bytes_ += part.storage;
  dtype_ = part.dtype;
  return full;
}

std::optional<GroupedSums::Sum> GroupedSums::take() {
  bytes_ = 0;
  std::vector<Sum> sums = std::exchange(waiting_, {});
  if (sums.empty()) return std::nullopt;
  Sum group = std::move(sums.front());
  if (sums.size() == 1) return group;
  ArgList wholes{group.write.args.at(0)};
  ArgList parts{group.write.args.at(1)};
  for (std::size_t i = 1; i < sums.size(); ++i) {
    wholes.push_back(sums[i].write.args.at(0));
    parts.push_back(sums[i].write.args.at(1));
  }
  group.write.info = &op_info("magis.add_parts");
  group.write.args = {{std::move(wholes)}, {std::move(parts)}};
  return group;
}

}  // namespace magis
