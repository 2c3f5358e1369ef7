#include "simulate/engines.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace magis {
namespace {

class Engines {
 public:
  Engines(const Graph& graph, const Program& program, const CostTable& costs,
          std::vector<TimelinePoint>* timeline, std::vector<CopyPoint>* copies)
      : graph_(graph),
        program_(program),
        costs_(costs),
        timeline_(timeline),
        copies_(copies),
        on_host_from_(graph.tensors().size(), 0) {
    find_loops();
  }

  Timing run() {
    walk(0, program_.statements.size(), 1);
    return {now_, exposed_};
  }

 private:
  struct Stretch {  // of statements: a loop's body, if it copies
    std::size_t end = 0;
    double iterations = 0;  // 0: none begins here
  };

  void find_loops() {
    stretches_.resize(program_.statements.size());
    struct Open {
      std::size_t begin;
      bool copies = false;
    };
    std::vector<Open> open;
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      const Statement& statement = program_.statements[s];
      if (statement.kind == Statement::Kind::store || statement.kind == Statement::Kind::load) {
        for (Open& loop : open) loop.copies = true;
      }
      if (statement.kind != Statement::Kind::run) continue;
      const LoopId bounded = graph_.bounded_loop(statement.op);
      if (!bounded.valid()) continue;
      const Loop& loop = graph_.loop(bounded);
      if (statement.op == loop.begin) {
        open.push_back({s});
        continue;
      }
      if (open.back().copies) {
        stretches_[open.back().begin] = {s, static_cast<double>(loop.iterations())};
      }
      open.pop_back();
    }
  }

  // `share`: of an operator's time, which the cost table sums over all iterations, what one of
  // these takes.
  void walk(std::size_t first, std::size_t end, double share) {
    for (std::size_t s = first; s < end; ++s) {
      step(s, share);
      const Stretch& body = stretches_[s];
      if (body.iterations == 0) continue;
      repeat(s + 1, body, share / body.iterations);
      s = body.end - 1;
    }
  }

  void repeat(std::size_t first, const Stretch& body, double share) {
    walk(first, body.end, share);
    if (body.iterations == 1) return;
    auto* const timeline = std::exchange(timeline_, nullptr);
    auto* const copies = std::exchange(copies_, nullptr);
    const Seconds begun = now_;
    const Seconds waited = exposed_;
    walk(first, body.end, share);
    const double left = body.iterations - 2;
    exposed_ += left * (exposed_ - waited);
    now_ += left * (now_ - begun);
    timeline_ = timeline;
    copies_ = copies;
  }

  void step(std::size_t s, double share) {
    const Statement& statement = program_.statements[s];
    switch (statement.kind) {
      case Statement::Kind::run: {
        const Seconds start = now_;
        now_ += costs_.seconds[statement.op] * share;
        if (timeline_) timeline_->push_back({static_cast<int>(s), start, now_, 0});
        break;
      }
      case Statement::Kind::store:
        for (const CopyRef& copy : statement.copies) {
          on_host_from_[copy.tensor] = move(s, copy, 0, to_host_free_);
        }
        break;
      case Statement::Kind::load:
        for (const CopyRef& copy : statement.copies) {
          move(s, copy, on_host_from_[copy.tensor], to_device_free_);
        }
        break;
      case Statement::Kind::await:
        for (const CopyRef& copy : statement.copies) {
          const auto arrival = arrivals_.find(copy);
          if (arrival == arrivals_.end()) continue;
          wait(arrival->second);
          arrivals_.erase(arrival);
        }
        break;
      case Statement::Kind::free:
        break;
    }
  }

  // Returns when it has arrived.
  Seconds move(std::size_t s, CopyRef copy, Seconds ready, Seconds& engine_free) {
    const Seconds start = std::max({now_, ready, engine_free});
    engine_free = start + costs_.copy_seconds[copy.tensor];
    arrivals_[copy] = engine_free;
    if (copies_) copies_->push_back({static_cast<int>(s), start, engine_free});
    if (!costs_.copies_overlap) wait(engine_free);
    return engine_free;
  }

  void wait(Seconds until) {
    exposed_ += std::max(0.0, until - now_);
    now_ = std::max(now_, until);
  }

  const Graph& graph_;
  const Program& program_;
  const CostTable& costs_;
  std::vector<TimelinePoint>* timeline_;
  std::vector<CopyPoint>* copies_;
  std::vector<Stretch> stretches_;  // by the statement of the begin
  IdMap<TensorId, Seconds> on_host_from_;
  std::map<CopyRef, Seconds> arrivals_;  // of what is on its way from or to a copy
  Seconds now_ = 0;
  Seconds to_host_free_ = 0;
  Seconds to_device_free_ = 0;
  Seconds exposed_ = 0;
};

}  // namespace

Timing time_on_engines(const Graph& graph, const Program& program, const CostTable& costs,
                       std::vector<TimelinePoint>* timeline, std::vector<CopyPoint>* copies) {
  return Engines(graph, program, costs, timeline, copies).run();
}

}  // namespace magis
