// The hash of a search's state: equal for what is the same but for names and numbers, different for
// all else, and the same whether it is kept up to date or taken from scratch.
#include "search/state_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "magis/graph/text.h"
#include "magis/search/fission_ground.h"
#include "support/random.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

using test::Random;

// Two towers that are alike, each with two operators that read its first one, and one that reads
// both.
constexpr char kTowers[] = R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%a1 = aten.relu(%x) : f32[8,8]
%a2 = aten.relu(%x) : f32[8,8]
%b1 = aten.sigmoid(%a1) : f32[8,8]
%c1 = aten.tanh(%a1) : f32[8,8]
%b2 = aten.sigmoid(%a2) : f32[8,8]
%c2 = aten.tanh(%a2) : f32[8,8]
%s1 = aten.mm(%b1, %c1) : f32[8,8]
%s2 = aten.mm(%b2, %c2) : f32[8,8]
output aux "y" %s1
output aux "z" %s2
)";
// The same step: the second tower first, and other names.
constexpr char kRelabelled[] = R"(magis 1
device cpu
batch %in "x" : f32[8,8]
%q2 = aten.relu(%in) : f32[8,8]
%r2 = aten.tanh(%q2) : f32[8,8]
%p2 = aten.sigmoid(%q2) : f32[8,8]
%m2 = aten.mm(%p2, %r2) : f32[8,8]
%q1 = aten.relu(%in) : f32[8,8]
%p1 = aten.sigmoid(%q1) : f32[8,8]
%r1 = aten.tanh(%q1) : f32[8,8]
%m1 = aten.mm(%p1, %r1) : f32[8,8]
output aux "first" %m1
output aux "second" %m2
)";

EdgeId edge_named(const Graph& graph, std::string_view reader, std::string_view tensor) {
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    const EdgeId edge(e);
    if (graph.name(graph.edge_op(edge)) == reader &&
        graph.value(graph.tensor(graph.edge_tensor(edge)).value).name == tensor) {
      return edge;
    }
  }
  ADD_FAILURE() << reader << " does not read " << tensor;
  return {};
}

class Towers : public testing::Test {
 protected:
  // With the tensors made again that these readers read.
  static uint64_t with(const Graph& towers,
                       const std::vector<std::pair<std::string, std::string>>& uses) {
    StateHash hash(towers);
    for (const auto& [reader, tensor] : uses) {
      hash.set_mode(edge_named(towers, reader, tensor), Mode::recompute);
    }
    return hash.value();
  }
  const Graph graph = parse_graph(kTowers, "towers");
  const Graph relabelled = parse_graph(kRelabelled, "relabelled");
};

TEST_F(Towers, NamesAndTheOrderOfIndependentOperatorsDoNotCount) {
  EXPECT_EQ(with(graph, {}), with(relabelled, {}));
  EXPECT_EQ(with(graph, {{"c1", "a1"}}), with(relabelled, {{"r1", "q1"}}));
  EXPECT_EQ(with(graph, {{"s1", "b1"}, {"s2", "c2"}}),
            with(relabelled, {{"m1", "p1"}, {"m2", "r2"}}));
  // Either tower will do: nothing tells them apart.
  EXPECT_EQ(with(graph, {{"s1", "b1"}}), with(graph, {{"s2", "b2"}}));
}

// Sums of terms of single uses could not tell these apart.
TEST_F(Towers, TwoEditsInOneTowerDifferFromOneInEach) {
  EXPECT_EQ(with(graph, {{"s1", "b1"}, {"s1", "c1"}}), with(graph, {{"s2", "b2"}, {"s2", "c2"}}));
  EXPECT_NE(with(graph, {{"s1", "b1"}, {"s1", "c1"}}), with(graph, {{"s1", "b1"}, {"s2", "c2"}}));
}

TEST_F(Towers, AUseOfACopyDiffersFromOneOfTheOriginal) {
  StateHash hash(graph);
  const uint64_t kept = hash.value();
  const EdgeId late = edge_named(graph, "c1", "a1");
  hash.set_mode(late, Mode::recompute);
  const uint64_t recomputed = hash.value();
  hash.set_mode(late, Mode::recompute_anew);
  const uint64_t anew = hash.value();
  hash.set_mode(late, Mode::swap);
  const uint64_t swapped = hash.value();
  EXPECT_EQ((std::unordered_set<uint64_t>{kept, recomputed, anew, swapped}.size()), 4U);
  hash.set_mode(late, Mode::keep);
  EXPECT_EQ(hash.value(), kept);
}

// Where uses of a tensor that is made again change places, another use reads the copy.
TEST_F(Towers, TheOrderOfUsesCountsWhereOneReadsACopy) {
  const Decisions given = program_order(graph);
  Decisions exchanged = given;
  std::swap(exchanged.order[2], exchanged.order[3]);  // b1 and c1
  StateHash hash(graph);
  hash.load(given);
  const uint64_t kept = hash.value();
  hash.load(exchanged);
  EXPECT_EQ(hash.value(), kept);
  hash.set_mode(edge_named(graph, "c1", "a1"), Mode::recompute);
  const uint64_t first = hash.value();
  hash.load(given);
  hash.set_mode(edge_named(graph, "c1", "a1"), Mode::recompute);
  EXPECT_NE(hash.value(), first);
}

