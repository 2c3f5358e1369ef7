// A hash of what the search has decided, kept up to date edit by edit: two states hash alike if
// they are the same but for names, numbers and the order of independent operators (the paper's hash
// test, section 6.2, is of this kind: Weisfeiler and Lehman's).
//
// Operators and inputs first get colours: what they are, and what lies around them in either
// direction, however far. A decision is a *fact* at an operator, and the hash a sum over facts, so
// that an edit changes a few terms. Where colours tell all operators apart this says everything.
// Where they do not, because parts of the graph look alike (towers of one network), it matters
// whether two facts are in one part or in two: facts add up within their part first, the parts are
// mixed, and their hashes add up to the whole. Parts may have such parts in turn.
//
// What counts:
//   regions   which operators, along which axes, parts and lengths, what is nested in what
//   modes     of every use that is not kept
//   gaps      between which operators
//   order     of the uses of tensors that are dropped or swapped anywhere: it decides which uses
//             read which copy. The order of all else is no decision: scheduling follows from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "magis/analysis/region.h"
#include "magis/schedule/decisions.h"

namespace magis {

class StateHash {
 public:
  // Nothing is decided: program order, all uses kept, no regions. O(edges).
  explicit StateHash(const Graph& graph);

  uint64_t value() const { return parts_.front().hash; }

  // The state of `decisions`, regions as they are. O(edges).
  void load(const Decisions& decisions);

  // ---- edits; each costs a few operations per use of the tensor, or per operator of the region

  // Mode swap without a gap differs from one with it.
  void set_mode(EdgeId edge, Mode mode);
  // Gives the use mode swap.
  void set_gap(const Gap& gap);
  // `previous` is the use of the same tensor before this one, or else the tensor's producer.
  void set_previous(EdgeId edge, OpId previous);
  void add_region(const FissionRegion& region) { change_region(region, 0, true); }
  void remove_region(const FissionRegion& region) { change_region(region, 0, false); }

  // Equal for operators that nothing tells apart.
  uint64_t colour(OpId op) const { return colours_[static_cast<std::size_t>(op.index)]; }

 private:
  // What looks alike lies in different parts. The first one is the whole graph.
  struct Part {
    int parent = -1;
    uint64_t colour = 0;
    uint64_t sum = 0;   // of its facts, and of the hashes of the parts in it
    uint64_t hash = 0;  // of colour and sum
  };
  // Operators by id, then inputs by number.
  struct Vertices;

  void find_parts(const Vertices& vertices, const std::vector<int32_t>& members, int part,
                  std::vector<uint8_t>& waiting);
  // Adds a fact, or takes it away.
  void count(OpId op, uint64_t fact, bool add);
  void count_edge(EdgeId edge, bool add);
  void count_order(EdgeId edge, bool add);
  void change_tensor(TensorId tensor, int more);
  void change_region(const FissionRegion& region, uint64_t around, bool add);
  uint64_t position_of(EdgeId edge) const;

  const Graph& graph_;
  std::vector<uint64_t> colours_;  // by vertex
  std::vector<int> part_of_;       // by vertex
  std::vector<Part> parts_;
  IdMap<EdgeId, Mode> modes_;
  IdMap<EdgeId, Gap> gaps_;
  IdMap<EdgeId, OpId> previous_;
  IdMap<TensorId, int> absences_;  // uses that are not kept
};

}  // namespace magis
