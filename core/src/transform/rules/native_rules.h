// Rules that the rule language cannot say: they compute with dimensions, compare calls, or follow a
// value to all of its readers.
#pragma once

#include <memory>
#include <vector>

#include "transform/rules/rewrite_rule.h"

namespace magis {

std::vector<std::unique_ptr<RewriteRule>> make_native_rules();

}  // namespace magis
