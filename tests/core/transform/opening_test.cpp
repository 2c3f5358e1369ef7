// Opened forms as text; that they compute the same is held in tests/python/truth.
#include "magis/transform/opening.h"

#include <gtest/gtest.h>

#include <string>

#include "magis/graph/text.h"

namespace magis {
namespace {

std::string opened(const std::string& statements, const std::string& device = "cpu") {
  const Graph graph = parse_graph("magis 1\ndevice " + device + "\n" + statements, "test");
  const OpenedGraph result = open(graph, openable_operators(graph));
  verify(result.graph);
  EXPECT_EQ(result.origin.size(), result.graph.op_count());
  const std::string text = to_text(result.graph);
  const std::size_t begin = text.find("\n\n%") + 2;
  return text.substr(begin, text.find("\n\noutput") - begin + 1);
}

TEST(Opening, CountsLabelsApartFromLosses) {
  EXPECT_EQ(opened(R"(batch %x "x" : f32[8,10]
batch %labels "y" : i64[8]
%loss, %weight = aten.nll_loss_forward(%x, %labels, none, 1, -100) : f32[], f32[]
output loss "" %loss
output aux "" %weight
)"),
            R"(%loss_valid = aten.ne.Scalar(%labels, -100) : bool[8]
%loss_count = aten.sum(%loss_valid) : i64[]
%weight = aten._to_copy(%loss_count, dtype=torch.float32) : f32[]
%loss_sum, %weight_sum = aten.nll_loss_forward(%x, %labels, none, 2, -100) : f32[], f32[]
%loss = aten.div.Tensor(%loss_sum, %weight) : f32[]
)");
}

TEST(Opening, DividesMeansOnce) {
  EXPECT_EQ(opened(R"(batch %x "x" : f32[8,10]
%m = aten.mean(%x) : f32[]
%d = aten.mean.dim(%x, [0], true) : f32[1,10]
output loss "" %m
output aux "" %d
)"),
            R"(%m_sum = aten.sum(%x) : f32[]
%m = aten.div.Scalar(%m_sum, 80) : f32[]
%d_sum = aten.sum.dim_IntList(%x, [0], true) : f32[1,10]
%d = aten.div.Scalar(%d_sum, 8) : f32[1,10]
)");
}

// The mean of 512 numbers near 1000 is a float16; their sum is not.
TEST(Opening, LeavesFloat16Whole) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f16[512]
batch %y "y" : f16[512]
%m = aten.mean(%x) : f16[]
%loss = aten.mse_loss(%x, %y) : f16[]
%grad = aten.mse_loss_backward(%m, %x, %y, 1) : f16[512]
output loss "" %loss
output aux "" %grad
)",
                                  "test");
  EXPECT_TRUE(openable_operators(graph).empty());
}

TEST(Opening, DividesTheGradientOfAMeanLoss) {
  EXPECT_EQ(opened(R"(batch %x "x" : f32[8,10]
batch %y "y" : f32[8,10]
%one = aten.full([], 1.0) : f32[]
%loss = aten.mse_loss(%x, %y) : f32[]
%grad = aten.mse_loss_backward(%one, %x, %y, 1) : f32[8,10]
output loss "" %loss
output aux "" %grad
)"),
            R"(%one = aten.full([], 1.0) : f32[]
%loss_sum = aten.mse_loss(%x, %y, reduction=2) : f32[]
%loss = aten.div.Scalar(%loss_sum, 80) : f32[]
%grad_share = aten.div.Scalar(%one, 80) : f32[]
%grad = aten.mse_loss_backward(%grad_share, %x, %y, 2) : f32[8,10]
)");
}

TEST(Opening, KeepsMasksAsBits) {
  EXPECT_EQ(opened(R"(batch %x "x" : f32[8,16]
%mask = magis.bernoulli([8,16], [16,1], 0.9, dtype=torch.float32) : f32[8,16]
%y = aten.mul.Tensor(%x, %mask) : f32[8,16]
output aux "" %y
)"),
            R"(%mask_mask = magis.bernoulli([8,16], [16,1], 0.9, dtype=torch.bool) : bool[8,16]
%mask_bits = magis.pack_bits(%mask_mask) : u8[8,2]
%mask = magis.unpack_bits(%mask_bits, torch.float32) : f32[8,16]
%y = aten.mul.Tensor(%x, %mask) : f32[8,16]
)");
}

