// Fission around the scheduling search: which regions run in parts, and in parts of what length.
//
// The graph with its losses opened is where regions are looked for; one that is taken is split in
// the graph given, with only those losses opened that the region holds. Every (region, part length)
// is first counted as it is, in program order; the most promising get a short search; the best of
// those gets one region more, beside the others or inside one, chosen by what is live at its peak,
// as long as that helps; the best few share what is left of the budget.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "magis/transform/opening.h"
#include "search/budget.h"
#include "search/objective.h"
#include "search/part_lengths.h"

namespace magis {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) {
  return std::chrono::duration<Seconds>(Clock::now() - start).count();
}

// Losses count in their opened form: that is what a region would hold.
LowerBound lower_bound_of(const OpenedGraph& opened, const DeviceProfile& profile, bool swap) {
  const CostTable costs = make_cost_table(opened.graph, profile);
  LowerBound bound = lower_bound(opened.graph, costs, {.fission = true, .swap = swap});
  if (bound.op.valid()) bound.op = opened.origin[bound.op];
  return bound;
}

bool adds_parts(const Graph& graph) {
  return std::ranges::any_of(graph.operators(), [](const Operator& op) {
    const std::string& name = op.info->name;
    return name == "magis.add_part" || name == "magis.mul_part" || name == "magis.add_mm_part" ||
           name == "magis.add_bmm_part";
  });
}

class FissionSearch {
 public:
  FissionSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : source_(graph),
        profile_(profile),
        options_(options),
        costs_(make_cost_table(graph, profile)),
        objective_(options.limit, costs_.persistent),
        ground_(graph, profile),
        start_(Clock::now()) {}

  OptimizeResult run() {
    // A part of the budget goes into the graph as it is: what needs no loop gets none.
    best_ = searched(source_, costs_, kUnsplitShare * options_.time_budget, 4);
    best_cost_ = cost_of(best_);
    has_best_ = true;
    best_.bound = lower_bound_of(ground_.opened(), profile_,
                                 options_.host_memory.value_or(profile_.host_memory) > 0);
    if (options_.batch_parts > 0) {
      search_as_asked();
    } else if (!is_perfect() && !stopped()) {
      search_regions();
    }
    best_.states_evaluated = evaluated_;
    best_.states_scored = scored_;
    best_.stop_reason = interrupted_  ? StopReason::interrupted
                        : left() <= 0 ? StopReason::time_budget
                        : options_.state_budget > 0 && evaluated_ >= options_.state_budget
                            ? StopReason::state_budget
                            : StopReason::converged;
    best_.wall_seconds = since(start_);
    best_.cpu_seconds = process_seconds() - cpu_start_;
    return std::move(best_);
  }

 private:
  static constexpr double kUnsplitShare = 0.15;
  static constexpr double kSieveShare = 0.12;
  static constexpr double kScreeningShare = 0.2;
  static constexpr int kLabellings = 64;
  static constexpr int kRegionsPerSize = 3;  // sizes within a factor of the square root of two
  static constexpr std::size_t kPartLengths = 10;
  static constexpr std::size_t kScreened = 10;
  static constexpr int kExtensions = 3;
  static constexpr std::size_t kExtended = 9;  // trials
  static constexpr double kDeepShare = 0.08;
  static constexpr double kExtensionShare = 0.12;
  static constexpr std::size_t kFinalists = 3;

  struct Trial {
    std::vector<FissionRegion> regions;  // of the opened graph
    Cost cost;
    Hotspots hotspots;  // once it was searched
  };

  // ---- the budget

