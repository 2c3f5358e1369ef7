// The steps by which regions of a fission tree are enabled (paper section 5.1).
#include <algorithm>
#include <optional>

#include "magis/analysis/fission_tree.h"
#include "magis/base/error.h"

namespace magis {
namespace {

FissionNode& at(FissionTree& tree, int node) { return tree.nodes[static_cast<std::size_t>(node)]; }
const FissionNode& at(const FissionTree& tree, int node) {
  return tree.nodes[static_cast<std::size_t>(node)];
}

int64_t parts(int64_t length, int64_t part) { return (length + part - 1) / part; }

// The part length that gives `count` parts: the shortest, which makes them as even as possible.
// Nothing if none does, or if the last part would be shorter and may not.
std::optional<int64_t> part_for(int64_t length, int64_t count, PartChoice choice) {
  if (count < 1 || count > length) return std::nullopt;
  const int64_t part = parts(length, count);
  if (parts(length, part) != count) return std::nullopt;
  if (choice == PartChoice::divisors && length % count != 0) return std::nullopt;
  return part;
}

// The part length for `count` parts or the next number above.
std::optional<int64_t> part_from(int64_t length, int64_t count, PartChoice choice) {
  for (; count <= length; ++count) {
    if (const auto part = part_for(length, count, choice)) return part;
  }
  return std::nullopt;
}

std::optional<int64_t> shorter_part(const FissionRegion& region, PartChoice choice) {
  return part_from(region.length, region.part_count() + 1, choice);
}

std::optional<int64_t> longer_part(const FissionRegion& region, PartChoice choice) {
  for (int64_t count = region.part_count() - 1; count > 1; --count) {
    if (const auto part = part_for(region.length, count, choice)) return part;
  }
  return std::nullopt;
}

// Sets the choice of all nodes to what the enabled nodes around them leave. Enabled nodes keep
// their number of parts, or take the next one that is possible; false if there is none.
bool update_lengths(FissionTree& tree, PartChoice choice) {
  bool possible = true;
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    FissionNode& node = tree.nodes[n];
    int64_t length = node.units;
    for (int up = node.parent; up >= 0; up = at(tree, up).parent) {
      if (!at(tree, up).enabled() || !tree.same_axis(up, static_cast<int>(n))) continue;
      length = at(tree, up).region.part;
      break;
    }
    FissionRegion& region = node.region;
    if (length == region.length) continue;
    if (!node.enabled()) {
      region.length = region.part = length;
      continue;
    }
    const auto part = part_from(length, region.part_count(), choice);
    possible &= part.has_value();
    region.length = length;
    region.part = part.value_or(1);
  }
  return possible;
}

// Shares operators with an enabled region that is neither an ancestor nor a descendant.
bool overlaps_enabled(const FissionTree& tree, int node) {
  const auto is_above = [&](int outer, int inner) {
    while (inner >= 0 && inner != outer) inner = at(tree, inner).parent;
    return inner == outer;
  };
  const auto& own = at(tree, node).region.operators;
  for (int n = 0; n < static_cast<int>(tree.nodes.size()); ++n) {
    if (!at(tree, n).enabled() || is_above(n, node) || is_above(node, n)) continue;
    const auto& other = at(tree, n).region.operators;
    auto a = own.begin();
    auto b = other.begin();
    while (a != own.end() && b != other.end()) {
      if (*a == *b) return true;
      *a < *b ? ++a : ++b;
    }
  }
  return false;
}

bool applies(const FissionTree& tree, Mutation mutation) {
  const FissionNode& node = at(tree, mutation.node);
  switch (mutation.kind) {
    case MutationKind::enable: {
      if (node.enabled()) return false;
      if (tree.is_leaf(mutation.node)) return true;
      if (tree.has_enabled_ancestor(mutation.node)) return false;
      return std::ranges::any_of(tree.nodes, [&](const FissionNode& child) {
        return child.parent == mutation.node && child.enabled();
      });
    }
    case MutationKind::lift:
      return node.enabled() && node.parent >= 0 && !tree.has_enabled_ancestor(mutation.node);
    case MutationKind::disable:
      return node.enabled() && !tree.has_enabled_descendant(mutation.node);
    case MutationKind::mutate:
    case MutationKind::mutate_back:
      return node.enabled();
  }
  return false;
}

// The tree after the mutation, unless some part cannot be that long or regions overlap.
std::optional<FissionTree> attempt(FissionTree tree, Mutation mutation, PartChoice choice) {
  int changed = mutation.node;
  FissionRegion& region = at(tree, mutation.node).region;
  std::optional<int64_t> part = region.length;
  switch (mutation.kind) {
    case MutationKind::enable:
    case MutationKind::mutate:
      part = shorter_part(region, choice);
      break;
    case MutationKind::mutate_back:
      part = longer_part(region, choice);
      break;
    case MutationKind::disable:
      break;
    case MutationKind::lift: {
      region.part = region.length;
      changed = at(tree, mutation.node).parent;
      part = shorter_part(at(tree, changed).region, choice);
      break;
    }
  }
  if (!part) return std::nullopt;
  at(tree, changed).region.part = *part;
  if (!update_lengths(tree, choice)) return std::nullopt;
  if (at(tree, changed).enabled() && overlaps_enabled(tree, changed)) return std::nullopt;
  return tree;
}

}  // namespace

std::string_view to_text(MutationKind kind) {
  switch (kind) {
    case MutationKind::enable:
      return "enable";
    case MutationKind::lift:
      return "lift";
    case MutationKind::disable:
      return "disable";
    case MutationKind::mutate:
      return "mutate";
    case MutationKind::mutate_back:
      return "mutate back";
  }
  return "";
}

std::vector<Mutation> mutations(const FissionTree& tree, PartChoice choice) {
  using enum MutationKind;
  std::vector<Mutation> found;
  for (int n = 0; n < static_cast<int>(tree.nodes.size()); ++n) {
    for (const MutationKind kind : {enable, lift, disable, mutate, mutate_back}) {
      const Mutation mutation{kind, n};
      if (applies(tree, mutation) && attempt(tree, mutation, choice)) found.push_back(mutation);
    }
  }
  return found;
}

FissionTree apply(const FissionTree& tree, Mutation mutation, PartChoice choice) {
  MAGIS_CHECK(applies(tree, mutation), to_text(mutation.kind) << " node " << mutation.node);
  auto result = attempt(tree, mutation, choice);
  MAGIS_CHECK(result.has_value(), to_text(mutation.kind) << " node " << mutation.node);
  return *std::move(result);
}

}  // namespace magis
