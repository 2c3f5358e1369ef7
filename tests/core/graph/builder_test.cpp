// What build() computes: edges, precedence, in-place choices.
#include "magis/graph/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "magis/graph/text.h"
#include "support/random_graph.h"

namespace magis {
namespace {

Graph parse(const std::string& body) {
  Graph graph = parse_graph("magis 1\ndevice cpu\n" + body, "test.magis");
  verify(graph);
  return graph;
}

OpId maker_of(const Graph& graph, std::string_view name) {
  for (const Value& value : graph.values()) {
    if (value.name == name) return value.producer;
  }
  return {};
}

std::string name_of(const Graph& graph, OpId op) { return graph.name(op); }

std::string predecessors_of(const Graph& graph, std::string_view name) {
  std::string text;
  for (OpId before : graph.predecessors(maker_of(graph, name)))
    text += name_of(graph, before) + " ";
  return text;
}

// "0:%a 1:%b": the argument's position and the tensor that may be overwritten, best first.
std::string choices_of(const Graph& graph, std::string_view name) {
  std::string text;
  for (const auto& choice : graph.in_place_choices(maker_of(graph, name))) {
    const TensorId tensor = graph.edge_tensor(choice.edge);
    text +=
        std::to_string(choice.argument) + ":" + graph.value(graph.tensor(tensor).value).name + " ";
  }
  return text;
}

// %a, %b and %c are f32[4,6] and made inside the step, %t is %a permuted.
std::string choices_for(const std::string& statement) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4,6]\n"
      "scalar %s \"s\"\n"
      "%a = aten.exp(%x) : f32[4,6]\n"
      "%b = aten.sin(%x) : f32[4,6]\n"
      "%c = aten.ge.Scalar(%x, 0) : bool[4,6]\n"
      "%t = aten.permute(%a, [1,0]) : f32[6,4]{1,6}\n" +
      statement + "\noutput loss \"\" %y\n");
  return choices_of(graph, "y");
}

TEST(InPlace, ElementwiseOperatorsOverwriteAnOperandOfTheSameLayout) {
  EXPECT_EQ(choices_for("%y = aten.relu(%a) : f32[4,6]"), "0:a ");
  EXPECT_EQ(choices_for("%y = aten.gelu_backward(%a, %b) : f32[4,6]"), "0:a 1:b ");
  EXPECT_EQ(choices_for("%y = aten.where.self(%c, %a, %b) : f32[4,6]"), "1:a 2:b ");
  EXPECT_EQ(choices_for("%y = aten.masked_fill.Scalar(%a, %c, 0) : f32[4,6]"), "0:a ");
  EXPECT_EQ(choices_for("%y = aten.sub.Tensor(%a, %b) : f32[4,6]"), "0:a ");
  EXPECT_EQ(choices_for("%y = aten.mul.Tensor(%a, %s) : f32[4,6]"), "0:a ");
  EXPECT_EQ(choices_for("%y = aten.relu(%t) : f32[6,4]{1,6}"), "0:a ");
}

TEST(InPlace, CommutativeOperatorsMaySwap) {
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(%a, %b) : f32[4,6]"), "0:a 1:b ");
  EXPECT_EQ(choices_for("%y = aten.mul.Tensor(%a, %b) : f32[4,6]"), "0:a 1:b ");
  EXPECT_EQ(choices_for("%y = aten.mul.Tensor(%x, %b) : f32[4,6]"), "1:b ");
  // alpha belongs to the second operand: a + 0.5 b is not b + 0.5 a.
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(%a, %b, alpha=0.5) : f32[4,6]"), "0:a ");
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(%x, %b, alpha=0.5) : f32[4,6]"), "");
  // The first operand has to take the second's place: a number cannot.
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(2.0, %b) : f32[4,6]"), "");
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(%s, %b) : f32[4,6]"), "");
  // Nor a tensor that acts as a number of another dtype.
  EXPECT_EQ(choices_for("%d = aten.zeros([], dtype=torch.float64) : f64[]\n"
                        "%y = aten.mul.Tensor(%d, %b) : f32[4,6]"),
            "");
  EXPECT_EQ(choices_for("%d = aten.zeros([], dtype=torch.float32) : f32[]\n"
                        "%y = aten.mul.Tensor(%d, %b) : f32[4,6]"),
            "1:b ");
}

