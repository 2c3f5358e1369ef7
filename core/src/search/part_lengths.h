// In parts of what length a region is tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace magis {

// Lengths that divide `length` into 2, 3, 4, ... parts as evenly as may be, longest first; at most
// `most` of them, the first ones all, then ever fewer, the shortest always.
std::vector<int64_t> part_lengths(int64_t length, std::size_t most);
// Into 2, 4 and 8 parts, as far as there are so many.
std::vector<int64_t> halved_lengths(int64_t length);

}  // namespace magis
