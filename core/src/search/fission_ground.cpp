#include "magis/search/fission_ground.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "magis/analysis/largest_region.h"
#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "magis/simulate/simulate.h"
#include "magis/transform/fission.h"

namespace magis {
namespace {

// What is live when the program in its own order needs the most.
Hotspots hotspots_of(const Graph& graph, const CostTable& costs) {
  const std::optional<Program> program = lower(graph, program_order(graph));
  Hotspots bytes(graph.tensors().size(), 0);
  for (const CopyRef& live : simulate(graph, *program, costs).hotspots) {
    bytes[live.tensor] = costs.bytes[live.tensor];
  }
  return bytes;
}

// What the batch brings along its first dimension.
std::vector<TensorId> batch_tensors(const Graph& graph) {
  std::vector<TensorId> tensors;
  for (const Input& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    if (input.kind == InputKind::batch && !value.type.shape.empty()) {
      tensors.push_back(value.tensor);
    }
  }
  return tensors;
}

using OpsByName = std::unordered_map<std::string_view, OpId>;

// `region` of `from`, in the graph where `by_name` finds its operators.
void carry_over(FissionRegion& region, const Graph& from, const OpsByName& by_name) {
  for (OpId& op : region.operators) {
    const auto found = by_name.find(from.name(op));
    MAGIS_CHECK(found != by_name.end(), from.name(op) << " is not there");
    op = found->second;
  }
  for (FissionRegion& child : region.children) carry_over(child, from, by_name);
}

// Operators outside `held` that stand on a path from one of them to another.
std::set<OpId> between(const Graph& graph, const std::set<OpId>& held) {
  IdMap<OpId, bool> after(graph.op_count(), false);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    after[OpId(i)] = std::ranges::any_of(graph.predecessors(OpId(i)), [&](OpId before) {
      return after[before] || held.contains(before);
    });
  }
  IdMap<OpId, bool> before(graph.op_count(), false);
  std::set<OpId> found;
  for (std::size_t i = graph.op_count(); i-- > 0;) {
    const OpId op(i);
    before[op] = std::ranges::any_of(graph.successors(op), [&](OpId follower) {
      return before[follower] || held.contains(follower);
    });
    if (after[op] && before[op] && !held.contains(op)) found.insert(op);
  }
  return found;
}

}  // namespace

FissionGround::FissionGround(const Graph& graph, const DeviceProfile& profile)
    : source_(graph),
      profile_(profile),
      openable_(openable_operators(graph)),
      masks_(openable_masks(graph)),
      opened_(open(graph, openable_)),
      axes_(opened_.graph) {}

std::vector<FissionCandidate> FissionGround::candidates(const CandidateOptions& options) const {
  const CostTable costs = make_cost_table(opened_.graph, profile_);
  return fission_candidates(axes_, hotspots_of(opened_.graph, costs), options);
}

FissionRegion FissionGround::batch_region(int64_t parts) const {
  const Graph& graph = axes_.graph();
  std::vector<OpId> all;
  OpWeights weights;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    all.emplace_back(i);
    int64_t weight = 1;
    for (const TensorId made : graph.makes(OpId(i))) weight += graph.tensor(made).bytes;
    weights.push_back(weight);
  }
  std::optional<FissionRegion> largest;
  for (const TensorId input : batch_tensors(graph)) {
    std::optional<FissionRegion> region =
        largest_region(axes_, grow_from_input(axes_, input, 0), all, weights);
    if (region && (!largest || region->operators.size() > largest->operators.size())) {
      largest = std::move(region);
    }
  }
  if (!largest) {
    std::string text = "no part of the step can run along the axis of the batch";
    for (const std::string& obstacle : batch_obstacles()) text += "; " + obstacle;
    throw UserError(text);
  }
  if (parts > largest->length) {
    throw UserError("the batch's axis has length " + std::to_string(largest->length) +
                    ": it has no " + std::to_string(parts) + " parts");
  }
  largest->part = (largest->length + parts - 1) / parts;
  return *std::move(largest);
}

