#include "magis/analysis/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/analysis_support.h"
#include "magis/transform/opening.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

using test::find_op;
using test::make_region;
using test::names;
using test::parse_body;

// Tensors live at the peak of program order, nothing freed early or run in place.
Hotspots program_order_hotspots(const Graph& graph) {
  const std::size_t count = graph.op_count();
  const auto last_use = [&](TensorId id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.is_output) return count - 1;
    auto last = static_cast<std::size_t>(tensor.producer.index);
    for (const EdgeId use : graph.uses(id)) {
      last = std::max(last, static_cast<std::size_t>(graph.edge_op(use).index));
    }
    return last;
  };
  std::vector<Bytes> change(count + 1, 0);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensor(TensorId(t));
    if (tensor.is_input) continue;
    change[static_cast<std::size_t>(tensor.producer.index)] += tensor.bytes;
    change[last_use(TensorId(t)) + 1] -= tensor.bytes;
  }
  Bytes live = 0, most = -1;
  std::size_t peak = 0;
  for (std::size_t o = 0; o < count; ++o) {
    live += change[o];
    if (live <= most) continue;
    most = live;
    peak = o;
  }
  Hotspots hotspots(graph.tensors().size(), 0);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensor(TensorId(t));
    if (tensor.is_input || static_cast<std::size_t>(tensor.producer.index) > peak) continue;
    if (last_use(TensorId(t)) >= peak) hotspots[TensorId(t)] = tensor.bytes;
  }
  return hotspots;
}

// Bytes of hotspots that are made and only read inside.
Bytes hot_inside(const Graph& graph, const FissionRegion& region, const Hotspots& hotspots) {
  Bytes bytes = 0;
  for (const OpId op : region.operators) {
    for (const TensorId made : graph.makes(op)) {
      const auto is_outside = [&](EdgeId use) {
        return !std::ranges::binary_search(region.operators, graph.edge_op(use));
      };
      if (!graph.tensor(made).is_output && std::ranges::none_of(graph.uses(made), is_outside)) {
        bytes += hotspots[made];
      }
    }
  }
  return bytes;
}

TEST(Candidates, EstimateWhatSplittingSaves) {
  const Graph graph = parse_body(R"(
batch %x "x" : f32[8,4]
param %w "w" : f32[4,4]
%m = aten.relu(%x) : f32[8,4]
%a = aten.mm(%m, %w) : f32[8,4]
%b = aten.tanh(%a) : f32[8,4]
%c = aten.exp(%b) : f32[8,4]
%d = aten.mul.Tensor(%b, %c) : f32[8,4]
%s = aten.sum.dim_IntList(%d, [0]) : f32[4]
%e = aten.neg(%s) : f32[4]
output aux "c" %c
output aux "e" %e
)");
  const AxisGraph axes(graph);
  Hotspots hotspots(graph.tensors().size(), 0);
  for (const auto name : {"a", "b", "d"}) hotspots[graph.makes(find_op(graph, name))[0]] = 128;
  const OpId first = find_op(graph, "a");
  const Labelling rows = grow(axes, first, axes.signature(first)->results[0][0].axis);
  // Half of a, b and d (64 each); m is read (128), c is an output (128), s an accumulator (16).
  EXPECT_EQ(estimated_saving(axes, make_region(graph, rows, {"a", "b", "c", "d", "s"}), hotspots),
            3 * 64 - 128 - 128 - 16);
  // With m inside, it becomes part-sized for nothing.
  EXPECT_EQ(
      estimated_saving(axes, make_region(graph, rows, {"m", "a", "b", "c", "d", "s"}), hotspots),
      3 * 64 - 128 - 16);
  // d alone is read outside, b and c from outside: c is not live at the peak.
  EXPECT_EQ(estimated_saving(axes, make_region(graph, rows, {"d"}), hotspots), -128);
}

