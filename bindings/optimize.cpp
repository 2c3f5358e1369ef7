#include "magis/search/optimize.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "magis/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

struct PyResult {
  SharedGraph source;
  PyPlan plan;
  OptimizeResult result;
  Bytes persistent;
  std::string bound_reason;
  std::vector<Progress> history;
};

struct PyLowerBound {
  Bytes bytes, persistent;
  std::string reason;
};

std::string bound_reason(const Graph& graph, const LowerBound& bound) {
  if (!bound.op.valid()) return "the inputs and the outputs, which live together at the end";
  const Operator& op = graph.op(bound.op);
  std::string text = "the working set of " + op.info->name + " (%" + graph.name(bound.op) + ")";
  if (op.site.valid()) {
    const Site& site = graph.sites()[op.site];
    if (!site.module.empty()) text += " in " + site.module;
    if (!site.source.empty()) text += ", " + site.source;
  }
  return text;
}

// What a search told of itself, at most so many times, evenly: when it is full every other row
// goes, and from then on every other one is left out. The last is always there.
class History {
 public:
  void add(const Progress& progress) {
    last_ = progress;
    if (told_++ % stride_ != 0) return;
    rows_.push_back(progress);
    if (rows_.size() < kMostRows) return;
    for (std::size_t i = 0; 2 * i < rows_.size(); ++i) rows_[i] = rows_[2 * i];
    rows_.resize((rows_.size() + 1) / 2);
    stride_ *= 2;
  }
  std::vector<Progress> rows() const {
    std::vector<Progress> all = rows_;
    if (last_ && (told_ - 1) % stride_ != 0) all.push_back(*last_);
    return all;
  }

 private:
  static constexpr std::size_t kMostRows = 256;
  std::vector<Progress> rows_;
  std::optional<Progress> last_;
  int64_t told_ = 0;
  int64_t stride_ = 1;
};

// Calls back into Python between rounds. An exception there (Ctrl-C is one) stops the search; it is
// not lost: a KeyboardInterrupt means "stop, give me the best so far", anything else is raised once
// the search has returned.
class PythonProgress {
 public:
  explicit PythonProgress(nb::object callback) : callback_(std::move(callback)) {}

  bool operator()(const Progress& progress) {
    history.add(progress);
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) return stop();
    if (callback_.is_none()) return true;
    try {
      return nb::cast<bool>(callback_(progress));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt))
        error_ = std::make_unique<nb::python_error>(error);
      return false;
    }
  }
  void rethrow() {
    if (error_) throw nb::python_error(*error_);
  }

  History history;

 private:
  bool stop() {
    nb::python_error error;
    if (!error.matches(PyExc_KeyboardInterrupt)) error_ = std::make_unique<nb::python_error>(error);
    return false;
  }
  nb::object callback_;
  std::unique_ptr<nb::python_error> error_;
};

int region_count(const std::vector<FissionRegion>& regions) {
  int count = 0;
  for (const FissionRegion& region : regions) {
    count += (region.part < region.length ? 1 : 0) + region_count(region.children);
  }
  return count;
}

// What was found, with its program.
PyResult planned(const std::shared_ptr<const Graph>& source, OptimizeResult result,
                 Bytes persistent) {
  const std::shared_ptr<const Graph> rewritten = result.rewritten ? result.rewritten : source;
  const std::shared_ptr<const Graph> graph = result.split ? result.split : source;
  std::optional<Program> program = lower(*graph, result.decisions);
  MAGIS_CHECK(program.has_value(), "the search returned decisions that cannot be lowered");
  verify(*graph, *program);
  std::string reason = bound_reason(*rewritten, result.bound);
  return {
      source, PyPlan{graph, *std::move(program)}, std::move(result), persistent, std::move(reason),
      {}};
}

// What a search for one limit and one for all have in common.
OptimizeOptions search_options(Seconds time_budget, int64_t state_budget, uint64_t seed,
                               int threads, Bytes search_memory, bool fission, bool exact,
                               std::optional<Bytes> host_memory, bool recompute, bool rewrite,
                               std::vector<std::string> without_rules) {
  OptimizeOptions options;
  options.recompute = recompute;
  options.rewrite = rewrite;
  options.without_rules = std::move(without_rules);
  options.time_budget = time_budget;
  options.state_budget = state_budget;
  options.seed = seed;
  options.threads = threads;
  options.search_memory = search_memory;
  options.fission = fission;
  options.exact = exact;
  options.host_memory = host_memory;
  return options;
}

