// magis-opt: the core for people without Python. Reads graph or plan text, runs passes over it,
// prints the result.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "magis/base/error.h"
#include "magis/codegen/python.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/search/optimize.h"
#include "magis/simulate/simulate.h"
#include "magis/transform/accumulate.h"
#include "numbers.h"

namespace magis {
namespace {

constexpr int kBug = 1;
constexpr int kWrongInput = 2;
constexpr int kLimitNotMet = 3;

constexpr Seconds kLongestStep = 1e6;

constexpr std::string_view kHelp = R"(usage: magis-opt [options] [file]

Reads a graph or a plan (from standard input if there is no file, or if it is -), runs passes
over it, and prints what comes out. ARCHITECTURE.md describes the text.

  --passes LIST         comma-separated, run in this order; default: verify
      verify            check every invariant of graph and program
      accumulate        add gradients into ones that are already there; forgets the program
      program-order     run operators in the order of the text, nothing recomputed
      optimize          search for a schedule within the limit; forgets the program
  --print WHAT          graph, plan (default), python, simulation
  --device NAME         device profile for bytes and time; default: reference
  --memory-limit LIMIT  for optimize: 8GiB, 500MB, 123456, or 40% of the peak in program order
  --latency-limit R     for optimize: at most R times as long as program order (1.1)
  --time-budget S       for optimize: seconds; default: 10
  --seed N              for optimize; default: 0
  --threads N           for optimize; the plan does not depend on it; default: 1
  --host-memory BYTES   for optimize: what swapped tensors may take on the host (8GiB); 0: nothing is
                        swapped; default: as much as the device profile has
  --no-fission          for optimize: run no part of the graph in a loop over parts of an axis
  --strategy NAME       for optimize: default, or paper: the search that the MAGIS paper describes
  --max-level N         for --strategy paper: levels of the fission tree; default: 4
  --random-fission      for --strategy paper: regions at random instead of the fission tree's
  --naive-schedule-rules  for --strategy paper: match scheduling rules everywhere, not only at the peak
  --help                this text

What has no program yet is printed and simulated in program order. Errors go to standard error with exit status 2. A limit that
optimize did not reach: the best plan is printed, with a warning and exit status 3.

examples
  magis-opt --print simulation bert.magis
  magis-opt --passes optimize --memory-limit 40% bert.magis > bert.plan
  magis-opt --print python bert.plan > step.py
  magis-opt --passes accumulate,optimize --latency-limit 1.1 --device a100 bert.magis
)";

struct Options {
  std::string file = "-";
  std::vector<std::string> passes{"verify"};
  std::string print = "plan";
  std::string device = "reference";
  std::string memory_limit;
  double latency_limit = 0;
  double time_budget = 10;
  uint64_t seed = 0;
  int threads = 1;
  bool fission = true;
  Strategy strategy = Strategy::standard;
  PaperOptions paper = {};
  std::optional<Bytes> host_memory = {};
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    items.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

// Nothing if help was asked for.
std::optional<Options> parse_options(std::span<char* const> arguments) {
  Options options;
  bool has_file = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") return std::nullopt;
    if (!argument.starts_with("--")) {
      if (has_file) throw UserError("more than one file: " + std::string(argument));
      has_file = true;
      options.file = argument;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const auto value = [&]() -> std::string {
      if (equals != std::string_view::npos) return std::string(argument.substr(equals + 1));
      if (i + 1 == arguments.size()) throw UserError(std::string(name) + " needs a value");
      return arguments[++i];
    };
    if (name == "--passes") {
      options.passes = split(value());
    } else if (name == "--print") {
      options.print = value();
    } else if (name == "--device") {
      options.device = value();
    } else if (name == "--memory-limit") {
      options.memory_limit = value();
    } else if (name == "--latency-limit") {
      options.latency_limit = parse_number<double>(name, value());
      if (options.latency_limit < 1) throw UserError("--latency-limit must be at least 1");
    } else if (name == "--time-budget") {
      options.time_budget = parse_number<double>(name, value());
    } else if (name == "--host-memory") {
      options.host_memory = parse_bytes(name, value());
    } else if (name == "--no-fission") {
      options.fission = false;
    } else if (name == "--threads") {
      options.threads = parse_number<int>(name, value());
      if (options.threads < 1) throw UserError("--threads 0: at least 1");
    } else if (name == "--strategy") {
      options.strategy = parse_strategy(value());
    } else if (name == "--max-level") {
      options.paper.max_level = parse_number<int>(name, value());
    } else if (name == "--random-fission") {
      options.paper.random_fission = true;
    } else if (name == "--naive-schedule-rules") {
      options.paper.naive_schedule_rules = true;
    } else if (name == "--seed") {
      options.seed = parse_number<uint64_t>(name, value());
    } else {
      throw UserError("unknown option " + std::string(name) + "; --help lists them");
    }
  }
  return options;
}

// ---- passes

struct State {
  Graph graph;
  std::optional<Program> program;
  const Options& options;
  bool limit_met = true;