TEST_F(Towers, GapsCount) {
  StateHash hash(graph);
  const EdgeId use = edge_named(graph, "s1", "b1");
  hash.set_mode(use, Mode::swap);
  const uint64_t without = hash.value();
  const OpId s1 = graph.edge_op(use);
  hash.set_gap({use, OpId(3), s1});
  const uint64_t wide = hash.value();
  hash.set_gap({use, OpId(4), s1});
  EXPECT_NE(hash.value(), wide);
  EXPECT_NE(hash.value(), without);
  hash.set_gap({use, OpId(3), s1});
  EXPECT_EQ(hash.value(), wide);
  hash.set_mode(use, Mode::keep);
  EXPECT_EQ(hash.value(), StateHash(graph).value());
}

// ---- any graphs

// The graph's text with its operators in another order that respects precedence, and other names.
struct Relabelled {
  Graph graph;
  IdMap<OpId, OpId> op;  // by operator of the source

  EdgeId edge(const Graph& source, EdgeId from) const {
    const OpId reader = source.edge_op(from);
    return EdgeId(graph.first_edge(op[reader]).index +
                  (from.index - source.first_edge(reader).index));
  }
};

// Statements of the text are operators or views; a view goes where its last reader needs it.
Relabelled relabel(const Graph& graph, Random& random) {
  const std::vector<OpId> order = test::random_order(graph, random);
  std::vector<std::string> head;
  std::vector<std::string> tail;
  std::unordered_map<std::string, std::string> statement_of;  // by first name
  const std::string text = to_text(graph);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("%")) {
      statement_of[line.substr(1, line.find_first_of(" ,") - 1)] = line;
    } else {
      (line.starts_with("output") ? tail : head).push_back(line);
    }
  }
  std::string out;
  for (const std::string& line : head) out += line + "\n";
  std::unordered_set<std::string> written;
  const auto write = [&](auto&& self, const std::string& name) -> void {
    const auto found = statement_of.find(name);
    if (found == statement_of.end() || !written.insert(name).second) return;
    const std::string& line = found->second;
    for (std::size_t at = line.find('='); (at = line.find('%', at)) != std::string::npos;) {
      const std::size_t end = line.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at + 1);
      self(self, line.substr(at + 1, end - at - 1));
      at = end;
    }
    out += line + "\n";
  };
  for (const OpId op : order) write(write, graph.name(op));
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    write(write, graph.value(ValueId(v)).name);
  for (const std::string& line : tail) out += line + "\n";
  std::string renamed;
  for (const char c : out) renamed += c == '%' ? std::string("%other_") : std::string(1, c);
  Relabelled made{parse_graph(renamed, "relabelled"), IdMap<OpId, OpId>(graph.op_count())};
  std::unordered_map<std::string, OpId> by_name;
  for (std::size_t o = 0; o < made.graph.op_count(); ++o) {
    by_name[made.graph.name(OpId(o))] = OpId(o);
  }
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    made.op[OpId(o)] = by_name.at("other_" + graph.name(OpId(o)));
  }
  return made;
}

TEST(StateHash, RelabelledGraphsHashAlike) {
  int renumbered = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = test::make_random_graph(seed, 40);
    Random random(seed);
    const Relabelled other = relabel(graph, random);
    ASSERT_EQ(other.graph.op_count(), graph.op_count());
    StateHash hash(graph);
    StateHash relabelled(other.graph);
    EXPECT_EQ(hash.value(), relabelled.value()) << seed;
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      renumbered += other.op[OpId(o)] == OpId(o) ? 0 : 1;
      EXPECT_EQ(hash.colour(OpId(o)), relabelled.colour(other.op[OpId(o)]));
    }
    Decisions decisions = test::random_decisions(graph, random, 30);
    Decisions carried{{}, IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep)};
    for (const OpId op : decisions.order) carried.order.push_back(other.op[op]);
    for (std::size_t e = 0; e < graph.edge_count(); ++e) {
      const Mode mode = decisions.modes[EdgeId(e)];
      carried.modes[other.edge(graph, EdgeId(e))] =
          mode.kind() == Mode::recompute_late ? Mode::late(other.op[mode.late_from()]) : mode;
    }
    hash.load(decisions);
    relabelled.load(carried);
    EXPECT_EQ(hash.value(), relabelled.value()) << seed;
  }
  EXPECT_GT(renumbered, 400);
}

