#include "search/trials.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "search/part_lengths.h"

namespace magis {
namespace {

constexpr int kLabellings = 64;  // more have found no other regions on the zoo's models
constexpr int kFirstLabellings = 2;
constexpr std::size_t kFirstPartLengths = 5;
constexpr int kRegionsPerSize = 3;  // sizes within a factor of the square root of two
constexpr std::size_t kPartLengths = 16;
constexpr std::size_t kExtensions = 24;

}  // namespace

std::vector<Trial> first_trials(const FissionGround& ground, std::function<bool()> stop) {
  CandidateOptions options;
  options.stop = std::move(stop);
  options.labelling_limit = kFirstLabellings;
  options.regions_per_labelling = 1;
  options.waist_limit = 0;
  std::vector<Trial> trials;
  std::vector<FissionCandidate> found = ground.candidates(options);
  if (found.empty()) return trials;
  for (const int64_t part : part_lengths(found.front().region.length, kFirstPartLengths)) {
    trials.push_back({.regions = {found.front().region}});
    trials.back().regions[0].part = part;
  }
  return trials;
}

TrialMaker::TrialMaker(const FissionGround& ground, std::function<bool()> stop) : ground_(ground) {
  CandidateOptions options;
  options.labelling_limit = kLabellings;
  options.stop = std::move(stop);
  std::map<int, int> of_size;
  for (FissionCandidate& found : ground.candidates(options)) {
    const auto count = static_cast<double>(found.region.operators.size());
    if (++of_size[static_cast<int>(2 * std::log2(count))] <= kRegionsPerSize) {
      chosen_.push_back(regions_.size());
    }
    regions_.push_back(std::move(found.region));
  }
}

std::vector<Trial> TrialMaker::trials_of(std::size_t region) const {
  const FissionRegion& chosen = regions_[chosen_[region]];
  std::vector<Trial> trials;
  for (const int64_t part : part_lengths(chosen.length, kPartLengths)) {
    trials.push_back({.regions = {chosen}});
    trials.back().regions[0].part = part;
  }
  return trials;
}

std::vector<Trial> TrialMaker::extensions(const Trial& trial) const {
  std::vector<std::pair<Bytes, const FissionRegion*>> by_saving;
  const TensorSizes sizes = sizes_in_parts(ground_.axes(), trial.regions);
  for (const FissionRegion& region : regions_) {
    const Bytes saving = estimated_saving(ground_.axes(), region, trial.hotspots, sizes);
    if (saving > 0) by_saving.emplace_back(-saving, &region);
  }
  std::ranges::stable_sort(by_saving, {}, [](const auto& pair) { return pair.first; });
  std::vector<Trial> trials;
  for (const auto& [saving, region] : by_saving) {
    if (trials.size() >= kExtensions) break;
    add_beside(trial.regions, *region, trials);
    for (std::size_t c = 0; c < trial.regions.size(); ++c) {
      add_nested(trial.regions, c, *region, trials);
    }
  }
  return trials;
}

void TrialMaker::add_beside(const std::vector<FissionRegion>& chosen, const FissionRegion& region,
                            std::vector<Trial>& trials) const {
  std::vector<FissionRegion> beside = chosen;
  beside.push_back(region);
  if (why_invalid(ground_.axes(), beside)) return;
  for (const int64_t part : halved_lengths(region.length)) {
    beside.back().part = part;
    trials.push_back({.regions = beside});
  }
}

void TrialMaker::add_nested(const std::vector<FissionRegion>& chosen, std::size_t outer,
                            const FissionRegion& region, std::vector<Trial>& trials) const {
  if (!std::ranges::includes(chosen[outer].operators, region.operators)) return;
  FissionRegion around = chosen[outer];
  add_child(around, region, region.length);
  const int64_t length = around.children.back().length;
  if (length < 2 || why_invalid(ground_.axes(), around)) return;
  for (const int64_t part : halved_lengths(length)) {
    around.children.back().part = part;
    std::vector<FissionRegion> nested = chosen;
    nested[outer] = around;
    trials.push_back({.regions = std::move(nested)});
  }
}

}  // namespace magis
