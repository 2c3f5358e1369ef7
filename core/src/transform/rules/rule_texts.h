// The rules that come with magis, in the rule language.
#pragma once

#include <string_view>

namespace magis {

extern const std::string_view kFusionRules;   // several operators as one of PyTorch's
extern const std::string_view kMergingRules;  // operators that share an operand
extern const std::string_view kAlgebraRules;  // identities
extern const std::string_view kMovingRules;   // views, slices and concatenations

}  // namespace magis
