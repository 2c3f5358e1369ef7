// Times of operator calls that were measured on a device, by the call as text.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "magis/base/units.h"
#include "magis/graph/graph.h"

namespace magis {

// How a call is named wherever its time is kept: as the text language spells it, operands by
// number, followed by the types of the results and those of the operands,
//   aten.addmm(%0, %1, %2, beta=1) : f32[8,32] of f32[32], f32[8,64], f32[64,32]{1,64}
// so that it can be made again from its name alone. Lengths that follow a part count as in a full
// one. Offsets and storages are left out; scalars of run time are of type `scalar`, undefined
// operands are `none`.
// Where an operand dies at the operator in program order and may be overwritten, the call is the
// one in place, and ` over <argument>` follows the brackets.
std::string call_key(const Graph& graph, OpId op);
// The same, appended: look-ups build many.
void append_call_key(const Graph& graph, OpId op, std::string& text);
// As the innermost loop around `op` runs it in its last iteration, which is shorter; nothing where
// the shapes in it are not known.
class ShortPart;
std::optional<std::string> short_call_key(const Graph& graph, OpId op, const ShortPart& part);

// Filled once, then read by any number of threads.
class MeasuredTimes {
 public:
  // A call added twice has the time given last. Requires a time that is finite and not negative:
  // throws UserError that names the call.
  void add(std::string key, Seconds seconds);
  std::optional<Seconds> find(std::string_view key) const;
  std::size_t size() const { return seconds_.size(); }
  // Calls of find so far, and how many of them found nothing.
  int64_t lookups() const { return lookups_.load(std::memory_order_relaxed); }
  int64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };
  // Nothing iterates over it.
  std::unordered_map<std::string, Seconds, Hash, std::equal_to<>> seconds_;
  mutable std::atomic<int64_t> lookups_ = 0;
  mutable std::atomic<int64_t> misses_ = 0;
};

}  // namespace magis
