// The paper's figure 2, its numbers counted with the first y and the whole result: a chain x1, ...,
// x32, a middle tensor m, then y1, ..., y32, each of which also reads the x of its depth, last x
// first. Every tensor has 32 elements of 4 bytes; no operator can run in place.
#pragma once

#include <string>

namespace magis::test {

std::string figure2();

}  // namespace magis::test
