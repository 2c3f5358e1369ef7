#include "magis/analysis/candidates.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "magis/analysis/largest_region.h"
#include "magis/base/hash.h"

namespace magis {
namespace {

Dependence dependence_of(const AxisGraph& axes, OpId op, TensorId made, Label label) {
  const auto& results = axes.graph().op(op).results;
  const auto result = std::ranges::find(results, axes.graph().tensor(made).value);
  const auto& rows = axes.signature(op)->dependence;
  return rows[static_cast<std::size_t>(result - results.begin())]
             [static_cast<std::size_t>(label.axis)];
}

// The members of one direction (forward or backward) of a labelling, and the places between them
// where little that is sliced is carried across.
class Direction {
 public:
  // `members`: consecutive in the labelling's order; from `begin` to `end` as positions in it.
  Direction(const AxisGraph& axes, const Labelling& labelling, std::size_t begin, std::size_t end)
      : begin_(begin), end_(end), width_(end - begin + 1, 0) {
    const Graph& graph = axes.graph();
    const auto& members = labelling.operators;
    const auto position = [&](OpId op) {
      return static_cast<std::size_t>(std::ranges::lower_bound(members, op) - members.begin());
    };
    // A tensor made by member m and last used by member k is carried across the places m+1 .. k.
    for (std::size_t m = begin; m < end; ++m) {
      const OpId op = members[m];
      for (const TensorId made : graph.makes(op)) {
        if (dependence_of(axes, op, made, labelling.labels[op]) != Dependence::sliced) continue;
        std::size_t last = m;
        for (const EdgeId use : graph.uses(made)) {
          const OpId reader = graph.edge_op(use);
          if (reader > members[end - 1]) break;
          if (labelling.contains(reader)) last = position(reader);
        }
        if (last == m) continue;
        width_[m + 1 - begin] += graph.tensor(made).bytes;
        if (last + 1 < end) width_[last + 1 - begin] -= graph.tensor(made).bytes;
      }
    }
    for (std::size_t i = 1; i < width_.size(); ++i) width_[i] += width_[i - 1];
  }

  // Begin, end, and up to `limit` places between, narrowest first, spread evenly where many are
  // equally narrow; in order.
  std::vector<std::size_t> waists(int limit) const {
    std::vector<std::size_t> inner;
    for (std::size_t i = 1; i + 1 < width_.size(); ++i) {
      if (width_[i] < width_[i - 1] && width_[i] <= width_[i + 1]) inner.push_back(i);
    }
    Bytes narrowest = 0;
    for (const std::size_t i : inner) {
      if (narrowest == 0 || width_[i] < narrowest) narrowest = width_[i];
    }
    // A residual stream is as wide at each of its waists; twice that is inside a block.
    std::erase_if(inner, [&](std::size_t i) { return width_[i] > narrowest + narrowest / 2; });
    std::vector<std::size_t> places{begin_};
    const std::size_t count = std::min(inner.size(), static_cast<std::size_t>(limit));
    for (std::size_t k = 0; k < count; ++k) {
      places.push_back(begin_ + inner[(2 * k + 1) * inner.size() / (2 * count)]);
    }
    places.push_back(end_);
    return places;
  }

 private:
  std::size_t begin_, end_;
  std::vector<Bytes> width_;  // at each place between members, from before the first
};

class Collector {
 public:
  Collector(const AxisGraph& axes, const Hotspots& hotspots, const CandidateOptions& options)
      : axes_(axes),
        hotspots_(hotspots),
        options_(options),
        weights_(hotspot_weights(axes.graph(), hotspots)),
        sizes_(sizes_in_parts(axes, {})) {}

  void add_labelling(const Labelling& labelling) {
    const std::vector<OpId>& members = labelling.operators;
    for (FissionRegion& region : largest_regions(axes_, labelling, members, weights_,
                                                 options_.regions_per_labelling, options_.stop)) {
      add(std::move(region));
    }
    const auto is_backward = [&](OpId op) { return axes_.graph().op(op).backward; };
    const auto middle =
        static_cast<std::size_t>(std::ranges::find_if(members, is_backward) - members.begin());
    std::vector<std::size_t> forward, backward;
    if (middle > 0) {
      forward = Direction(axes_, labelling, 0, middle).waists(options_.waist_limit);
    }
    if (middle < members.size()) {
      backward = Direction(axes_, labelling, middle, members.size()).waists(options_.waist_limit);
    }
    add_stretches(labelling, forward, forward);
    add_stretches(labelling, backward, backward);
    add_stretches(labelling, forward, backward);
  }