  Seconds left() const { return options_.time_budget - since(start_); }
  bool stopped() const {
    return interrupted_ || left() <= 0 ||
           (options_.state_budget > 0 && evaluated_ >= options_.state_budget);
  }
  // Options for one search within the whole: at most `seconds`, and 1 / `share` of the states left.
  OptimizeOptions slice(Seconds seconds, int64_t share) {
    OptimizeOptions options = options_;
    options.time_budget = std::max(0.0, std::min(seconds, left()));
    if (options_.state_budget > 0) {
      options.state_budget =
          std::max<int64_t>(1, (options_.state_budget - evaluated_ + share - 1) / share);
    }
    options.progress = [this](const Progress& progress) { return report(progress); };
    return options;
  }
  // What one search says about itself, as part of the whole.
  bool report(const Progress& inner) {
    if (!options_.progress) return true;
    Progress progress = inner;
    const Cost cost{inner.best_peak - costs_.persistent, to_picoseconds(inner.best_seconds)};
    if (has_best_ && objective_.better(best_cost_, cost)) {
      progress.best_peak = best_cost_.peak + costs_.persistent;
      progress.best_seconds = to_seconds(best_cost_.time);
      progress.met = best_.met;
    }
    progress.states_scored += scored_;
    progress.states_evaluated += evaluated_;
    progress.elapsed = since(start_);
    interrupted_ = !options_.progress(progress);
    return !interrupted_;
  }

  // ---- results

  static Cost cost_of(const OptimizeResult& result) {
    return {result.found.transient_peak, to_picoseconds(result.found.seconds)};
  }
  bool is_perfect() const {
    return best_.met && objective_.limits_memory() &&
           best_cost_.time <= to_picoseconds(best_.baseline.seconds);
  }
  void offer(OptimizeResult result, const std::vector<FissionRegion>& regions, Graph split) {
    if (!objective_.better(cost_of(result), best_cost_)) return;
    result.baseline = best_.baseline;
    result.bound = best_.bound;
    result.split = std::move(split);
    result.regions = regions;
    best_cost_ = cost_of(result);
    best_ = std::move(result);
  }

  // ---- trials

  // The one region that the user named, whatever it costs.
  void search_as_asked() {
    Trial trial{{ground_.batch_region(options_.batch_parts)}, {}, {}};
    const OptimizeResult unsplit = std::move(best_);
    best_ = {};
    has_best_ = false;
    std::variant<Graph, std::string> made = ground_.split(trial.regions);
    if (const auto* why = std::get_if<std::string>(&made)) {
      throw UserError("the batch cannot run in parts: " + *why);
    }
    Graph graph = std::get<Graph>(std::move(made));
    OptimizeResult result = searched(graph, make_cost_table(graph, profile_), left(), 1);
    result.baseline = unsplit.baseline;
    result.bound = unsplit.bound;
    result.regions = trial.regions;
    result.split = std::move(graph);
    best_ = std::move(result);
    best_cost_ = cost_of(best_);
  }

  // Regions of all sizes: a loss head of seven operators costs less time than half the network.
  void find_regions() {
    std::map<int, int> of_size;
    CandidateOptions options;
    options.labelling_limit = kLabellings;  // more have found no other regions on the zoo's models
    for (FissionCandidate& found : ground_.candidates(options)) {
      const auto count = static_cast<double>(found.region.operators.size());
      if (++of_size[static_cast<int>(2 * std::log2(count))] > kRegionsPerSize) continue;
      regions_.push_back(std::move(found.region));
    }
  }

  // Every region in every number of parts, and masks as bits alone.
  std::vector<Trial> single_trials() {
    std::vector<Trial> trials;
    if (!openable_masks(source_).empty()) trials.emplace_back();
    for (const FissionRegion& region : regions_) {
      for (const int64_t part : part_lengths(region.length, kPartLengths)) {
        trials.push_back({{region}, {}, {}});
        trials.back().regions[0].part = part;
      }
    }
    return trials;
  }

  // `trial` with one region more, beside the others or inside one: those that save most of what is
  // live at its peak now.
  std::vector<Trial> extensions(const Trial& trial) {
    std::vector<std::pair<Bytes, const FissionRegion*>> by_saving;
    for (const FissionRegion& region : regions_) {
      const Bytes saving = estimated_saving(ground_.axes(), region, trial.hotspots);
      if (saving > 0) by_saving.emplace_back(-saving, &region);
    }
    std::ranges::stable_sort(by_saving, {}, [](const auto& pair) { return pair.first; });
    std::vector<Trial> trials;
    for (const auto& [saving, region] : by_saving) {
      if (trials.size() >= kExtended) break;
      add_trials_beside(trial.regions, *region, trials);
      for (std::size_t c = 0; c < trial.regions.size(); ++c) {
        add_nested_trials(trial.regions, c, *region, trials);
      }
    }
    return trials;
  }