TEST(StateHash, IsTheSameFromScratch) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = test::make_random_graph(seed, 60);
    Random random(seed);
    StateHash edited(graph);
    for (int step = 0; step < 20; ++step) {
      Decisions decisions = test::random_decisions(graph, random, 20);
      test::add_random_gaps(graph, random, 10, decisions);
      edited.load(decisions);
      StateHash fresh(graph);
      fresh.load(decisions);
      ASSERT_EQ(edited.value(), fresh.value()) << seed << " " << step;
      // There and back again, one use at a time.
      for (int i = 0; i < 20; ++i) {
        const EdgeId edge(static_cast<std::size_t>(random.below(graph.edge_count())));
        const Mode mode = decisions.modes[edge];
        if (mode == Mode::swap) continue;
        const Mode other = mode == Mode::keep ? Mode::recompute : Mode::keep;
        edited.set_mode(edge, other);
        ASSERT_NE(edited.value(), fresh.value());
        edited.set_mode(edge, mode);
        ASSERT_EQ(edited.value(), fresh.value());
      }
    }
  }
}

TEST(StateHash, EverySingleEditIsToldApart) {
  const Graph graph = parse_graph(test::transformer_graph_text({.layers = 3}), "t");
  StateHash hash(graph);
  std::unordered_set<uint64_t> seen{hash.value()};
  std::size_t states = 1;
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    for (const Mode mode : {Mode::recompute, Mode::recompute_anew, Mode::swap}) {
      hash.set_mode(EdgeId(e), mode);
      seen.insert(hash.value());
      ++states;
    }
    hash.set_mode(EdgeId(e), Mode::keep);
  }
  EXPECT_EQ(seen.size(), states);
}

// A million states of a BERT: each differs from the one before in one use, or in the parts of one
// region. No two are the same by construction: a state is a row of digits, and only rows that are
// new count.
TEST(StateHash, AMillionStatesAreToldApart) {
  const Graph graph = parse_graph(test::transformer_graph_text({.layers = 2}), "t");
  const FissionGround ground(graph, device_profile("cpu"));
  const Graph& opened = ground.axes().graph();
  std::vector<FissionRegion> regions;
  for (const FissionCandidate& candidate : ground.candidates({.limit = 24})) {
    regions.push_back(candidate.region);
  }
  ASSERT_GE(regions.size(), 4U);
  StateHash hash(opened);
  Random random(7);
  std::vector<uint8_t> digits(opened.edge_count() + regions.size(), 0);
  // What the state is, independent of the hash under test: a sum of one random number per digit.
  std::vector<uint64_t> keys(digits.size() * 256);
  for (uint64_t& key : keys) key = random.next();
  uint64_t state = 0;
  std::unordered_map<uint64_t, uint64_t> state_of;
  state_of.reserve(1'100'000);
  while (state_of.size() < 1'000'000) {
    const std::size_t digit = random.below(64) == 0
                                  ? opened.edge_count() + random.below(regions.size())
                                  : random.below(opened.edge_count());
    uint8_t next = 0;
    if (digit < opened.edge_count()) {
      next = static_cast<uint8_t>(random.below(4));
      hash.set_mode(EdgeId(digit), static_cast<Mode::Kind>(next));
    } else {
      FissionRegion& region = regions[digit - opened.edge_count()];
      if (digits[digit] != 0) hash.remove_region(region);
      next = static_cast<uint8_t>(
          random.below(static_cast<uint64_t>(std::min<int64_t>(region.length, 200))));
      region.part = next;
      if (next != 0) hash.add_region(region);
    }
    const auto key = [&](uint8_t value) { return value == 0 ? 0 : keys[digit * 256 + value]; };
    state += key(next) - key(digits[digit]);
    digits[digit] = next;
    const auto [entry, fresh] = state_of.try_emplace(hash.value(), state);
    ASSERT_EQ(entry->second, state) << "two states hash alike after " << state_of.size();
  }
}

TEST(StateHash, RegionsCount) {
  const Graph graph = parse_graph(test::transformer_graph_text({.layers = 1}), "t");
  const FissionGround ground(graph, device_profile("cpu"));
  const auto candidates = ground.candidates({.limit = 2});
  ASSERT_EQ(candidates.size(), 2U);
  FissionRegion region = candidates[0].region;
  StateHash hash(ground.axes().graph());
  const uint64_t none = hash.value();
  const auto with = [&](const FissionRegion& wanted) {
    hash.add_region(wanted);
    const uint64_t value = hash.value();
    hash.remove_region(wanted);
    EXPECT_EQ(hash.value(), none);
    return value;
  };
  std::unordered_set<uint64_t> seen{none};
  region.part = 4;
  EXPECT_TRUE(seen.insert(with(region)).second);
  region.part = 2;
  EXPECT_TRUE(seen.insert(with(region)).second);
  FissionRegion child = region;
  child.part = 1;
  region.children = {child};
  EXPECT_TRUE(seen.insert(with(region)).second);
  region.children = {};
  region.operators.pop_back();
  region.labels.pop_back();
  EXPECT_TRUE(seen.insert(with(region)).second);
  region.labels.front().step += 1;
  EXPECT_TRUE(seen.insert(with(region)).second);
}

}  // namespace
}  // namespace magis
