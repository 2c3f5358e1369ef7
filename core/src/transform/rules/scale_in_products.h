// A rule that follows a multiple to all products that read it.
#pragma once

#include <memory>

#include "transform/rules/rewrite_rule.h"

namespace magis {

std::unique_ptr<RewriteRule> make_scale_in_products();

}  // namespace magis
