#include "magis/simulate/simulate.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "simulate/footprint.h"

namespace magis {
namespace {

// What holds memory after `statements`: replayed once, for the moment of peak alone.
std::vector<CopyRef> live_after(const Graph& graph, std::span<const Statement> statements) {
  std::vector<CopyRef> live;
  for (const Statement& statement : statements) {
    if (statement.kind == Statement::Kind::free) {
      for (const CopyRef& copy : statement.freed) std::erase(live, copy);
      continue;
    }
    if (statement.over >= 0) {
      const auto position = static_cast<std::size_t>(statement.over);
      std::erase(live,
                 CopyRef{graph.reads(statement.op)[position], statement.operand_copies[position]});
    }
    for (TensorId made : graph.makes(statement.op)) live.push_back({made, statement.copy});
  }
  return live;
}

}  // namespace

Simulation simulate(const Graph& graph, const Program& program, const CostTable& costs) {
  Simulation result;
  result.persistent = costs.persistent;
  LiveBytes live(graph, costs);
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    if (statement.kind == Statement::Kind::free) {
      live.free(statement);
      continue;
    }
    TimelinePoint point{static_cast<int>(s), result.seconds, 0, live.run(statement)};
    result.seconds += costs.seconds[statement.op];
    point.end = result.seconds;
    if (result.peak_statement < 0 || point.live > result.transient_peak) {
      result.transient_peak = point.live;
      result.peak_statement = point.statement;
    }
    result.timeline.push_back(point);
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
    if (statement.kind == Statement::Kind::free) {
      live.free(statement);
    } else {
      result.transient_peak = std::max(result.transient_peak, live.run(statement));
      result.seconds += costs.seconds[statement.op];
    }
  }
  return result;
}

}  // namespace magis