// Four blocks of a chain, narrow between blocks; then the same backwards.
TEST(Candidates, AreStretchesBetweenWaists) {
  std::string body = "batch %x \"x\" : f32[8]\n";
  std::string last = "%x";
  const auto add = [&](const std::string& name, const std::string& call, const std::string& end) {
    body += "%" + name + " = aten." + call + " : f32[8]" + end + "\n";
    last = "%" + name;
  };
  for (int b = 0; b < 4; ++b) {
    const std::string n = std::to_string(b);
    const std::string in = last;
    add("p" + n, "relu(" + in + ")", "");
    add("q" + n, "tanh(" + in + ")", "");
    add("r" + n, "add.Tensor(%p" + n + ", %q" + n + ")", "");
  }
  for (int b = 3; b >= 0; --b) {
    const std::string n = std::to_string(b);
    const std::string in = last;
    add("u" + n, "mul.Tensor(" + in + ", %p" + n + ")", " backward");
    add("v" + n, "mul.Tensor(" + in + ", %q" + n + ")", " backward");
    add("w" + n, "add.Tensor(%u" + n + ", %v" + n + ")", " backward");
  }
  body += "output aux \"w\" " + last + "\n";
  const Graph graph = parse_body(body);
  const AxisGraph axes(graph);
  std::vector<std::string> found;
  for (const FissionCandidate& candidate :
       fission_candidates(axes, program_order_hotspots(graph))) {
    EXPECT_EQ(why_invalid(axes, candidate.region), std::nullopt);
    EXPECT_EQ(candidate.saving,
              estimated_saving(axes, candidate.region, program_order_hotspots(graph)));
    found.push_back(names(graph, candidate.region.operators));
  }
  const auto has = [&](const std::string& operators) {
    return std::ranges::find(found, operators) != found.end();
  };
  EXPECT_TRUE(has("p2 q2 r2 p3 q3 r3 u3 v3 w3 u2 v2 w2")) << testing::PrintToString(found);
  // Live at the peak and part-sized: p3, q3, r3 and one of u3 and v3, 2 of 4; full: r2 and w3.
  EXPECT_FALSE(has("p3 q3 r3 u3 v3 w3"));
  EXPECT_TRUE(has("p0 q0 r0 p1 q1 r1 p2 q2 r2 p3 q3 r3 u3 v3 w3 u2 v2 w2 u1 v1 w1 u0 v0 w0"));
  // Hotspots within a stretch all leave it if its backward is outside: nothing would be saved.
  EXPECT_FALSE(has("p1 q1 r1"));
}

class TransformerCandidates : public testing::Test {
 protected:
  TransformerCandidates()
      : source(parse_graph(test::transformer_graph_text({.layers = 3}), "transformer")),
        graph(open(source, openable_operators(source)).graph),
        axes(graph),
        hotspots(program_order_hotspots(graph)),
        candidates(fission_candidates(axes, hotspots)) {
    for (const Bytes bytes : hotspots) total += bytes;
  }

  Graph source, graph;
  AxisGraph axes;
  Hotspots hotspots;
  std::vector<FissionCandidate> candidates;
  Bytes total = 0;
};

TEST_F(TransformerCandidates, HoldNearlyAllHotspotsInTheBest) {
  ASSERT_FALSE(candidates.empty());
  const FissionRegion& best = candidates[0].region;
  EXPECT_EQ(best.length, 8);  // the batch
  EXPECT_GE(hot_inside(graph, best, hotspots), total / 20 * 19);
}

TEST_F(TransformerCandidates, AreValidDistinctAndInOrder) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(why_invalid(axes, candidates[i].region), std::nullopt);
    EXPECT_GT(candidates[i].saving, 0);
    if (i > 0) {
      EXPECT_GE(candidates[i - 1].saving, candidates[i].saving);
    }
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(candidates[i].region, candidates[j].region);
  }
  const std::vector<FissionCandidate> again = fission_candidates(axes, hotspots);
  ASSERT_EQ(again.size(), candidates.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].region, candidates[i].region);
  }
}

// Chunked cross-entropy, found and not written by hand: the logits and their gradient over rows.
TEST_F(TransformerCandidates, IncludeTheHeadOfTheLossOverRows) {
  const auto is_head = [&](const FissionCandidate& candidate) {
    bool forward = false, backward = false;
    for (const OpId op : candidate.region.operators) {
      const std::string& name = graph.op(op).info->name;
      forward |= name == "aten._log_softmax";
      backward |= name == "aten._log_softmax_backward_data";
    }
    return candidate.region.length == 8 * 128 && forward && backward;
  };
  EXPECT_TRUE(std::ranges::any_of(candidates, is_head));
}

TEST_F(TransformerCandidates, AndTheFissionTreeAgreeThatTheBatchIsWorthSplitting) {
  const FissionTree tree = make_fission_tree(axes, hotspots);
  ASSERT_FALSE(tree.nodes.empty());
  for (const FissionNode& node : tree.nodes) {
    EXPECT_EQ(why_invalid(axes, node.region), std::nullopt);
  }
  EXPECT_EQ(tree.nodes[0].region.length, 8);
  EXPECT_GE(hot_inside(graph, tree.nodes[0].region, hotspots), total / 10 * 9);
}

}  // namespace
}  // namespace magis