TEST(InPlace, NotWhereSomethingElseWouldChange) {
  EXPECT_EQ(choices_for("%y = aten.relu(%x) : f32[4,6]"), "");              // an input
  EXPECT_EQ(choices_for("%y = aten.relu(%a) : f32[4,6]{1,4}"), "");         // other strides
  EXPECT_EQ(choices_for("%y = aten.relu(%a) : f32[4,6]/128"), "");          // other storage
  EXPECT_EQ(choices_for("%y = aten.exp(%c) : f32[4,6]"), "");               // other dtype
  EXPECT_EQ(choices_for("%y = aten.add.Tensor(%a, %b) : f32[2,4,6]"), "");  // broadcast
  EXPECT_EQ(choices_for("%y = aten.mm(%a, %t) : f32[4,4]"), "");            // not elementwise
  EXPECT_EQ(choices_for("%y = aten._softmax(%a, 1, false) : f32[4,6]"), "");
  EXPECT_EQ(choices_for("%y = aten._to_copy(%a, dtype=torch.float32) : f32[4,6]"), "");
  EXPECT_EQ(choices_for("%h = aten.slice.Tensor(%a, 0, 0, 2) : f32[2,6]/96\n"
                        "%y = aten.relu(%h) : f32[2,6]"),
            "");  // the rest of %a would stay behind
}

TEST(InPlace, OperandsThatShareATensor) {
  EXPECT_EQ(choices_for("%y = aten.mul.Tensor(%a, %a) : f32[4,6]"), "0:a ");
  // Not elementwise: it would read what it has already overwritten.
  EXPECT_EQ(choices_for("%i = aten.arange(4) : i64[4]\n"
                        "%y = aten.index_put(%a, [%i], %b) : f32[4,6]"),
            "0:a ");
  EXPECT_EQ(choices_for("%i = aten.arange(4) : i64[4]\n"
                        "%y = aten.index_put(%a, [%i], %a) : f32[4,6]"),
            "");
  EXPECT_EQ(choices_for("%v = aten.view(%t, [6,4]) : f32[6,4]{1,6}\n"
                        "%y = aten.sub.Tensor(%t, %v) : f32[6,4]{1,6}"),
            "");  // equal in truth, but not the same value
  EXPECT_EQ(choices_for("%p = aten.permute(%t, [1,0]) : f32[4,6]\n"
                        "%q = aten.as_strided(%a, [4,6], [1,4]) : f32[4,6]{1,4}\n"
                        "%y = aten.add.Tensor(%p, %q) : f32[4,6]"),
            "");  // written in one order, read in another
}

TEST(Edges, OnePerTensorAndReaderInTheOrderOfArguments) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4,6]\n"
      "%a = aten.exp(%x) : f32[4,6]\n"
      "%v = aten.view(%a, [24]) : f32[24]\n"
      "%w = aten.view(%a, [24,1]) : f32[24,1]\n"
      "%y = aten.foo([%v,%x], %w, key=[[%a]]) : f32[24]\n"
      "%z = aten.relu(%v) : f32[24]\n"
      "output loss \"\" %z\n");
  const OpId y = maker_of(graph, "y");
  ASSERT_EQ(graph.reads(y).size(), 2U);
  EXPECT_EQ(graph.value(graph.tensor(graph.reads(y)[0]).value).name, "a");
  EXPECT_EQ(graph.value(graph.tensor(graph.reads(y)[1]).value).name, "x");
  const TensorId a = graph.reads(y)[0];
  ASSERT_EQ(graph.uses(a).size(), 2U);
  EXPECT_EQ(graph.uses(a)[0], graph.first_edge(y));
  EXPECT_EQ(name_of(graph, graph.edge_op(graph.uses(a)[1])), "z");
  EXPECT_EQ(graph.edge_count(), 4U);
}

