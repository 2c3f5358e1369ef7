#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "magis/graph/builder.h"
#include "magis/simulate/profile.h"
#include "simulate/short_part.h"

namespace magis {
namespace {

// Bytes of a value that a kernel moves: the elements that it sees (a slice's), but no more than
// there are (an expanded tensor's storage).
double traffic(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.tensor.valid()) return 0;
  const Bytes seen = element_count(value.type.shape) * element_size(value.type.dtype);
  return static_cast<double>(std::min(seen, value.type.storage));
}

double traffic(const Graph& graph, const Operator& op) {
  if (op.info->name == "magis.write_part") {  // reads the part and writes as much of the result
    return 2 * traffic(graph, std::get<ValueId>(op.args.back().value));
  }
  std::vector<ValueId> values(op.results);
  for_each_value(op, [&](ValueId id) { values.push_back(id); });
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  double bytes = 0;
  for (ValueId id : values) bytes += traffic(graph, id);
  return bytes;
}

// In whose precision the arithmetic is done.
DType main_dtype(const Graph& graph, const Operator& op) {
  const auto defined =
      std::ranges::find_if(op.results, [&](ValueId id) { return graph.value(id).type.defined; });
  return defined == op.results.end() ? DType::f32 : graph.value(*defined).type.dtype;
}

// Sums of more terms than this are split, so that more multiprocessors have something to do.
constexpr double kLongestSum = 768;

// The terms of a product's sums, two operations each.
double terms(const Graph& graph, const Operator& op, double flops) {
  double elements = 0;
  for (ValueId id : op.results) {
    if (graph.value(id).type.defined)
      elements += static_cast<double>(element_count(graph.value(id).type.shape));
  }
  return elements > 0 ? std::min(flops / (2 * elements), kLongestSum) : 0;
}

Seconds arithmetic_time(const Graph& graph, const Operator& op, const DeviceProfile& profile) {
  if (op.info->flops == nullptr) return 0;
  const double flops = op.info->flops(graph, op);
  const double rate =
      is_half(main_dtype(graph, op)) ? profile.half_flops_per_second : profile.flops_per_second;
  const double extra =
      profile.extra_matmul_flops + profile.half_wave_flops * terms(graph, op, flops);
  return (flops + extra) / (rate * profile.matmul_efficiency);
}

Seconds calibrated(Seconds modelled, const Operator& op, const DeviceProfile& profile) {
  auto found = profile.calibration.find(op.info->name);
  if (found == profile.calibration.end()) found = profile.calibration.find("");
  if (found == profile.calibration.end()) return modelled;
  return found->second.scale * std::pow(modelled, found->second.exponent);
}

Seconds time_of(const Graph& graph, const Operator& op, const DeviceProfile& profile) {
  const Seconds arithmetic = arithmetic_time(graph, op, profile);
  const Seconds memory = traffic(graph, op) / profile.bytes_per_second;
  const Seconds modelled =
      profile.launch + (profile.roofline ? std::max(arithmetic, memory) : arithmetic + memory);
  return calibrated(modelled, op, profile);
}

// How often an operator that takes `seconds` on full parts runs, in time. `last`: what it takes in
// the last iteration of the innermost loop, if that was measured; otherwise a shorter last part
// takes its share of what is not launch.
Seconds time_in_loops(const Graph& graph, OpId op, Seconds seconds, std::optional<Seconds> last,
                      Seconds launch) {
  for (LoopId id = graph.loop_of(op); id.valid(); id = graph.loop(id).parent) {
    const Loop& loop = graph.loop(id);
    const auto full = static_cast<double>(loop.iterations() - 1);
    const double share = static_cast<double>(loop.last_part()) / static_cast<double>(loop.part);
    const Seconds floor = std::min(launch, seconds);
    seconds = full * seconds + last.value_or(floor + (seconds - floor) * share);
    last.reset();
  }
  return seconds;
}

// The bodies of loops in their last iterations, each made when it is first asked for.
class ShortParts {
 public:
  explicit ShortParts(const Graph& graph) : graph_(graph) {}

  // The call in the last iteration of the innermost loop, if that is shorter and its shapes are
  // known.
  std::optional<std::string> key(OpId op) {
    const LoopId id = graph_.loop_of(op);
    if (!id.valid() || graph_.loop(id).last_part() == graph_.loop(id).part) return std::nullopt;
    const auto place = parts_.try_emplace(id, graph_, id).first;
    return short_call_key(graph_, op, place->second);
  }

