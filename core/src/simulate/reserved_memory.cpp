#include "magis/simulate/reserved_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "simulate/short_part.h"

namespace magis {
namespace {

using Kind = Statement::Kind;
using BlockId = CachingAllocator::BlockId;

// Steps that may differ in what they find cached; the cache has settled long before.
constexpr int kMostSteps = 8;

bool is_product(const Operator& op) {
  const auto has = [&](const char* word) {
    return op.info->name.find(word) != std::string_view::npos;
  };
  return op.info->flops != nullptr && (has("mm") || has("linear") || has("mv"));
}

class OutOfMemory {};

class Replay {
 public:
  Replay(const Graph& graph, const Program& program, const CostTable& costs,
         const ReserveOptions& options)
      : graph_(graph),
        program_(program),
        costs_(costs),
        options_(options),
        allocator_(options.allocator),
        at_last_(graph.loops().size(), 0) {
    find_loops();
  }

  ReservedMemory run() {
    bool fits = true;
    try {
      for (const Tensor& tensor : graph_.tensors()) {
        if (tensor.is_input) allocate(tensor.bytes);
      }
      Bytes before = -1;
      for (int step = 0; step < kMostSteps && allocator_.reserved_peak() > before; ++step) {
        before = allocator_.reserved_peak();
        walk(0, program_.statements.size());
        for (const auto& [copy, block] : std::exchange(blocks_, {})) free(block);
      }
    } catch (const OutOfMemory&) {
      fits = false;
    }
    return {.reserved = allocator_.reserved_peak(),
            .allocated = allocator_.allocated_at_reserved_peak(),
            .allocated_peak = allocator_.allocated_peak(),
            .cache_flushes = allocator_.cache_flushes(),
            .fits = fits};
  }

 private:
  void find_loops() {
    ends_.resize(program_.statements.size(), 0);
    std::vector<std::size_t> open;
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      if (program_.statements[s].kind != Kind::run) continue;
      const LoopId loop = graph_.bounded_loop(program_.statements[s].op);
      if (!loop.valid()) continue;
      if (program_.statements[s].op == graph_.loop(loop).begin) {
        open.push_back(s);
      } else {
        ends_[open.back()] = s;
        open.pop_back();
      }
    }
    for (std::size_t i = 0; i < graph_.loops().size(); ++i) {
      const Loop& loop = graph_.loop(LoopId(i));
      if (loop.last_part() != loop.part) short_parts_.try_emplace(LoopId(i), graph_, LoopId(i));
    }
  }

  void walk(std::size_t first, std::size_t end) {
    for (std::size_t s = first; s < end; ++s) {
      step(program_.statements[s]);
      if (ends_[s] == 0) continue;
      repeat(graph_.bounded_loop(program_.statements[s].op), s + 1, ends_[s]);
      s = ends_[s] - 1;
    }
  }

  void repeat(LoopId id, std::size_t first, std::size_t end) {
    const Loop& loop = graph_.loop(id);
    const int64_t length = units(loop);
    for (int64_t walked = 0; walked < length; walked += loop.part) {
      at_last_[id] = length - walked < loop.part;
      walk(first, end);
    }
    at_last_[id] = 0;
  }

  // Of the axis that a loop walks now.
  int64_t units(const Loop& loop) const {
    int64_t length = loop.length.value;
    for (const LoopId around : loop.length.loops) {
      const auto part = short_parts_.find(around);
      if (at_last_[around] && part != short_parts_.end()) {
        length = std::min(length, part->second.length(loop.length));
      }
    }
    return length;
  }

  Bytes bytes(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    Bytes bytes = tensor.bytes;
    for (LoopId loop = graph_.loop_of(tensor.producer); loop.valid();
         loop = graph_.loop(loop).parent) {
      const auto part = short_parts_.find(loop);
      if (!at_last_[loop] || part == short_parts_.end()) continue;
      const std::optional<Type> shorter = part->second.type(tensor.value);
      if (shorter) bytes = std::min(bytes, shorter->storage);
    }
    return bytes;
  }

  std::optional<BlockId> allocate(Bytes bytes) {
    if (bytes == 0) return std::nullopt;
    const std::optional<BlockId> block = allocator_.allocate(bytes);
    if (!block) throw OutOfMemory();
    return block;
  }
  void free(std::optional<BlockId> block) {
    if (block) allocator_.free(*block);
  }
  void make(CopyRef copy) {
    const bool is_new = blocks_.emplace(copy, allocate(bytes(copy.tensor))).second;
    MAGIS_CHECK(is_new, "a tensor is made twice without being freed");
  }
  std::optional<BlockId> take(CopyRef copy) {
    const auto found = blocks_.find(copy);
    MAGIS_CHECK(found != blocks_.end(), "a tensor is freed that was not made");
    const std::optional<BlockId> block = found->second;
    blocks_.erase(found);
    return block;
  }

  void step(const Statement& statement) {
    if (statement.kind == Kind::run) run(statement);
    for (const CopyRef& copy : statement.copies) {
      if (statement.kind == Kind::load) make(copy);
      if (statement.kind == Kind::free) free(take(copy));
    }
  }

  void run(const Statement& run) {
    const auto made = graph_.makes(run.op);
    std::size_t fresh = 0;
    if (run.over >= 0) {
      const auto position = static_cast<std::size_t>(run.over);
      const CopyRef overwritten{graph_.reads(run.op)[position], run.operand_copies[position]};
      const std::optional<BlockId> block = take(overwritten);
      blocks_.emplace(CopyRef{made[fresh++], run.copy}, block);
    }
    for (; fresh < made.size(); ++fresh) make({made[fresh], run.copy});
    if (!library_holds_ && is_product(graph_.op(run.op))) {
      allocate(options_.library_workspace);
      library_holds_ = true;
    }
    free(allocate(costs_.scratch[run.op]));
  }

  const Graph& graph_;
  const Program& program_;
  const CostTable& costs_;
  const ReserveOptions& options_;
  CachingAllocator allocator_;
  std::vector<std::size_t> ends_;  // by the statement of a loop's begin: that of its end; else 0
  std::map<LoopId, ShortPart> short_parts_;  // of loops whose last part is shorter
  IdMap<LoopId, uint8_t> at_last_;           // whether a loop is in a last, shorter iteration
  std::map<CopyRef, std::optional<BlockId>> blocks_;  // of what is live; none: an empty tensor
  bool library_holds_ = false;
};

}  // namespace

ReservedMemory reserved_memory(const Graph& graph, const Program& program, const CostTable& costs,
                               const ReserveOptions& options) {
  return Replay(graph, program, costs, options).run();
}

}  // namespace magis