  void add_trials_beside(const std::vector<FissionRegion>& chosen, const FissionRegion& region,
                         std::vector<Trial>& trials) {
    std::vector<FissionRegion> beside = chosen;
    beside.push_back(region);
    if (why_invalid(ground_.axes(), beside)) return;
    for (const int64_t part : halved_lengths(region.length)) {
      beside.back().part = part;
      trials.push_back({beside, {}, {}});
    }
  }

  void add_nested_trials(const std::vector<FissionRegion>& chosen, std::size_t outer,
                         const FissionRegion& region, std::vector<Trial>& trials) {
    if (!std::ranges::includes(chosen[outer].operators, region.operators)) return;
    FissionRegion around = chosen[outer];
    add_child(around, region, region.length);
    const int64_t length = around.children.back().length;
    if (length < 2 || why_invalid(ground_.axes(), around)) return;
    for (const int64_t part : halved_lengths(length)) {
      around.children.back().part = part;
      std::vector<FissionRegion> nested = chosen;
      nested[outer] = around;
      trials.push_back({std::move(nested), {}, {}});
    }
  }

  // Counts trials as they are, until `until`; the most promising first.
  std::vector<Trial> sieved(std::vector<Trial> trials, Seconds until) {
    std::vector<Trial> counted;
    // In strides, so that when time is short all regions have been looked at in some length.
    constexpr std::size_t kStride = 5;
    for (std::size_t first = 0; first < kStride; ++first) {
      for (std::size_t t = first; t < trials.size(); t += kStride) {
        if (interrupted_ || since(start_) > until) break;
        if (count_plain(trials[t])) counted.push_back(std::move(trials[t]));
      }
    }
    std::ranges::stable_sort(counted, {}, [&](const Trial& trial) { return promise(trial.cost); });
    return counted;
  }

  // What a schedule search may make of a plain cost: what exceeds the limit is bought off, and what
  // is left below it sold, at the price that recomputation had in the unsplit graph.
  double promise(const Cost& cost) const {
    const auto peak = static_cast<double>(cost.peak);
    const auto time = static_cast<double>(cost.time);
    if (!objective_.limits_memory()) {
      const double left = static_cast<double>(objective_.time_limit()) - time;
      return left < 0 ? 1e30 - left : peak - left / price_;
    }
    return time + price_ * std::max(0.0, peak - static_cast<double>(objective_.peak_limit()));
  }

  // Picoseconds a byte.
  void find_price() {
    const auto bytes =
        static_cast<double>(best_.baseline.transient_peak - best_.found.transient_peak);
    const auto time = static_cast<double>(best_cost_.time - to_picoseconds(best_.baseline.seconds));
    const double average = static_cast<double>(to_picoseconds(best_.baseline.seconds)) /
                           static_cast<double>(std::max<Bytes>(best_.baseline.transient_peak, 1));
    price_ = bytes > 0 && time > 0 ? time / bytes : average;
  }

  void search_regions() {
    find_price();
    find_regions();
    std::vector<Trial> trials =
        sieved(single_trials(), since(start_) + kSieveShare * options_.time_budget);
    if (trials.size() > kScreened) trials.resize(kScreened);
    screen(trials, since(start_) + kScreeningShare * options_.time_budget);
    sort(trials);
    for (int round = 0; round < kExtensions && !trials.empty(); ++round) {
      if (stopped() || is_perfect()) return;
      search_trial(trials.front(), kDeepShare * options_.time_budget, 4);
      std::vector<Trial> extended = extensions(trials.front());
      screen(extended, since(start_) + kExtensionShare * options_.time_budget);
      const Cost before = trials.front().cost;
      std::ranges::move(extended, std::back_inserter(trials));
      sort(trials);
      if (trials.front().cost == before) break;
    }
    if (trials.size() > kFinalists) trials.resize(kFinalists);
    for (std::size_t f = 0; f < trials.size(); ++f) {
      const auto remaining = static_cast<int64_t>(trials.size() - f);
      search_trial(trials[f], left() / static_cast<double>(remaining), remaining);
    }
  }