  std::vector<FissionCandidate> take() && {
    std::ranges::stable_sort(found_, [](const FissionCandidate& a, const FissionCandidate& b) {
      if (a.saving != b.saving) return a.saving > b.saving;
      if (a.region.operators.size() != b.region.operators.size()) {
        return a.region.operators.size() < b.region.operators.size();
      }
      return a.region.operators < b.region.operators;
    });
    if (found_.size() > static_cast<std::size_t>(options_.limit)) {
      found_.resize(static_cast<std::size_t>(options_.limit));
    }
    return std::move(found_);
  }

 private:
  void add_stretches(const Labelling& labelling, const std::vector<std::size_t>& begins,
                     const std::vector<std::size_t>& ends) {
    const std::span<const OpId> members = labelling.operators;
    for (const std::size_t begin : begins) {
      for (const std::size_t end : ends) {
        if (end <= begin || (begin == 0 && end == members.size())) continue;
        if (options_.stop && options_.stop()) return;
        auto region = largest_region(axes_, labelling, members.subspan(begin, end - begin),
                                     weights_, options_.stop);
        if (region) add(*std::move(region));
      }
    }
  }

  void add(FissionRegion region) {
    uint64_t key = region.operators.size();
    for (std::size_t i = 0; i < region.operators.size(); ++i) {
      key = combine(key, static_cast<uint64_t>(region.operators[i].index));
      key = combine(key, static_cast<uint64_t>(region.labels[i].axis));
      key = combine(key, static_cast<uint64_t>(region.labels[i].step));
    }
    if (!seen_.try_emplace(key, true).second) return;
    const Bytes saving = estimated_saving(axes_, region, hotspots_, sizes_);
    if (saving >= options_.least_saving) found_.push_back({std::move(region), saving});
  }

  const AxisGraph& axes_;
  const Hotspots& hotspots_;
  const CandidateOptions& options_;
  OpWeights weights_;
  TensorSizes sizes_;
  std::unordered_map<uint64_t, bool> seen_;
  std::vector<FissionCandidate> found_;
};

void shrink_to_parts(const AxisGraph& axes, const FissionRegion& region, TensorSizes& sizes) {
  for (std::size_t i = 0; i < region.operators.size(); ++i) {
    for (const TensorId made : axes.graph().makes(region.operators[i])) {
      if (dependence_of(axes, region.operators[i], made, region.labels[i]) != Dependence::sliced) {
        continue;
      }
      sizes[made] = sizes[made] / region.length * region.part;
    }
  }
  for (const FissionRegion& child : region.children) shrink_to_parts(axes, child, sizes);
}

}  // namespace

TensorSizes sizes_in_parts(const AxisGraph& axes, std::span<const FissionRegion> regions) {
  TensorSizes sizes;
  for (const Tensor& tensor : axes.graph().tensors()) sizes.push_back(tensor.bytes);
  for (const FissionRegion& region : regions) shrink_to_parts(axes, region, sizes);
  return sizes;
}

Bytes estimated_saving(const AxisGraph& axes, const FissionRegion& region,
                       const Hotspots& hotspots) {
  return estimated_saving(axes, region, hotspots, sizes_in_parts(axes, {}));
}

Bytes estimated_saving(const AxisGraph& axes, const FissionRegion& region, const Hotspots& hotspots,
                       const TensorSizes& sizes) {
  const Graph& graph = axes.graph();
  const auto& members = region.operators;
  const auto inside = [&](OpId op) {
    return op.valid() && std::ranges::binary_search(members, op);
  };
  Bytes part_sized = 0;
  Bytes full = 0;
  std::vector<TensorId> from_outside;
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const TensorId made : graph.makes(members[i])) {
      const auto leaves = [&](EdgeId use) { return !inside(graph.edge_op(use)); };
      const bool stays =
          !graph.tensor(made).is_output && std::ranges::none_of(graph.uses(made), leaves) &&
          dependence_of(axes, members[i], made, region.labels[i]) == Dependence::sliced;
      if (stays) {
        part_sized += hotspots[made];
      } else if (hotspots[made] == 0) {
        full += sizes[made];
      }
    }
    for (const TensorId read : graph.reads(members[i])) {
      const Tensor& tensor = graph.tensor(read);
      if (!tensor.is_input && hotspots[read] == 0 && !inside(tensor.producer)) {
        from_outside.push_back(read);
      }
    }
  }
  std::ranges::sort(from_outside);
  const auto repeated = std::ranges::unique(from_outside);
  from_outside.erase(repeated.begin(), repeated.end());
  for (const TensorId tensor : from_outside) full += sizes[tensor];
  return part_sized / 2 - full;
}

std::vector<FissionCandidate> fission_candidates(const AxisGraph& axes, const Hotspots& hotspots,
                                                 const CandidateOptions& options) {
  Collector collector(axes, hotspots, options);
  for (const Labelling& labelling : find_labellings(axes, hotspots, options.labelling_limit)) {
    if (options.stop && options.stop()) break;
    collector.add_labelling(labelling);
  }
  return std::move(collector).take();
}

}  // namespace magis
