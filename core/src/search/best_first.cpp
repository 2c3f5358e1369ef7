#include "search/best_first.h"

#include <algorithm>

namespace magis {
namespace {

constexpr double kShare = 0.01;
constexpr double kRelaxation = 1.1;
constexpr std::size_t kSuccessors = 48;  // kept of one state's
constexpr std::size_t kMostNodes = 4'000;

// Each is a mode for every use, and its successors in the queue.
std::size_t nodes_within(Bytes memory, std::size_t uses) {
  constexpr std::size_t kSuccessorBytes = 64;
  const std::size_t each = uses + kSuccessors * kSuccessorBytes;
  return std::clamp<std::size_t>(static_cast<std::size_t>(memory) / each, 1, kMostNodes);
}

}  // namespace

BestFirst::BestFirst(Evaluator& evaluator, Scorer& scorer, Budget& budget,
                     std::span<const std::vector<EdgeId>> classes, Bytes memory)
    : evaluator_(evaluator),
      scorer_(scorer),
      budget_(budget),
      classes_(classes),
      most_nodes_(nodes_within(memory, evaluator.problem().edge_op.size())),
      class_of_(evaluator.problem().edge_op.size(), -1),
      slot_(evaluator.problem().edge_op.size(), -1),
      class_gain_(classes.size()),
      class_size_(classes.size()) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (const EdgeId edge : classes[c]) class_of_[edge] = static_cast<int32_t>(c);
  }
  for (std::size_t i = 0; i < scorer.edges().size(); ++i) {
    slot_[scorer.edges()[i]] = static_cast<int32_t>(i);
  }
}

bool BestFirst::run(Incumbent& incumbent, int64_t patience) {
  const Cost start = incumbent.cost();
  nodes_.clear();
  queue_ = {};
  seen_.clear();
  restore(evaluator_, incumbent.decisions());
  seen_.insert(evaluator_.hash());
  expand(incumbent);
  int64_t idle = 0;
  while (!queue_.empty() && idle < patience && nodes_.size() < most_nodes_ && !budget_.stopped()) {
    const Queued queued = queue_.top();
    queue_.pop();
    idle = visit(queued, incumbent) ? 0 : idle + 1;
  }
  return incumbent.cost() != start;
}

// Returns whether the incumbent got better.
bool BestFirst::visit(const Queued& queued, Incumbent& incumbent) {
  evaluator_.set_modes(nodes_[queued.parent]);
  apply_edit(evaluator_, queued.edit);
  evaluator_.forget();
  budget_.count_evaluated();
  if (!evaluator_.feasible() || !seen_.insert(evaluator_.hash()).second) return false;
  const Cost cost{evaluator_.peak(), evaluator_.time()};
  const Cost& best = incumbent.cost();
  const Cost relaxed{static_cast<Bytes>(kRelaxation * static_cast<double>(best.peak)),
                     static_cast<Picoseconds>(kRelaxation * static_cast<double>(best.time))};
  if (!incumbent.objective().better(cost, relaxed)) return false;
  const bool better = incumbent.offer(evaluator_, cost);
  if (better) {  // what is queued was measured against easier aims
    queue_ = {};
    nodes_.clear();
  }
  expand(incumbent);
  return better;
}

void BestFirst::expand(const Incumbent& incumbent) {
  const Energy energy(evaluator_, aims(incumbent, kShare));
  usage_ = evaluator_.usage(energy.aims().peak);
  found_.clear();
  scorer_.focus(evaluator_, energy.aims().peak);
  propose_drops(energy);
  propose_returns(energy);
  const std::size_t kept = std::min(kSuccessors, found_.size());
  std::partial_sort(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(kept),
                    found_.end(), [](const Queued& a, const Queued& b) { return b < a; });
  for (std::size_t i = 0; i < kept; ++i) queue_.push(found_[i]);
  nodes_.push_back(evaluator_.modes());
}

void BestFirst::propose(SetModes edit, const Gain& gain, const Energy& energy) {
  Evaluator::Usage usage = usage_;
  usage.overflow = std::max<int64_t>(0, usage.overflow - gain.relief);
  usage.peak -= gain.drop;
  found_.push_back(
      {energy.of(usage, evaluator_.time() + gain.time), sequence_++, nodes_.size(), edit});
}

// Single uses, and all equal uses that could be dropped at once.
void BestFirst::propose_drops(const Energy& energy) {
  std::ranges::fill(class_gain_, Gain{});
  std::ranges::fill(class_size_, 0);
  const std::span edges(scorer_.edges());
  for (const auto& [edit, gain] : scorer_.score_all(evaluator_, budget_)) {
    const auto slot = static_cast<std::size_t>(slot_[edit.edge]);
    propose({edges.subspan(slot, 1), edit.mode}, gain, energy);
    if (class_of_[edit.edge] < 0 || edit.mode != Mode::recompute) continue;
    const auto c = static_cast<std::size_t>(class_of_[edit.edge]);
    ++class_size_[c];
    class_gain_[c].relief += gain.relief;
    class_gain_[c].drop += gain.drop;
    class_gain_[c].time += gain.time;
  }
  propose_classes(energy);
}

void BestFirst::propose_classes(const Energy& energy) {
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (class_size_[c] < 2) continue;
    propose({classes_[c], Mode::recompute}, class_gain_[c], energy);
    budget_.count_scored();
  }
}

// Taking back a recomputation.
void BestFirst::propose_returns(const Energy& energy) {
  const std::span edges(scorer_.edges());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (holds(evaluator_.mode(edges[i]))) continue;
    propose({edges.subspan(i, 1), Mode::keep}, scorer_.score_return(evaluator_, edges[i]), energy);
    budget_.count_scored();
  }
}

}  // namespace magis
