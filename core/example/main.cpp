// Reads a training step, finds a schedule that keeps a share of its peak memory, and prints both
// peaks.
//
//   example mlp.magis 70        # at most 70 % of the memory that program order takes
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/search/optimize.h"
#include "magis/simulate/simulate.h"

namespace {

void report(const char* name, const magis::Simulation& step) {
  std::cout << name << ": peak " << magis::format_bytes(step.peak()) << ", " << step.seconds * 1e3
            << " ms, " << step.timeline.size() << " operators run\n";
}

int optimize_file(const std::string& file, double percent) {
  std::ifstream in(file);
  if (!in) throw magis::UserError("cannot read " + file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};

  const magis::Graph graph = magis::parse_graph(text, file);
  const magis::CostTable costs = magis::make_cost_table(graph, magis::device_profile("cpu"));

  const magis::Program before = *magis::lower(graph, magis::program_order(graph));
  const magis::Simulation baseline = magis::simulate(graph, before, costs);
  report("before", baseline);

  magis::OptimizeOptions options;
  options.limit.bytes =
      static_cast<magis::Bytes>(percent / 100 * static_cast<double>(baseline.peak()));
  options.time_budget = 2;
  const magis::OptimizeResult result = magis::optimize(graph, costs, options);

  const magis::Program after = *magis::lower(graph, result.decisions);
  report("after", magis::simulate(graph, after, costs));
  std::cout << "least possible: " << magis::format_bytes(result.bound.bytes) << "\n";
  return result.met ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: example <graph file> <percent of the peak>\n";
    return 2;
  }
  try {
    return optimize_file(argv[1], std::atof(argv[2]));
  } catch (const magis::UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
