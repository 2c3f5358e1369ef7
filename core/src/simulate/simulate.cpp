#include "magis/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <vector>

#include "magis/schedule/host_pool.h"
#include "simulate/engines.h"
#include "simulate/footprint.h"

namespace magis {
namespace {

// What holds memory after `statements`: replayed once, for the moment of peak alone.
std::vector<CopyRef> live_after(const Graph& graph, std::span<const Statement> statements) {
  std::vector<CopyRef> live;
  for (const Statement& statement : statements) {
    if (statement.kind == Statement::Kind::free) {
      for (const CopyRef& copy : statement.copies) std::erase(live, copy);
    }
    if (statement.kind == Statement::Kind::load) {
      live.insert(live.end(), statement.copies.begin(), statement.copies.end());
    }
    if (statement.kind != Statement::Kind::run) continue;
    if (statement.over >= 0) {
      const auto position = static_cast<std::size_t>(statement.over);
      std::erase(live,
                 CopyRef{graph.reads(statement.op)[position], statement.operand_copies[position]});
    }
    for (TensorId made : graph.makes(statement.op)) live.push_back({made, statement.copy});
  }
  return live;
}

// Full parts that the loops around an operator walk, a shorter last one in proportion.
double parts_walked(const Graph& graph, OpId op) {
  double parts = 1;
  for (LoopId id = graph.loop_of(op); id.valid(); id = graph.loop(id).parent) {
    const Loop& loop = graph.loop(id);
    parts *= static_cast<double>(loop.length.value) / static_cast<double>(loop.part);
  }
  return parts;
}

Bytes copied_bytes(const Graph& graph, const Program& program, Statement::Kind kind) {
  double bytes = 0;
  for (const Statement& statement : program.statements) {
    if (statement.kind != kind) continue;
    for (const CopyRef& copy : statement.copies) {
      const Tensor& tensor = graph.tensor(copy.tensor);
      bytes += static_cast<double>(tensor.bytes) * parts_walked(graph, tensor.producer);
    }
  }
  return std::llround(bytes);
}

bool swaps(const Program& program) {
  return std::ranges::any_of(program.statements, [](const Statement& statement) {
    return statement.kind == Statement::Kind::store;
  });
}

}  // namespace

Simulation simulate(const Graph& graph, const Program& program, const CostTable& costs) {
  Simulation result;
  result.persistent = costs.persistent;
  const Timing timing = time_on_engines(graph, program, costs, &result.timeline, &result.copies);
  result.seconds = timing.seconds;
  result.exposed = timing.exposed;
  result.host_peak = plan_host_pool(graph, program).bytes;
  result.bytes_to_host = copied_bytes(graph, program, Statement::Kind::store);
  result.bytes_to_device = copied_bytes(graph, program, Statement::Kind::load);
  LiveBytes live(graph, costs);
  auto point = result.timeline.begin();
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    const bool runs = statement.kind == Statement::Kind::run;
    const Bytes moment = runs ? live.run(statement) : live.other(statement);
    if (runs) (point++)->live = moment;
    if (moment > result.transient_peak || (runs && result.peak_statement < 0)) {
      result.transient_peak = moment;
      result.peak_statement = static_cast<int>(s);
    }
  }
  const std::span<const Statement> all(program.statements);
  result.hotspots =
      live_after(graph, all.first(static_cast<std::size_t>(result.peak_statement + 1)));
  std::ranges::sort(result.hotspots, {}, [&](const CopyRef& copy) {
    return std::tuple(-costs.bytes[copy.tensor], copy.tensor, copy.copy);
  });
  return result;
}

Footprint footprint(const Graph& graph, const Program& program, const CostTable& costs) {
  Footprint result;
  LiveBytes live(graph, costs);
  for (const Statement& statement : program.statements) {
    if (statement.kind == Statement::Kind::run) {
      result.transient_peak = std::max(result.transient_peak, live.run(statement));
      result.seconds += costs.seconds[statement.op];
    } else {
      result.transient_peak = std::max(result.transient_peak, live.other(statement));
    }
  }
  if (!swaps(program)) return result;
  const Timing timing = time_on_engines(graph, program, costs, nullptr, nullptr);
  result.seconds = timing.seconds;
  result.exposed = timing.exposed;
  result.host_peak = plan_host_pool(graph, program).bytes;
  return result;
}

}  // namespace magis
