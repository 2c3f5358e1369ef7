#include "search/fission_search.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "magis/base/error.h"
#include "magis/transform/opening.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

// Shares of the budget.
constexpr double kReorderShare = 0.1;
constexpr double kShortShare = 0.05;
constexpr double kReorderingShare = 0.15;  // of a search that has to find good orders, too

// Losses count in their opened form: that is what a region would hold.
LowerBound lower_bound_of(const OpenedGraph& opened, const DeviceProfile& profile, bool swap) {
  const CostTable costs = make_cost_table(opened.graph, profile);
  LowerBound bound = lower_bound(opened.graph, costs, {.fission = true, .swap = swap});
  if (bound.op.valid()) bound.op = opened.origin[bound.op];
  return bound;
}

Cost cost_of(const OptimizeResult& result) {
  return {result.found.transient_peak, to_picoseconds(result.found.seconds)};
}

// The regions alone, whatever their parts.
std::vector<FissionRegion> without_parts(std::vector<FissionRegion> regions) {
  for (FissionRegion& region : regions) {
    region.part = region.length = 0;
    region.children = without_parts(std::move(region.children));
  }
  return regions;
}

}  // namespace

FissionSearch::FissionSearch(const Graph& graph, const DeviceProfile& profile,
                             const OptimizeOptions& options, std::optional<Footprint> baseline)
    : source_(graph),
      profile_(profile),
      baseline_(baseline),
      options_(options),
      costs_(make_cost_table(graph, profile)),
      objective_(options.limit, costs_.persistent),
      monitor_(options_, costs_.persistent),
      crew_(options.threads),
      ground_(options.fission ? std::make_unique<FissionGround>(graph, profile) : nullptr),
      bound_(find_bound()),
      searcher_(graph, costs_, profile, options_, bound_, ground_.get()),
      span_(whole_span()) {
  monitor_.set_bound(bound_.bytes);
}

LowerBound FissionSearch::find_bound() const {
  const bool swap = options_.host_memory.value_or(profile_.host_memory) > 0;
  return ground_ ? lower_bound_of(ground_->opened(), profile_, swap)
                 : lower_bound(source_, costs_, {.swap = swap});
}

OptimizeResult FissionSearch::run() {
  reorder();
  if (options_.batch_parts > 0) {
    search_as_asked();
  } else if (!done()) {
    search_trials();
  }
  best_.states_evaluated = monitor_.evaluated();
  best_.states_scored = monitor_.scored();
  best_.stop_reason = stop_reason();
  best_.wall_seconds = monitor_.elapsed();
  best_.cpu_seconds = process_seconds() - cpu_start_;
  return std::move(best_);
}

// ---- the budget

FissionSearch::Span FissionSearch::whole_span() const {
  return {.begin = 0,
          .end = options_.time_budget,
          .states_end = options_.state_budget > 0 ? options_.state_budget
                                                  : std::numeric_limits<int64_t>::max()};
}

double FissionSearch::used() const {
  const double time = (monitor_.elapsed() - span_.begin) / (span_.end - span_.begin);
  const double states = static_cast<double>(monitor_.evaluated() - span_.states_begin) /
                        static_cast<double>(span_.states_end - span_.states_begin);
  return std::max(time, states);
}

// A step that fits without a region is left alone; where one is needed, another may be faster.
bool FissionSearch::is_perfect() const {
  return best_.met && objective_.limits_memory() && best_cost_.time <= fastest_ &&
         (looked_at_all_ || best_.regions.empty());
}

StopReason FissionSearch::stop_reason() const {
  if (monitor_.interrupted()) return StopReason::interrupted;
  if (monitor_.elapsed() >= options_.time_budget) return StopReason::time_budget;
  if (options_.state_budget > 0 && monitor_.evaluated() >= options_.state_budget) {
    return StopReason::state_budget;
  }
  return StopReason::converged;
}

// `share` of the span's budget for each of `count` side by side.
Allowance FissionSearch::allowance(double share, std::size_t count, double patience) const {
  Allowance allowance{.seconds = std::max(0.0, std::min(span_.share(share), left())),
                      .patience = patience,
                      .round = round_,
                      .memory = options_.search_memory / static_cast<Bytes>(kBatch + 1),
                      .archives = archives_};
  if (options_.state_budget > 0) {
    const auto whole = static_cast<double>(span_.states_end - span_.states_begin);
    const auto equal = states_left() / static_cast<int64_t>(count);
    allowance.states = std::max<int64_t>(1, std::min(static_cast<int64_t>(share * whole), equal));
  }
  return allowance;
}

// ---- batches