PyResult run(const PyGraph& g, const PyDevice& device, std::optional<Bytes> memory_limit,
             std::optional<Seconds> latency_limit, Seconds time_budget, int64_t state_budget,
             uint64_t seed, int threads, Bytes search_memory, bool fission, bool exact,
             int64_t batch_parts, std::optional<Bytes> host_memory, const std::string& strategy,
             bool random_fission, bool naive_schedule_rules, int max_level, bool recompute,
             bool rewrite, std::vector<std::string> without_rules, nb::object callback) {
  if (memory_limit.has_value() == latency_limit.has_value())
    throw UserError("give either memory_limit or latency_limit");
  const DeviceProfile& profile = profile_of(device);
  OptimizeOptions options =
      search_options(time_budget, state_budget, seed, threads, search_memory, fission, exact,
                     host_memory, recompute, rewrite, std::move(without_rules));
  options.limit.kind = memory_limit ? Limit::Kind::memory : Limit::Kind::latency;
  options.limit.bytes = memory_limit.value_or(0);
  options.limit.seconds = latency_limit.value_or(0);
  options.batch_parts = batch_parts;
  options.strategy = parse_strategy(strategy);
  options.paper = {.random_fission = random_fission,
                   .naive_schedule_rules = naive_schedule_rules,
                   .max_level = max_level};
  PythonProgress progress(std::move(callback));
  options.progress = [&](const Progress& p) { return progress(p); };
  std::optional<PyResult> result;
  {
    nb::gil_scoped_release release;
    const Bytes persistent = make_cost_table(*g.graph, profile).persistent;
    result = planned(g.graph, optimize(*g.graph, profile, options), persistent);
  }
  progress.rethrow();
  result->history = progress.history.rows();
  return *std::move(result);
}

std::vector<PyResult> run_frontier(const PyGraph& g, const PyDevice& device, Seconds time_budget,
                                   int64_t state_budget, uint64_t seed, int threads,
                                   Bytes search_memory, bool fission, bool exact,
                                   std::optional<Bytes> host_memory, bool recompute, bool rewrite,
                                   std::vector<std::string> without_rules, nb::object callback) {
  const DeviceProfile& profile = profile_of(device);
  OptimizeOptions options =
      search_options(time_budget, state_budget, seed, threads, search_memory, fission, exact,
                     host_memory, recompute, rewrite, std::move(without_rules));
  PythonProgress progress(std::move(callback));
  options.progress = [&](const Progress& p) { return progress(p); };
  std::vector<PyResult> results;
  {
    nb::gil_scoped_release release;
    const Bytes persistent = make_cost_table(*g.graph, profile).persistent;
    for (OptimizeResult& found : find_frontier(*g.graph, profile, options)) {
      results.push_back(planned(g.graph, std::move(found), persistent));
    }
  }
  progress.rethrow();
  for (PyResult& result : results) result.history = progress.history.rows();
  return results;
}

// The same result with `plan`, whose promise is counted anew: a plan on a graph whose scratch has
// been measured since.
PyResult with_plan(const PyResult& result, const PyPlan& plan, const PyDevice& device,
                   std::optional<Bytes> memory_limit, std::optional<Seconds> latency_limit) {
  const CostTable costs = make_cost_table(*plan.graph, profile_of(device));
  PyResult renewed = result;
  const CostTable source_costs = make_cost_table(*result.source, profile_of(device));
  const Program in_order = lower(*result.source, program_order(*result.source)).value();
  renewed.result.baseline = footprint(*result.source, in_order, source_costs);
  renewed.plan = plan;
  renewed.result.found = footprint(*plan.graph, plan.program, costs);
  if (memory_limit) {
    renewed.result.met = costs.persistent + renewed.result.found.transient_peak <= *memory_limit;
  }
  if (latency_limit) renewed.result.met = renewed.result.found.seconds <= *latency_limit;
  return renewed;
}

PyLowerBound bound_of(const PyGraph& g, const PyDevice& device, bool fission,
                      std::optional<Bytes> host_memory) {
  const DeviceProfile& profile = profile_of(device);
  const CostTable costs = make_cost_table(*g.graph, profile);
  const bool swap = host_memory.value_or(profile.host_memory) > 0;
  const LowerBound bound = fission ? lower_bound_with_fission(*g.graph, profile, swap)
                                   : lower_bound(*g.graph, costs, {.swap = swap});
  return {bound.bytes, costs.persistent, bound_reason(*g.graph, bound)};
}

}  // namespace