std::vector<std::string> FissionGround::batch_obstacles() const {
  std::map<OpId, std::string> texts;
  for (const TensorId input : batch_tensors(axes_.graph())) {
    for (const Obstacle& obstacle : grow_from_input(axes_, input, 0).obstacles) {
      if (obstacle.reason == Obstacle::Reason::unlinked) continue;
      texts.emplace(obstacle.op, to_text(axes_, obstacle));
    }
  }
  std::vector<std::string> found;
  for (const auto& [op, text] : texts) found.push_back(text);
  return found;
}

Hotspots FissionGround::hotspots(const Graph& split, const Decisions& decisions,
                                 const CostTable& costs) const {
  const Graph& opened = axes_.graph();
  std::unordered_map<std::string_view, TensorId> by_name;
  for (std::size_t t = 0; t < opened.tensors().size(); ++t) {
    by_name[opened.value(opened.tensor(TensorId(t)).value).name] = TensorId(t);
  }
  Hotspots bytes(opened.tensors().size(), 0);
  const std::optional<Program> program = lower(split, decisions);
  MAGIS_CHECK(program.has_value(), "decisions that cannot be lowered");
  for (const CopyRef& live : simulate(split, *program, costs).hotspots) {
    std::string_view name = split.value(split.tensor(live.tensor).value).name;
    constexpr std::string_view kPartEnding = "_part";
    auto found = by_name.find(name);
    if (found == by_name.end() && name.ends_with(kPartEnding)) {
      name.remove_suffix(kPartEnding.size());
      found = by_name.find(name);
    }
    if (found != by_name.end()) bytes[found->second] += costs.bytes[live.tensor];
  }
  return bytes;
}

std::variant<Graph, std::string> FissionGround::split(
    std::span<const FissionRegion> regions) const {
  std::set<OpId> held;
  for (const FissionRegion& region : regions) {
    for (const OpId op : region.operators) held.insert(opened_.origin[op]);
  }
  // A loss that is not held can stand in the way as a whole: its backward needs the number of
  // labels, which an opened one counts apart from what the region computes.
  held.merge(between(source_, held));
  held.insert(masks_.begin(), masks_.end());
  std::vector<OpId> needed;
  for (const OpId op : openable_) {
    if (held.contains(op)) needed.push_back(op);
  }
  if (needed == openable_) return fission(opened_.graph, regions);
  const Graph graph = open(source_, needed).graph;
  OpsByName by_name;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    by_name[graph.name(OpId(i))] = OpId(i);
  }
  std::vector<FissionRegion> carried(regions.begin(), regions.end());
  for (FissionRegion& region : carried) carry_over(region, opened_.graph, by_name);
  return fission(graph, carried);
}

namespace {

// Units of `inner` in a part of `outer`; nothing if they are not on the same axis.
std::optional<int64_t> units_in_part(const FissionRegion& outer, const FissionRegion& inner) {
  const auto found = std::ranges::find(outer.operators, inner.operators.front());
  if (found == outer.operators.end()) return std::nullopt;
  const Label label = outer.labels[static_cast<std::size_t>(found - outer.operators.begin())];
  const Label own = inner.labels.front();
  if (label.axis != own.axis) return std::nullopt;
  return label.step / own.step * outer.part;
}

// `around`: from the outermost region to the one that `region` is a child of.
void fit_into(std::vector<const FissionRegion*>& around, FissionRegion& region) {
  for (auto outer = around.rbegin(); outer != around.rend(); ++outer) {
    const std::optional<int64_t> units = units_in_part(**outer, region);
    if (!units) continue;
    region.length = *units;
    break;
  }
  region.part = std::min(region.part, region.length);
  around.push_back(&region);
  for (FissionRegion& child : region.children) fit_into(around, child);
  around.pop_back();
}

}  // namespace

void add_child(FissionRegion& parent, FissionRegion child, int64_t part) {
  child.part = part;
  std::vector<const FissionRegion*> around{&parent};
  fit_into(around, child);
  parent.children.push_back(std::move(child));
}

}  // namespace magis