void FissionSearch::search(const std::vector<Task>& batch) {
  std::vector<std::optional<SearchedTrial>> found(batch.size());
  monitor_.begin(batch.size());
  const auto run = [&](std::size_t i) {
    if (i > 0 && stopped()) return;
    Allowance allowance = batch[i].allowance;
    allowance.seconds = std::max(0.0, std::min(allowance.seconds, left()));
    if (!allowance.reorders) allowance.known = known_orders(*batch[i].trial);
    found[i] = searcher_.search(*batch[i].trial, allowance, [&, i](const Progress& progress) {
      return monitor_.report(i, progress);
    });
  };
  crew_.run(batch.size(), run, [&] { monitor_.tell(); });
  monitor_.begin(0);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (found[i]) take(*batch[i].trial, *std::move(found[i]));
  }
}

// The first `count` of `trials`.
std::vector<FissionSearch::Task> FissionSearch::short_batch(std::vector<Trial>& trials,
                                                            std::size_t count) {
  std::vector<Task> batch;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = known_orders(trials[i]) ? kShortShare : kReorderingShare;
    batch.push_back({&trials[i], allowance(share, count, 1)});
  }
  return batch;
}

const KnownOrders* FissionSearch::known_orders(const Trial& trial) const {
  if (trial.unsplit) return nullptr;  // it is searched once, and so are masks as bits
  const auto found = std::ranges::find(known_, without_parts(trial.regions),
                                       &std::pair<std::vector<FissionRegion>, KnownOrders>::first);
  return found == known_.end() ? nullptr : &found->second;
}

// What a search found, if it is better than what is known.
void FissionSearch::take(Trial& trial, SearchedTrial found) {
  monitor_.count(found.result.states_scored, found.result.states_evaluated);
  archive(found, trial);
  trial.reordered = trial.reordered || !found.orders.orders.empty();
  if (!found.orders.orders.empty() && !trial.unsplit && known_orders(trial) == nullptr) {
    known_.emplace_back(without_parts(trial.regions), std::move(found.orders));
  }
  const Cost cost = cost_of(found.result);
  rate_->learn(trial.plain, cost);
  if (!found.constructed.order.empty()) trial.constructed = std::move(found.constructed);
  if (!trial.searched || objective_.better(cost, trial.cost)) {
    trial.searched = true;
    trial.cost = cost;
    trial.hotspots = std::move(found.hotspots);
    trial.best = found.result.decisions;
  }
  if (objective_.better(cost, best_cost_)) {
    set_best(std::move(found.result), trial.regions, std::move(found.graph));
  }
}

void FissionSearch::set_best(OptimizeResult result, const std::vector<FissionRegion>& regions,
                             std::shared_ptr<const Graph> split) {
  result.baseline = best_.baseline;
  result.bound = bound_;
  result.split = std::move(split);
  result.regions = regions;
  best_cost_ = cost_of(result);
  best_ = std::move(result);
  monitor_.set_best(best_cost_, best_.met);
}

// ---- one limit

// A better order alone, which takes no time to find: what needs no loop gets none.
void FissionSearch::reorder() {
  constexpr int64_t kStates = 8;
  OptimizeOptions options = options_;
  options.time_budget = span_.share(kReorderShare);
  options.state_budget =
      options_.state_budget > 0 ? std::min(kStates, options_.state_budget) : kStates;
  monitor_.begin(1);
  options.progress = [&](const Progress& progress) { return monitor_.report(0, progress); };
  OptimizeResult result = search_schedule(source_, costs_, options, {.bound = &bound_});
  monitor_.begin(0);
  monitor_.count(result.states_scored, result.states_evaluated);
  program_order_ = result.baseline;
  fastest_ = to_picoseconds(program_order_.seconds);
  best_.baseline = baseline_.value_or(program_order_);
  set_best(std::move(result), {}, nullptr);
}

// The one region that the user named, whatever it costs.
void FissionSearch::search_as_asked() {
  Trial trial{.regions = {ground_->batch_region(options_.batch_parts)}};
  const std::variant<Graph, std::string> made = ground_->split(trial.regions);
  if (const auto* why = std::get_if<std::string>(&made)) {
    throw UserError("the batch cannot run in parts: " + *why);
  }
  monitor_.begin(1);
  std::optional<SearchedTrial> found =
      searcher_.search(trial, allowance(1, 1, 0),
                       [&](const Progress& progress) { return monitor_.report(0, progress); });
  monitor_.begin(0);
  if (!found) throw UserError("the batch cannot run in parts without adding up sums");
  monitor_.count(found->result.states_scored, found->result.states_evaluated);
  set_best(std::move(found->result), trial.regions, std::move(found->graph));
}

LowerBound lower_bound_with_fission(const Graph& graph, const DeviceProfile& profile, bool swap) {
  return lower_bound_of(open(graph, openable_operators(graph)), profile, swap);
}

}  // namespace magis