// The kernels of a CPU multiply by 1 / (1 - p); those of CUDA round 1 - p to float32 first, and the
// quotient again: here the two differ in float32.
TEST(Opening, DrawsDropoutApartFromWhatItDropsOut) {
  const std::string statements = R"(batch %x "x" : f32[8,16]
%y, %m = aten.native_dropout(%x, 0.15, true) : f32[8,16], bool[8,16]
%g = aten.native_dropout_backward(%y, %m, 1.1764705882352942) : f32[8,16]
output aux "" %g
)";
  EXPECT_EQ(opened(statements),
            R"(%y_nothing = aten.empty.memory_format([8,16], dtype=torch.float32) : f32[8,16]
%y_drawn, %m_drawn = aten.native_dropout(%y_nothing, 0.15, true) : f32[8,16], bool[8,16]
%m_bits = magis.pack_bits(%m_drawn) : u8[8,2]
%m = magis.unpack_bits(%m_bits, torch.bool) : bool[8,16]
%y = aten.native_dropout_backward(%x, %m, 1.1764705882352942) : f32[8,16]
%g = aten.native_dropout_backward(%y, %m, 1.1764705882352942) : f32[8,16]
)");
  const std::string cuda = opened(statements, "cuda");
  EXPECT_NE(cuda.find("([8,16], dtype=torch.float32, device=device(\"cuda\"))"), std::string::npos);
  EXPECT_NE(cuda.find("%y = aten.native_dropout_backward(%x, %m, 1.1764705181121826)"),
            std::string::npos)
      << cuda;
}

// 1 / 0.9 in float32; on a CPU one kernel would take more memory than the two that there are.
TEST(Opening, AppliesScaledMasksByOneKernelOnCuda) {
  const std::string draw =
      R"(%mask = magis.bernoulli([8,16], [16,1], 0.9, dtype=torch.float32, device=device("cuda")) : f32[8,16]
%share = aten.div.Scalar(%mask, 0.9) : f32[8,16]
%y = aten.mul.Tensor(%x, %share) : f32[8,16]
%z = aten.mul.Tensor(%share, %y) : f32[8,16]
)";
  const std::string statements = "batch %x \"x\" : f32[8,16]\n" + draw;
  const std::string end = "output aux \"\" %z\n";
  EXPECT_EQ(
      opened(statements + end, "cuda"),
      R"(%mask_mask = magis.bernoulli([8,16], [16,1], 0.9, dtype=torch.bool, device=device("cuda")) : bool[8,16]
%mask_bits = magis.pack_bits(%mask_mask) : u8[8,2]
%mask = magis.unpack_bits(%mask_bits, torch.bool) : bool[8,16]
%y = aten.native_dropout_backward(%x, %mask, 1.1111111640930176) : f32[8,16]
%z = aten.native_dropout_backward(%y, %mask, 1.1111111640930176) : f32[8,16]
)");
  const std::string left = "%share = aten.div.Scalar(%mask, 0.9)";
  EXPECT_NE(opened(statements + end).find(left), std::string::npos);
  for (const std::string also : {"%n = aten.neg(%share) : f32[8,16]\noutput aux \"n\" %n\n",
                                 "%n = aten.neg(%mask) : f32[8,16]\noutput aux \"n\" %n\n",
                                 "output aux \"n\" %share\n", "output aux \"n\" %mask\n",
                                 "%n = aten.mul.Tensor(%share, %share) : f32[8,16]\n"
                                 "output aux \"n\" %n\n"}) {
    EXPECT_NE(opened(statements + also + end, "cuda").find(left), std::string::npos) << also;
  }
}

// Which elements of other layouts are dropped is another question; nothing is drawn for p = 0.
TEST(Opening, LeavesDropoutWholeWhereTheSameDrawIsNotCertain) {
  for (const std::string call :
       {"%y, %m = aten.native_dropout(%t, 0.3, true) : f32[16,8]{1,16}, bool[16,8]{1,16}",
        "%y, %m = aten.native_dropout(%s, 0.3, true) : f32[7,8], bool[7,8]",
        "%y, %m = aten.native_dropout(%x, 0.0, true) : f32[8,16], bool[8,16]",
        "%y, %m = aten.native_dropout(%x, 0.3, false) : f32[8,16], bool[8,16]",
        "%y, %m = aten.native_dropout(%v, 0.3, true) : f32[128], bool[128]"}) {
    const Graph graph = parse_graph(R"(magis 1
device cuda
batch %x "x" : f32[8,16]
batch %z "z" : f32[57]
%t = aten.permute(%x, [1,0]) : f32[16,8]{1,16}
%v = aten.view(%x, [128]) : f32[128]
%s = aten.as_strided(%z, [7,8], [8,1], 1) : f32[7,8]+1
)" + call + "\noutput aux \"\" %y\n",
                                    "test");
    EXPECT_TRUE(openable_operators(graph).empty()) << call;
  }
}

// Eight elements share a byte along the last dimension; weights per class make another divisor;
// sums and plain losses are what they are.
TEST(Opening, LeavesAloneWhatItKnowsNoOtherFormOf) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
param %w "w" : f32[10]
batch %x "x" : f32[8,10]
batch %labels "y" : i64[8]
%odd = magis.bernoulli([8,10], [10,1], 0.9, dtype=torch.float32) : f32[8,10]
%loss, %weight = aten.nll_loss_forward(%x, %labels, %w, 1, -100) : f32[], f32[]
%all = aten.nll_loss_forward(%odd, %labels, none, 2, -100) : f32[]
%each = aten.mse_loss(%x, %odd, 0) : f32[8,10]
output loss "" %loss
output aux "a" %all
output aux "b" %each
)",
                                  "test");
  EXPECT_TRUE(openable_operators(graph).empty());
}

}  // namespace
}  // namespace magis