void bind_optimize(nb::module_& m) {
  nb::class_<PyLowerBound>(m, "LowerBound")
      .def_ro("bytes", &PyLowerBound::bytes)
      .def_ro("persistent_bytes", &PyLowerBound::persistent)
      .def_ro("reason", &PyLowerBound::reason);
  m.def("lower_bound", &bound_of, "graph"_a, nb::kw_only(), "device"_a, "fission"_a = true,
        "host_memory"_a = nb::none());
  nb::class_<Progress>(m, "Progress")
      .def_ro("best_peak_bytes", &Progress::best_peak)
      .def_ro("best_seconds", &Progress::best_seconds)
      .def_ro("met", &Progress::met)
      .def_ro("states_scored", &Progress::states_scored)
      .def_ro("states_evaluated", &Progress::states_evaluated)
      .def_ro("elapsed", &Progress::elapsed)
      .def_ro("lower_bound_bytes", &Progress::bound);
  using R = const PyResult&;
  nb::class_<PyResult>(m, "Result")
      .def_ro("plan", &PyResult::plan)
      .def_ro("history", &PyResult::history)
      .def_prop_ro("source", [](R r) { return PyGraph{r.source}; })
      .def("with_plan", &with_plan, "plan"_a, nb::kw_only(), "device"_a,
           "memory_limit"_a = nb::none(), "latency_limit"_a = nb::none())
      .def_prop_ro("regions", [](R r) { return region_count(r.result.regions); })
      .def_prop_ro("baseline_peak_bytes",
                   [](R r) { return r.persistent + r.result.baseline.transient_peak; })
      .def_prop_ro("baseline_seconds", [](R r) { return r.result.baseline.seconds; })
      .def_prop_ro("peak_bytes", [](R r) { return r.persistent + r.result.found.transient_peak; })
      .def_prop_ro("seconds", [](R r) { return r.result.found.seconds; })
      .def_ro("persistent_bytes", &PyResult::persistent)
      .def_prop_ro("lower_bound_bytes", [](R r) { return r.result.bound.bytes; })
      .def_ro("lower_bound_reason", &PyResult::bound_reason)
      .def_prop_ro("met", [](R r) { return r.result.met; })
      .def_prop_ro("stop_reason", [](R r) { return std::string(to_text(r.result.stop_reason)); })
      .def_prop_ro("states_scored", [](R r) { return r.result.states_scored; })
      .def_prop_ro("states_evaluated", [](R r) { return r.result.states_evaluated; })
      .def_prop_ro("states_repeated", [](R r) { return r.result.states_repeated; })
      .def_prop_ro("phase_seconds",
                   [](R r) {
                     const PhaseSeconds& phases = r.result.phases;
                     nb::dict seconds;
                     seconds["transform"] = phases.transform;
                     seconds["schedule"] = phases.schedule;
                     seconds["simulate"] = phases.simulate;
                     seconds["hash"] = phases.hash;
                     return seconds;
                   })
      .def_prop_ro("wall_seconds", [](R r) { return r.result.wall_seconds; })
      .def_prop_ro("cpu_seconds", [](R r) { return r.result.cpu_seconds; })
      .def_prop_ro("recomputed", [](R r) { return r.result.recomputed; })
      .def_prop_ro("swapped", [](R r) { return r.result.swapped; })
      .def_prop_ro("exposed_seconds", [](R r) { return r.result.found.exposed; })
      .def_prop_ro("host_bytes", [](R r) { return r.result.found.host_peak; });
  m.def("optimize", &run, "graph"_a, nb::kw_only(), "device"_a, "memory_limit"_a = nb::none(),
        "latency_limit"_a = nb::none(), "time_budget"_a = 10.0, "state_budget"_a = 0, "seed"_a = 0,
        "threads"_a = 1, "search_memory"_a = Bytes{1} << 30, "fission"_a = true, "exact"_a = false,
        "batch_parts"_a = 0, "host_memory"_a = nb::none(), "strategy"_a = "default",
        "random_fission"_a = false, "naive_schedule_rules"_a = false,
        "max_level"_a = PaperOptions{}.max_level, "recompute"_a = true, "rewrite"_a = true,
        "without_rules"_a = std::vector<std::string>(), "progress"_a = nb::none());
  m.def("find_frontier", &run_frontier, "graph"_a, nb::kw_only(), "device"_a,
        "time_budget"_a = 30.0, "state_budget"_a = 0, "seed"_a = 0, "threads"_a = 1,
        "search_memory"_a = Bytes{1} << 30, "fission"_a = true, "exact"_a = false,
        "host_memory"_a = nb::none(), "recompute"_a = true, "rewrite"_a = true,
        "without_rules"_a = std::vector<std::string>(), "progress"_a = nb::none());
}

}  // namespace magis