  // Searches each trial shortly. Those that were not searched are left out: one that cannot be
  // split, and all that come after the end of the search, have neither cost nor hotspots.
  void screen(std::vector<Trial>& trials, Seconds until) {
    for (std::size_t t = 0; t < trials.size(); ++t) {
      const auto remaining = static_cast<int64_t>(trials.size() - t);
      const Seconds seconds = (until - since(start_)) / static_cast<double>(remaining);
      search_trial(trials[t], seconds, 2 * remaining);
    }
    std::erase_if(trials, [](const Trial& trial) { return trial.hotspots.empty(); });
  }

  void sort(std::vector<Trial>& trials) const {
    std::ranges::stable_sort(
        trials, [&](const Trial& a, const Trial& b) { return objective_.better(a.cost, b.cost); });
  }

  // A region that types or layouts keep from being split is none.
  std::optional<Graph> split(const Trial& trial) const {
    std::variant<Graph, std::string> made = ground_.split(trial.regions);
    if (!std::holds_alternative<Graph>(made)) return std::nullopt;
    if (options_.exact && adds_parts(std::get<Graph>(made))) return std::nullopt;
    return std::get<Graph>(std::move(made));
  }

  bool count_plain(Trial& trial) {
    const std::optional<Graph> graph = split(trial);
    if (!graph) return false;
    const CostTable costs = make_cost_table(*graph, profile_);
    const std::optional<Program> program = lower(*graph, program_order(*graph));
    const Footprint found = footprint(*graph, *program, costs);
    trial.cost = {found.transient_peak, to_picoseconds(found.seconds)};
    ++evaluated_;
    return true;
  }

  // One search within the whole, its states counted.
  OptimizeResult searched(const Graph& graph, const CostTable& costs, Seconds seconds,
                          int64_t share) {
    OptimizeResult result = optimize_schedule(graph, costs, slice(seconds, share));
    evaluated_ += result.states_evaluated;
    scored_ += result.states_scored;
    return result;
  }

  void search_trial(Trial& trial, Seconds seconds, int64_t share) {
    if (stopped() || is_perfect()) return;
    std::optional<Graph> graph = split(trial);
    if (!graph) return;
    const CostTable costs = make_cost_table(*graph, profile_);
    OptimizeResult result = searched(*graph, costs, seconds, share);
    trial.cost = cost_of(result);
    trial.hotspots = ground_.hotspots(*graph, result.decisions, costs);
    offer(std::move(result), trial.regions, *std::move(graph));
  }

  const Graph& source_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const CostTable costs_;
  const Objective objective_;
  const FissionGround ground_;
  const Clock::time_point start_;
  const Seconds cpu_start_ = process_seconds();
  std::vector<FissionRegion> regions_;  // candidates
  double price_ = 0;
  OptimizeResult best_;
  Cost best_cost_;
  bool has_best_ = false;
  bool interrupted_ = false;
  int64_t evaluated_ = 0;
  int64_t scored_ = 0;
};

}  // namespace

LowerBound lower_bound_with_fission(const Graph& graph, const DeviceProfile& profile, bool swap) {
  return lower_bound_of(open(graph, openable_operators(graph)), profile, swap);
}

OptimizeResult optimize(const Graph& graph, const DeviceProfile& profile,
                        const OptimizeOptions& options) {
  if (!options.fission) return optimize_schedule(graph, make_cost_table(graph, profile), options);
  return FissionSearch(graph, profile, options).run();
}

}  // namespace magis
