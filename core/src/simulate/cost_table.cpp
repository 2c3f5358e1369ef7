#include <algorithm>
#include <vector>

#include "magis/graph/builder.h"
#include "magis/simulate/profile.h"

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

Seconds arithmetic_time(const Graph& graph, const Operator& op, const DeviceProfile& profile) {
  if (op.info->flops == nullptr) return 0;
  const double rate =
      is_half(main_dtype(graph, op)) ? profile.half_flops_per_second : profile.flops_per_second;
  return (op.info->flops(graph, op) + profile.extra_matmul_flops) /
         (rate * profile.matmul_efficiency);
}

Seconds time_of(const Graph& graph, const Operator& op, const DeviceProfile& profile) {
  const Seconds arithmetic = arithmetic_time(graph, op, profile);
  const Seconds memory = traffic(graph, op) / profile.bytes_per_second;
  return profile.launch + (profile.roofline ? std::max(arithmetic, memory) : arithmetic + memory);
}

// How often an operator that takes `seconds` on full parts runs, in time: a shorter last part takes
// its share of what is not launch.
Seconds time_in_loops(const Graph& graph, OpId op, Seconds seconds, Seconds launch) {
  for (LoopId id = graph.loop_of(op); id.valid(); id = graph.loop(id).parent) {
    const Loop& loop = graph.loop(id);
    const auto full = static_cast<double>(loop.iterations() - 1);
    const double last = static_cast<double>(loop.last_part()) / static_cast<double>(loop.part);
    const Seconds floor = std::min(launch, seconds);
    seconds = full * seconds + floor + (seconds - floor) * last;
  }
  return seconds;
}

Seconds copy_time(const Tensor& tensor, const DeviceProfile& profile) {
  return profile.link_latency + static_cast<double>(tensor.bytes) / profile.link_bytes_per_second;
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
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Operator& op = graph.op(OpId(i));
    const Seconds once = bounds_a_loop(graph, OpId(i)) ? 0 : time_of(graph, op, profile);
    table.seconds.push_back(time_in_loops(graph, OpId(i), once, profile.launch));
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

}  // namespace magis
