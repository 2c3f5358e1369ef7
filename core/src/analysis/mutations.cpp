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

// The longest part shorter than `part` that gives more parts.
std::optional<int64_t> shorter_part(int64_t length, int64_t part, PartLengths lengths) {
  for (int64_t p = part - 1; p >= 1; --p) {
    if (lengths == PartLengths::divisors) {
      if (length % p == 0) return p;
    } else if (parts(length, p) > parts(length, part)) {
      return p;
    }
  }
  return std::nullopt;
}

// The shortest part longer than `part` that gives fewer parts, but at least two; of the parts that
// give as many, the longest is what shorter_part would have given.
std::optional<int64_t> longer_part(int64_t length, int64_t part, PartLengths lengths) {
  for (int64_t p = part + 1; p < length; ++p) {
    if (lengths == PartLengths::divisors) {
      if (length % p == 0) return p;
    } else if (parts(length, p) < parts(length, part)) {
      return parts(length, p) > 1 ? std::optional(p) : std::nullopt;
    }
  }
  return std::nullopt;
}

// Sets the lengths of all nodes to what the enabled nodes around them leave; numbers of parts stay.
// False if some enabled node cannot keep its number.
bool update_lengths(FissionTree& tree, PartLengths lengths) {
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
    const int64_t count = region.part_count();
    const int64_t part = std::max<int64_t>(1, parts(length, count));
    region.length = length;
    region.part = part;
    possible &= parts(length, part) == count && length > 1 &&
                (lengths == PartLengths::uneven || length % count == 0);
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
std::optional<FissionTree> attempt(FissionTree tree, Mutation mutation, PartLengths lengths) {
  int changed = mutation.node;
  FissionRegion& region = at(tree, mutation.node).region;
  std::optional<int64_t> part = region.length;
  switch (mutation.kind) {
    case MutationKind::enable:
    case MutationKind::mutate:
      part = shorter_part(region.length, region.part, lengths);
      break;
    case MutationKind::mutate_back:
      part = longer_part(region.length, region.part, lengths);
      break;
    case MutationKind::disable:
      break;
    case MutationKind::lift: {
      region.part = region.length;
      changed = at(tree, mutation.node).parent;
      const int64_t length = at(tree, changed).region.length;
      part = shorter_part(length, length, lengths);
      break;
    }
  }
  if (!part) return std::nullopt;
  at(tree, changed).region.part = *part;
  if (!update_lengths(tree, lengths)) return std::nullopt;
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

std::vector<Mutation> mutations(const FissionTree& tree, PartLengths lengths) {
  using enum MutationKind;
  std::vector<Mutation> found;
  for (int n = 0; n < static_cast<int>(tree.nodes.size()); ++n) {
    for (const MutationKind kind : {enable, lift, disable, mutate, mutate_back}) {
      const Mutation mutation{kind, n};
      if (applies(tree, mutation) && attempt(tree, mutation, lengths)) found.push_back(mutation);
    }
  }
  return found;
}

FissionTree apply(const FissionTree& tree, Mutation mutation, PartLengths lengths) {
  MAGIS_CHECK(applies(tree, mutation), to_text(mutation.kind) << " node " << mutation.node);
  auto result = attempt(tree, mutation, lengths);
  MAGIS_CHECK(result.has_value(), to_text(mutation.kind) << " node " << mutation.node);
  return *std::move(result);
}

}  // namespace magis
