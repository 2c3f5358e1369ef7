#include "magis/schedule/host_pool.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace magis {
namespace {

struct Stay {
  TensorId tensor;
  std::size_t begin = 0;  // statements
  std::size_t end = 0;
  Bytes bytes = 0;
  Bytes offset = 0;
};

std::vector<Stay> stays_on_host(const Graph& graph, const Program& program) {
  constexpr int kNone = -1;
  std::vector<Stay> stays;
  IdMap<TensorId, int> stay_of(graph.tensors().size(), kNone);
  IdMap<TensorId, int> loaded_copy(graph.tensors().size(), kNone);
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    for (const CopyRef& copy : statement.copies) {
      if (statement.kind == Statement::Kind::store) {
        stay_of[copy.tensor] = static_cast<int>(stays.size());
        stays.push_back({copy.tensor, s, s, round_up_to_slot(graph.tensor(copy.tensor).bytes)});
        continue;
      }
      const int stay = stay_of[copy.tensor];
      if (stay == kNone) continue;
      if (statement.kind == Statement::Kind::load) loaded_copy[copy.tensor] = copy.copy;
      const bool arrives =
          statement.kind == Statement::Kind::await &&
          stays[static_cast<std::size_t>(stay)].end < s &&
          (loaded_copy[copy.tensor] == copy.copy || loaded_copy[copy.tensor] == kNone);
      if (arrives) stays[static_cast<std::size_t>(stay)].end = s;
    }
  }
  return stays;
}

Bytes lowest_offset(const Stay& stay, const std::vector<const Stay*>& by_offset) {
  Bytes offset = 0;
  for (const Stay* other : by_offset) {
    if (other->end < stay.begin || stay.end < other->begin) continue;
    if (offset + stay.bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

HostPool plan_host_pool(const Graph& graph, const Program& program) {
  HostPool pool;
  pool.offsets = IdMap<TensorId, Bytes>(graph.tensors().size(), kNoHostSlot);
  std::vector<Stay> stays = stays_on_host(graph, program);
  std::ranges::sort(stays, {}, [](const Stay& s) { return std::tuple(-s.bytes, s.begin); });
  std::vector<const Stay*> by_offset;
  for (Stay& stay : stays) {
    stay.offset = lowest_offset(stay, by_offset);
    by_offset.insert(std::ranges::upper_bound(by_offset, stay.offset, {}, &Stay::offset), &stay);
    pool.offsets[stay.tensor] = stay.offset;
    pool.bytes = std::max(pool.bytes, stay.offset + stay.bytes);
  }
  return pool;
}

}  // namespace magis
