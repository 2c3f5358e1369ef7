#include "magis/transform/accumulate.h"

#include <gtest/gtest.h>

#include "magis/graph/text.h"
#include "support/expect_error.h"
#include "support/random_graph.h"

namespace magis {
namespace {

constexpr std::string_view kStep =
    "magis 1\n"
    "device cpu\n"
    "meta model \"two layers\"\n"
    "site @1 \"layer\" \"model.py:1\"\n"
    "\n"
    "param %w \"layer.weight\" : f32[4,6]\n"
    "param %b \"layer.bias\" : f32[4]\n"
    "batch %x \"x\" : f32[4,6]\n"
    "scalar %scale \"scale\"\n"
    "\n"
    "%gw = aten.mul.Tensor(%w, %scale) : f32[4,6] @1 backward scratch 64\n"
    "%w_grad = aten.exp(%x) : f32[4,6]\n"
    "%rows = aten.slice.Tensor(%gw, 1, 0, 1) : f32[4,1]{6,1}/96\n"
    "%gb = aten.squeeze.dim(%rows, 1) : f32[4]{6}/96\n"
    "\n"
    "output loss \"\" %w_grad\n"
    "output grad \"layer.weight\" %gw\n"
    "output grad \"layer.bias\" %gb\n"
    "output grad \"x\" %x\n";

std::string accumulated(const std::vector<std::string>& paths) {
  const Graph graph = accumulate_gradients(parse_graph(kStep, "test.magis"), paths);
  verify(graph);
  return to_text(graph);
}

TEST(AccumulateGradients, NothingAskedForNothingChanged) { EXPECT_EQ(accumulated({}), kStep); }

TEST(AccumulateGradients, AddsRightAfterTheProducerUnderAFreeName) {
  EXPECT_EQ(accumulated({"layer.weight"}),
            "magis 1\n"
            "device cpu\n"
            "meta model \"two layers\"\n"
            "site @1 \"layer\" \"model.py:1\"\n"
            "\n"
            "param %w \"layer.weight\" : f32[4,6]\n"
            "param %b \"layer.bias\" : f32[4]\n"
            "batch %x \"x\" : f32[4,6]\n"
            "scalar %scale \"scale\"\n"
            "grad %w_grad_2 \"layer.weight\" : f32[4,6]\n"
            "\n"
            "%gw = aten.mul.Tensor(%w, %scale) : f32[4,6] @1 backward scratch 64\n"
            "%w_grad_2_added = aten.add_.Tensor(%w_grad_2, %gw) : none @1 backward\n"
            "%w_grad = aten.exp(%x) : f32[4,6]\n"
            "%rows = aten.slice.Tensor(%gw, 1, 0, 1) : f32[4,1]{6,1}/96\n"
            "%gb = aten.squeeze.dim(%rows, 1) : f32[4]{6}/96\n"
            "\n"
            "output loss \"\" %w_grad\n"
            "output grad \"layer.bias\" %gb\n"
            "output grad \"x\" %x\n");
}

// A gradient that is a view is added by value into storage of its own; one that is an input as it
// is, at the end.
TEST(AccumulateGradients, ViewsAndInputs) {
  const std::string text = accumulated({"x", "layer.bias"});
  EXPECT_NE(text.find("grad %b_grad \"layer.bias\" : f32[4]{6}\n"
                      "grad %x_grad \"x\" : f32[4,6]\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%gb = aten.squeeze.dim(%rows, 1) : f32[4]{6}/96\n"
                      "%b_grad_added = aten.add_.Tensor(%b_grad, %gb) : none @1 backward\n"
                      "%w_grad = aten.exp(%x) : f32[4,6]\n"
                      "%x_grad_added = aten.add_.Tensor(%x_grad, %x) : none backward\n"),
            std::string::npos)
      << text;
}

TEST(AccumulateGradients, NamesAPathThatHasNoGradient) {
  EXPECT_EQ(test::message_of<UserError>([] {
              accumulated({"layer.weight", "layer.wait"});
            }),
            "the graph has no gradient output for \"layer.wait\"");
  EXPECT_EQ(test::message_of<UserError>([] { accumulated({""}); }),
            "the graph has no gradient output for \"\"");  // the loss is none
}

TEST(AccumulateGradients, KeepsTheRestOfRandomGraphs) {
  int accumulations = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = test::make_random_graph(seed, 20);
    std::vector<std::string> paths;
    for (const Output& output : graph.outputs()) {
      if (output.kind == OutputKind::grad) paths.push_back(output.path);
    }
    const Graph changed = accumulate_gradients(graph, paths);
    ASSERT_NO_THROW(verify(changed)) << "seed " << seed;
    EXPECT_EQ(changed.op_count(), graph.op_count() + paths.size());
    EXPECT_EQ(changed.outputs().size(), graph.outputs().size() - paths.size());
    const std::string text = to_text(changed);
    EXPECT_EQ(to_text(parse_graph(text, "test.magis")), text);
    accumulations += static_cast<int>(paths.size());
  }
  EXPECT_GT(accumulations, 50);
}

}  // namespace
}  // namespace magis
