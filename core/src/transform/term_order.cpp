#include "transform/term_order.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "graph/draws.h"
#include "magis/base/error.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

class Precedence {
 public:
  explicit Precedence(const TermGraph& terms)
      : terms_(terms), followers_(terms.term_count()), waits_for_(terms.term_count(), 0) {
    for (std::size_t i = 0; i < terms.term_count(); ++i) {
      if (!terms.term(TermId(i)).dead) link(TermId(i));
    }
  }

  std::vector<TermId> order() {
    using Item = std::pair<std::size_t, TermId>;  // by place
    std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
    const auto offer = [&](TermId id) {
      if (waits_for_[id] == 0) ready.emplace(terms_.term(id).place, id);
    };
    std::size_t live = 0;
    for (std::size_t i = 0; i < terms_.term_count(); ++i) {
      if (terms_.term(TermId(i)).dead) continue;
      ++live;
      offer(TermId(i));
    }
    std::vector<TermId> order;
    while (!ready.empty()) {
      const TermId next = ready.top().second;
      ready.pop();
      order.push_back(next);
      for (TermId follower : followers_[next]) {
        --waits_for_[follower];
        offer(follower);
      }
    }
    MAGIS_CHECK(order.size() == live, "a cycle: " << order.size() << " of " << live << " terms");
    return order;
  }

 private:
  void link(TermId id) {
    const Term& term = terms_.term(id);
    for_each_value(term, [&](ValueId read) { precede(terms_.producer(read), id); });
    if (draws_or_may_draw(*term.info)) precede(std::exchange(last_random_, id), id);
    for (int position : term.info->mutated) {
      for_each_value(term.args.at(static_cast<std::size_t>(position)),
                     [&](ValueId written) { keep_readers_apart(terms_.base(written), id); });
    }
  }

  void precede(TermId before, TermId after) {
    if (!before.valid() || before == after) return;
    followers_[before].push_back(after);
    ++waits_for_[after];
  }

  // Readers of `value` and of its views, on the sides of `writer` where they stand.
  void keep_readers_apart(ValueId value, TermId writer) {
    for (TermId reader : terms_.readers(value)) {
      if (reader == writer) continue;
      if (terms_.term(reader).is_view()) {
        keep_readers_apart(terms_.term(reader).results.front(), writer);
      } else if (terms_.term(reader).place < terms_.term(writer).place) {
        precede(reader, writer);
      } else {
        precede(writer, reader);
      }
    }
  }

  const TermGraph& terms_;
  IdMap<TermId, std::vector<TermId>> followers_;
  IdMap<TermId, int> waits_for_;
  TermId last_random_;
};

}  // namespace

std::vector<TermId> emission_order(const TermGraph& terms) { return Precedence(terms).order(); }

}  // namespace magis
