// Attention written out, as one kernel.
#pragma once

#include <memory>

#include "transform/rules/rewrite_rule.h"

namespace magis {

std::unique_ptr<RewriteRule> make_attention_of_parts();

}  // namespace magis