 private:
  const Graph& graph_;
  std::map<LoopId, ShortPart> parts_;
};

Seconds copy_time(const Tensor& tensor, const DeviceProfile& profile) {
  return profile.link_latency + static_cast<double>(tensor.bytes) / profile.link_bytes_per_second;
}

std::optional<Seconds> measured_time(const DeviceProfile& profile, std::string_view key) {
  return profile.measured == nullptr ? std::nullopt : profile.measured->find(key);
}

// Seconds of all runs of an operator, measured where there is a time.
Seconds time_in_step(const Graph& graph, OpId op, const DeviceProfile& profile, ShortParts& parts) {
  const Seconds modelled = time_of(graph, graph.op(op), profile);
  if (profile.measured == nullptr) {
    return time_in_loops(graph, op, modelled, std::nullopt, profile.launch);
  }
  const Seconds once = profile.measured->find(graph, op).value_or(modelled);
  const std::optional<std::string> shorter = parts.key(op);
  const auto last = shorter ? measured_time(profile, *shorter) : std::nullopt;
  return time_in_loops(graph, op, once, last, profile.launch);
}

// What bounds a loop takes no time: it allocates, and lifetimes end.
bool bounds_a_loop(const Graph& graph, OpId op) { return graph.bounded_loop(op).valid(); }

Bytes scratch_of(const Graph& graph, const Operator& op) {
  if (op.scratch != 0) return op.scratch;  // measured
  return op.info->scratch == nullptr ? 0 : op.info->scratch(graph, op);
}

Bytes round_up(Bytes bytes, Bytes granularity) {
  return (bytes + granularity - 1) / granularity * granularity;
}

}  // namespace

CostTable make_cost_table(const Graph& graph, const DeviceProfile& profile) {
  const Bytes granularity = profile.allocation_granularity;
  CostTable table;
  table.copies_overlap = profile.copies_overlap;
  table.host_memory = profile.host_memory;
  ShortParts parts(graph);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Operator& op = graph.op(OpId(i));
    const bool bounds = bounds_a_loop(graph, OpId(i));
    table.seconds.push_back(bounds ? 0 : time_in_step(graph, OpId(i), profile, parts));
    table.scratch.push_back(round_up(scratch_of(graph, op), granularity));
  }
  for (const Tensor& tensor : graph.tensors()) {
    const Bytes allocated = round_up(tensor.bytes, granularity);
    table.bytes.push_back(tensor.is_input ? 0 : allocated);
    table.copy_seconds.push_back(copy_time(tensor, profile));
    if (tensor.is_input) table.persistent += allocated;
  }
  return table;
}

std::vector<CallCount> count_calls(const Graph& graph, const IdMap<OpId, int>& copies,
                                   const DeviceProfile& profile) {
  std::vector<CallCount> calls;
  std::unordered_map<std::string, std::size_t> places;
  ShortParts parts(graph);
  const auto count = [&](std::string key, double runs, Seconds modelled) {
    const auto [place, is_new] = places.try_emplace(key, calls.size());
    if (is_new) {
      const auto found = measured_time(profile, key);
      calls.push_back({.key = std::move(key),
                       .seconds = found.value_or(modelled),
                       .measured = found.has_value()});
    }
    calls[place->second].runs += runs;
  };
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpId id(i);
    if (bounds_a_loop(graph, id)) continue;
    double runs = copies[id];
    for (LoopId loop = graph.loop_of(id); loop.valid(); loop = graph.loop(loop).parent) {
      runs *= static_cast<double>(graph.loop(loop).iterations());
    }
    const Seconds full = time_of(graph, graph.op(id), profile);
    if (std::optional<std::string> shorter = parts.key(id)) {
      const Loop& loop = graph.loop(graph.loop_of(id));
      const double times = runs / static_cast<double>(loop.iterations());
      const double share = static_cast<double>(loop.last_part()) / static_cast<double>(loop.part);
      const Seconds floor = std::min(profile.launch, full);
      count(*std::move(shorter), times, floor + (full - floor) * share);
      runs -= times;
    }
    if (runs > 0) count(call_key(graph, id), runs, full);
  }
  return calls;
}

}  // namespace magis