  // The program, or program order if no pass has made one.
  Program current() const {
    return program ? *program : lower(graph, program_order(graph)).value();
  }
  const DeviceProfile& profile() const { return device_profile(options.device); }
  CostTable costs() const { return make_cost_table(graph, profile()); }
};

void verify_all(State& state) {
  verify(state.graph);
  if (state.program) verify(state.graph, *state.program);
}

void accumulate(State& state) {
  std::vector<std::string> paths;
  for (const Output& output : state.graph.outputs()) {
    if (output.kind == OutputKind::grad) paths.push_back(output.path);
  }
  state.graph = accumulate_gradients(state.graph, paths);
  state.program.reset();
}

void program_order_pass(State& state) {
  state.program = lower(state.graph, program_order(state.graph)).value();
}

std::string bound_text(const Graph& graph, const LowerBound& bound) {
  std::string text = format_bytes(bound.bytes) + " (" + std::to_string(bound.bytes) + " B), ";
  if (!bound.op.valid()) return text + "what the outputs take together";
  return text + "the working set of %" + graph.name(bound.op) + " = " +
         graph.op(bound.op).info->name;
}

Limit limit_of(const State& state, const CostTable& costs) {
  const Options& options = state.options;
  if (options.memory_limit.empty() == (options.latency_limit == 0)) {
    throw UserError("optimize needs one limit: --memory-limit or --latency-limit");
  }
  const Program baseline = lower(state.graph, program_order(state.graph)).value();
  const Footprint before = footprint(state.graph, baseline, costs);
  if (options.memory_limit.empty()) {
    // The search counts in picoseconds; a limit that no step reaches is as good as any larger one.
    const Seconds longest = std::max(before.seconds, kLongestStep);
    return {.kind = Limit::Kind::latency,
            .seconds = std::min(options.latency_limit * before.seconds, longest)};
  }
  const Bytes bytes =
      parse_memory_limit(options.memory_limit, costs.persistent + before.transient_peak);
  const bool swap = options.host_memory.value_or(costs.host_memory) > 0;
  const LowerBound bound = options.fission
                               ? lower_bound_with_fission(state.graph, state.profile(), swap)
                               : lower_bound(state.graph, costs, {.swap = swap});
  if (bytes < bound.bytes) {
    throw UserError("no schedule keeps a memory limit of " + format_bytes(bytes) +
                    ": the least possible is " + bound_text(state.graph, bound));
  }
  return {.kind = Limit::Kind::memory, .bytes = bytes};
}

void optimize_pass(State& state) {
  const CostTable costs = state.costs();
  OptimizeOptions options;
  options.limit = limit_of(state, costs);
  options.time_budget = state.options.time_budget;
  options.seed = state.options.seed;
  options.threads = state.options.threads;
  options.fission = state.options.fission;
  options.strategy = state.options.strategy;
  options.paper = state.options.paper;
  options.host_memory = state.options.host_memory;
  OptimizeResult result = optimize(state.graph, state.profile(), options);
  if (result.split) state.graph = *result.split;
  state.program = lower(state.graph, result.decisions).value();
  state.limit_met = result.met;
  if (result.met) return;
  std::cerr << "magis-opt: the limit was not reached: peak "
            << format_bytes(costs.persistent + result.found.transient_peak) << ", "
            << result.found.seconds / result.baseline.seconds
            << " times the time of program order; stopped by " << to_text(result.stop_reason)
            << "\n";
}

struct Pass {
  std::string_view name;
  void (*run)(State&);
};
constexpr std::array<Pass, 4> kPasses{{{"verify", verify_all},
                                       {"accumulate", accumulate},
                                       {"program-order", program_order_pass},
                                       {"optimize", optimize_pass}}};

// ---- printing

std::string milliseconds(Seconds seconds) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms", seconds * 1e3);
  return text.data();
}

std::string exact(Bytes bytes) {
  return format_bytes(bytes) + " (" + std::to_string(bytes) + " B)";
}

std::string place(const Graph& graph, const Operator& op) {
  if (!op.site.valid()) return "";
  const Site& site = graph.sites()[op.site];
  return "  " + site.module + (site.source.empty() ? "" : " (" + site.source + ")");
}

std::string hotspot_text(const State& state, const CostTable& costs, const CopyRef& copy) {
  const Tensor& tensor = state.graph.tensor(copy.tensor);
  const Value& value = state.graph.value(tensor.value);
  const Operator& op = state.graph.op(tensor.producer);
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%12s  ", format_bytes(costs.bytes[copy.tensor]).c_str());
  return size.data() + ("%" + value.name) +
         (copy.copy == 0 ? "" : "." + std::to_string(copy.copy)) + " = " + op.info->name + " : " +
         to_text(value.type) + place(state.graph, op) + "\n";
}

std::string copies_text(const Simulation& simulation) {
  if (simulation.host_peak == 0) return "";
  Seconds copying = 0;
  for (const CopyPoint& copy : simulation.copies) copying += copy.end - copy.start;
  return "  exposed    " + milliseconds(simulation.exposed) + " waiting for copies of " +
         milliseconds(copying) + "\nto the host  " + exact(simulation.bytes_to_host) +
         "\nand back     " + exact(simulation.bytes_to_device) + "\non the host  " +
         exact(simulation.host_peak) + "\n";
}

std::string simulation_text(const State& state) {
  const CostTable costs = state.costs();
  const Program program = state.current();
  const Simulation simulation = simulate(state.graph, program, costs);
  const auto runs = simulation.timeline.size();
  std::ostringstream out;
  out << "device       " << state.options.device << "\n"
      << "peak         " << exact(simulation.peak()) << "\n"
      << "persistent   " << exact(simulation.persistent) << "\n"
      << "transient    " << exact(simulation.transient_peak) << "\n"
      << "lower bound  " << bound_text(state.graph, lower_bound(state.graph, costs)) << "\n"
      << "time         " << milliseconds(simulation.seconds) << "\n"
      << copies_text(simulation) << "operators    " << runs << " run, "
      << runs - state.graph.op_count() << " of them again\n";
  if (simulation.peak_statement < 0) return out.str();
  const Statement& peak = program.statements[static_cast<std::size_t>(simulation.peak_statement)];
  const bool loads = peak.kind == Statement::Kind::load;
  const Operator& op =
      state.graph.op(loads ? state.graph.tensor(peak.copies.front().tensor).producer : peak.op);
  out << "\nlive at the peak, while " << (loads ? "what " : "") << op.info->name
      << (loads ? " made is loaded" : " runs") << place(state.graph, op) << "\n";
  if (!loads && costs.scratch[peak.op] > 0) {
    out << "  of it " << format_bytes(costs.scratch[peak.op]) << " scratch\n";
  }
  for (const CopyRef& copy : simulation.hotspots) out << hotspot_text(state, costs, copy);
  return out.str();
}

struct Printer {
  std::string_view name;
  std::string (*print)(const State&);
};
constexpr std::array<Printer, 4> kPrinters{
    {{"plan", [](const State& state) { return to_text(state.graph, state.current()); }},
     {"graph", [](const State& state) { return to_text(state.graph); }},
     {"python",
      [](const State& state) {
        return emit_python(state.graph, state.current(), "Written by magis-opt.");
      }},
     {"simulation", simulation_text}}};

// ---- main

template <class Table>
const auto& choose(const Table& table, std::string_view what, std::string_view name) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry;
  }
  std::string message =
      "unknown " + std::string(what) + " \"" + std::string(name) + "\"; choose from:";
  for (const auto& entry : table) message += " " + std::string(entry.name);
  throw UserError(message);
}

