// Convolutions over channels that lie side by side, channel group by channel group: the
// concatenation need not stay, nor what it was the gradient of, whole.
#pragma once

#include <memory>
#include <vector>

#include "transform/rules/rewrite_rule.h"

namespace magis {

std::vector<std::unique_ptr<RewriteRule>> make_channel_rules();

}  // namespace magis
