// Downsets of a piece: sets of nodes that may have run, everything that one of them needs included.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/piece.h"

namespace magis {

template <int Words>
struct Downset {
  Bits<Words> done;
  Bits<Words> ready;  // may run next
  Bytes live = 0;     // above what is live before the piece
  Bytes peak = 0;     // of the way here
  int32_t parent = -1;
  int32_t node = -1;  // the last to run

  static Downset nothing_done(const Piece<Words>& piece) {
    Downset empty;
    for (int node = 0; node < piece.size(); ++node) {
      if (piece.needs(node).empty()) empty.ready.insert(node);
    }
    return empty;
  }

  Downset after(const Piece<Words>& piece, int next, Bytes during, int32_t index) const {
    Downset longer{done, ready, live + piece.change(next, done), during, index, next};
    longer.done.insert(next);
    longer.ready.erase(next);
    piece.allows(next).for_each([&](int waiting) {
      if (piece.needs(waiting).within(longer.done)) longer.ready.insert(waiting);
    });
    return longer;
  }
};

// Which downsets a vector holds already: open addressing, emptied in constant time.
template <int Words>
class DownsetIndex {
 public:
  void clear() {
    if (++stamp_ == 0) {  // wrapped around
      slots_.assign(slots_.size(), {});
      stamp_ = 1;
    }
    used_ = 0;
  }
  // The index of the equal one in `known`, or -1 after noting that it will get index `next`.
  int32_t find_or_insert(const Bits<Words>& done, int32_t next,
                         const std::vector<Downset<Words>>& known) {
    if (2 * (used_ + 1) > slots_.size()) grow(known);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t s = done.hash() & mask;; s = (s + 1) & mask) {
      Slot& slot = slots_[s];
      if (slot.stamp != stamp_) {
        slot = {stamp_, next};
        ++used_;
        return -1;
      }
      if (known[static_cast<std::size_t>(slot.index)].done == done) return slot.index;
    }
  }

 private:
  struct Slot {
    uint32_t stamp = 0;
    int32_t index = -1;
  };

  void grow(const std::vector<Downset<Words>>& known) {
    const std::vector<Slot> old(std::move(slots_));
    slots_.assign(std::max<std::size_t>(64, 2 * old.size()), {});
    const std::size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.stamp != stamp_) continue;
      std::size_t s = known[static_cast<std::size_t>(slot.index)].done.hash() & mask;
      while (slots_[s].stamp == stamp_) s = (s + 1) & mask;
      slots_[s] = slot;
    }
  }

  std::vector<Slot> slots_;
  uint32_t stamp_ = 1;
  std::size_t used_ = 0;
};

}  // namespace magis