std::string read_all(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw UserError("cannot read " + file);
  return text;
}

State read_state(const Options& options) {
  const std::string text = read_all(options.file);
  const std::string name = options.file == "-" ? "<stdin>" : options.file;
  if (!is_plan(text)) return {parse_graph(text, name), std::nullopt, options};
  PlanText plan = parse_plan(text, name);
  verify(plan.graph, plan.program);  // what all passes and printers rely on
  return {std::move(plan.graph), std::move(plan.program), options};
}

int run(std::span<char* const> arguments) {
  const std::optional<Options> options = parse_options(arguments);
  if (!options) {
    std::cout << kHelp;
    return 0;
  }
  // What is misspelled is said before anything long runs.
  device_profile(options->device);
  const Printer& printer = choose(kPrinters, "thing to print", options->print);
  std::vector<Pass> passes;
  for (const std::string& name : options->passes) passes.push_back(choose(kPasses, "pass", name));
  State state = read_state(*options);
  for (const Pass& pass : passes) pass.run(state);
  std::cout << printer.print(state) << std::flush;
  if (!std::cout) throw UserError("cannot write the output");
  return state.limit_met ? 0 : kLimitNotMet;
}

}  // namespace
}  // namespace magis

int main(int argc, char** argv) {
  try {
    return magis::run(std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
  } catch (const magis::UserError& error) {
    std::cerr << "magis-opt: " << error.what() << "\n";
    return magis::kWrongInput;
  } catch (const std::exception& error) {
    std::cerr << "magis-opt: internal error, a bug of magis: " << error.what() << "\n";
    return magis::kBug;
  }
}
