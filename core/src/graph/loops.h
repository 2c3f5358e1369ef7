// Loops as operators spell them: magis.begin(name, part, length, reads[, shapes]), magis.end(name,
// results, reads).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

inline constexpr std::string_view kLoopBegin = "magis.begin";
inline constexpr std::string_view kLoopEnd = "magis.end";
inline constexpr std::string_view kPart = "magis.part";

// May name a loop: a letter or underscore, then letters, digits and underscores.
bool is_word(std::string_view name);
// What a begin says: name, part and length; nothing if its arguments are not of that form.
std::optional<Loop> read_loop_begin(const Operator& op);
// The name that an end gives.
std::optional<std::string> read_loop_end(const Operator& op);

// Loops around `op`, outermost first.
std::vector<LoopId> loops_around(const Graph& graph, OpId op);

// What is wrong with a loop of the graph, if anything: a value of one iteration read outside, a
// result read or overwritten inside, a list of reads that is not the list of what is read.
std::optional<std::string> loop_violation(const Graph& graph);

}  // namespace magis
