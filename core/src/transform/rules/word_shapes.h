// The shapes of what words make. Each throws ShapeError; where the left side of a rule is read
// (`left`), it may learn facts and name lengths.
#pragma once

#include "transform/rules/words.h"

namespace magis {

SymbolicShape like_first(Rule& rule, const PatternNode& node, bool left);
SymbolicShape broadcast_both(Rule& rule, const PatternNode& node, bool left);
SymbolicShape mm_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape bmm_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape addmm_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape baddbmm_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape permute_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape view_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape expand_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape slice_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape cat_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape sum_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape softmax_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape convolution_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape pad_shape(Rule& rule, const PatternNode& node, bool left);
SymbolicShape one_element(Rule& rule, const PatternNode& node, bool left);

}  // namespace magis
