// Times of operator calls that were measured on a device, by the call as text.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
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
// A number in place of the text: the same for calls that are spelled alike, another for others (but
// for one pair in 2^64). A fraction of the cost.
uint64_t call_hash(const Graph& graph, OpId op);
// As the innermost loop around `op` runs it in its last iteration, which is shorter; nothing where
// the shapes in it are not known.
class ShortPart;
std::optional<std::string> short_call_key(const Graph& graph, OpId op, const ShortPart& part);

// Filled once, then read by any number of threads: nothing is added after the first look-up.
class MeasuredTimes {
 public:
  // A call added twice has the time given last. Requires a time that is finite and not negative:
  // throws UserError that names the call.
  void add(std::string key, Seconds seconds);
  std::optional<Seconds> find(std::string_view key) const;
  // Of a call in a graph. A call that was looked up before is found by its hash, without being
  // spelled again.
  std::optional<Seconds> find(const Graph& graph, OpId op) const;
  std::size_t size() const { return seconds_.size(); }
  // Calls of find so far, and how many of them found nothing. `spelled`: look-ups of calls in
  // graphs that were the first of their kind.
  int64_t lookups() const { return lookups_.load(std::memory_order_relaxed); }
  int64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  int64_t spelled() const { return spelled_.load(std::memory_order_relaxed); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };
  // What calls in graphs came to, by their hash; in so many parts that threads hardly meet.
  struct Known {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::optional<Seconds>> seconds;
  };
  std::optional<Seconds> counted(std::optional<Seconds> found) const;

  // Nothing iterates over it.
  std::unordered_map<std::string, Seconds, Hash, std::equal_to<>> seconds_;
  mutable std::array<Known, 16> known_;
  mutable std::atomic<int64_t> lookups_ = 0;
  mutable std::atomic<int64_t> misses_ = 0;
  mutable std::atomic<int64_t> spelled_ = 0;
};

}  // namespace magis