TEST(Edges, PersistentBytesAreTheInputsStorages) {
  const Graph graph = parse(
      "param %w \"w\" : f32[4,6]\n"        // 96
      "const %c \"AACAPw==\" : f32[]\n"    // 4
      "batch %i \"i\" : i64[3]{2}+1/64\n"  // 64: the storage, not the tensor
      "scalar %s \"s\"\n"                  // nothing
      "%y = aten.mul.Tensor(%w, %c) : f32[4,6]\n"
      "output loss \"\" %y\n");
  EXPECT_EQ(graph.persistent_bytes(), 96 + 4 + 64);
  EXPECT_EQ(graph.tensors().size(), 4U);
}

TEST(Edges, ViewsThatNobodyReadsAreDropped) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4,6]\n"
      "%v = aten.view(%x, [24]) : f32[24]\n"
      "%w = aten.view(%v, [2,12]) : f32[2,12]\n"
      "%u = aten.view(%x, [6,4]) : f32[6,4]\n"
      "output aux \"\" %u\n");
  EXPECT_EQ(graph.values().size(), 2U);
  EXPECT_TRUE(graph.tensor(TensorId(0)).is_output);
}

TEST(Precedence, RandomAndUnknownOperatorsKeepTheirOrder) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4,6]\n"
      "%m1 = magis.bernoulli([4,6], [6,1], 0.9, dtype=torch.float32) : f32[4,6]\n"
      "%a = aten.exp(%x) : f32[4,6]\n"
      "%u = mylib.unknown(%x) : f32[4,6]\n"  // may draw
      "%m2, %k = aten.native_dropout(%a, 0.1, true) : f32[4,6], bool[4,6]\n"
      "%d = aten.native_dropout_backward(%m2, %k, 1.1) : f32[4,6]\n"
      "output loss \"\" %d\n");
  EXPECT_EQ(predecessors_of(graph, "m1"), "");
  EXPECT_EQ(predecessors_of(graph, "a"), "");
  EXPECT_EQ(predecessors_of(graph, "u"), "m1 ");
  EXPECT_EQ(predecessors_of(graph, "m2"), "a u ");
  EXPECT_EQ(predecessors_of(graph, "d"), "m2 ");
}

TEST(Precedence, AttentionDrawsOnlyWithDropout) {
  const auto purity = [](const std::string& probability) {
    const Graph graph = parse(
        "batch %q \"q\" : f32[2,4,8,16]\n"
        "%y, %l = aten._scaled_dot_product_flash_attention(%q, %q, %q" +
        probability + ") : f32[2,4,8,16], f32[2,4,8]\noutput loss \"\" %y\n");
    return graph.op(OpId(0)).info->purity;
  };
  EXPECT_EQ(purity(""), Purity::pure);
  EXPECT_EQ(purity(", 0.0, true"), Purity::pure);
  EXPECT_EQ(purity(", 0, true"), Purity::pure);
  EXPECT_EQ(purity(", 0.1, true"), Purity::random);
  EXPECT_EQ(purity(", dropout_p=0.1"), Purity::random);
  EXPECT_EQ(purity(", dropout_p=0.0"), Purity::pure);
}

TEST(Precedence, WritesWaitForEarlierReadersAndLaterReadersForWrites) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4,6]\n"
      "buffer %b \"b\" : f32[4,6]\n"
      "%v = aten.view(%b, [24]) : f32[24]\n"
      "%r1 = aten.exp(%v) : f32[24]\n"  // through a view
      "%r2 = aten.mul.Tensor(%b, %x) : f32[4,6]\n"
      "%w1 = aten.add_.Tensor(%b, %r2) : none\n"
      "%r3 = aten.sin(%b) : f32[4,6]\n"
      "%w2 = aten.copy_(%b, %x) : none\n"
      "%w3 = aten.mul_.Scalar(%b, 0.5) : none\n"
      "%r4 = aten.cos(%b) : f32[4,6]\n"
      "output loss \"\" %r4\n"
      "output buffer \"b\" %b\n");
  EXPECT_EQ(predecessors_of(graph, "r1"), "");
  EXPECT_EQ(predecessors_of(graph, "w1"), "r1 r2 ");
  EXPECT_EQ(predecessors_of(graph, "r3"), "w1 ");
  EXPECT_EQ(predecessors_of(graph, "w2"), "w1 r3 ");
  EXPECT_EQ(predecessors_of(graph, "w3"), "w2 ");
  EXPECT_EQ(predecessors_of(graph, "r4"), "w3 ");
}

TEST(Precedence, UpdatesWaitForTheLoss) {
  const Graph graph = parse(
      "batch %x \"x\" : f32[4]\n"
      "param %p \"p\" : f32[4]\n"
      "buffer %b \"b\" : f32[4]\n"
      "%early = aten.mul_.Scalar(%b, 0.5) : none backward\n"  // before it in the program
      "%loss = aten.sum(%x) : f32[]\n"
      "%forward = aten.mul_.Scalar(%b, 0.5) : none\n"
      "%update = aten.mul_.Scalar(%p, 0.5) : none backward\n"
      "output loss \"\" %loss\n");
  EXPECT_EQ(predecessors_of(graph, "early"), "");
  EXPECT_EQ(predecessors_of(graph, "forward"), "early ");
  EXPECT_EQ(predecessors_of(graph, "update"), "loss ");
}

TEST(Precedence, WritesToListsOfTensors) {
  const Graph graph = parse(
      "param %p \"p\" : f32[4]\n"
      "param %q \"q\" : f32[4]\n"
      "%a = aten.exp(%q) : f32[4]\n"
      "%w = aten._foreach_add_.Scalar([%p,%q], 1) : none\n"
      "%r = aten.sin(%p) : f32[4]\n"
      "output loss \"\" %a\n"
      "output aux \"\" %r\n");
  EXPECT_EQ(predecessors_of(graph, "w"), "a ");
  EXPECT_EQ(predecessors_of(graph, "r"), "w ");
}

// ---- the plain twin: everything recomputed from the definition, pair by pair
std::set<TensorId> tensors_in(const Graph& graph, const Operator& op, bool only_written) {
  std::set<TensorId> tensors;
  const auto insert = [&](ValueId id) {
    if (graph.value(id).tensor.valid()) tensors.insert(graph.value(id).tensor);
  };
  if (!only_written) for_each_value(op, insert);
  for (int position : op.info->mutated) {
    if (only_written) for_each_value(op.args.at(static_cast<std::size_t>(position)), insert);
  }
  return tensors;
}

// Whether exchanging the two operators, the first before the second in program order, could change
// what the step computes.
bool must_keep_order(const Graph& graph, OpId first, OpId second) {
  const auto draws = [&](OpId op) {
    const Purity purity = graph.op(op).info->purity;
    return purity == Purity::random || purity == Purity::opaque;
  };
  if (draws(first) && draws(second)) return true;
  const auto overlap = [](const std::set<TensorId>& a, const std::set<TensorId>& b) {
    return std::ranges::any_of(a, [&](TensorId tensor) { return b.count(tensor) != 0; });
  };
  const auto reads_of_second = tensors_in(graph, graph.op(second), false);
  const auto made = std::set<TensorId>(graph.makes(first).begin(), graph.makes(first).end());
  return overlap(made, reads_of_second) ||
         overlap(tensors_in(graph, graph.op(first), true), reads_of_second) ||
         overlap(tensors_in(graph, graph.op(first), false),
                 tensors_in(graph, graph.op(second), true));
}

TEST(Precedence, ReachesExactlyWhatTheDefinitionAsksFor) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::make_random_graph(seed, 25);
    const std::size_t n = graph.op_count();
    // reach[a][b]: b runs after a, by Graph::predecessors and by the definition; both closed under
    // transitivity.
    std::vector<std::vector<bool>> given(n, std::vector<bool>(n)), asked(n, std::vector<bool>(n));
    for (std::size_t b = 0; b < n; ++b) {
      for (OpId a : graph.predecessors(OpId(b))) given[static_cast<std::size_t>(a.index)][b] = true;
      for (std::size_t a = 0; a < b; ++a) asked[a][b] = must_keep_order(graph, OpId(a), OpId(b));
    }
    for (auto* reach : {&given, &asked}) {
      for (std::size_t via = 0; via < n; ++via) {
        for (std::size_t a = 0; a < n; ++a) {
          for (std::size_t b = 0; b < n && (*reach)[a][via]; ++b) {
            if ((*reach)[via][b]) (*reach)[a][b] = true;
          }
        }
      }
    }
    EXPECT_EQ(given, asked) << "seed " << seed;
  }
}

}  // namespace
}  // namespace magis
