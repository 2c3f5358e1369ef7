#include "magis/graph/op_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "magis/graph/text.h"

namespace magis {
namespace {

// The whole table in words. tests/python/test_op_table.py holds each line of this file against
// PyTorch.
TEST(OpTable, IsAsRecorded) {
  std::string table;
  for (const OpInfo* info : known_operators()) table += to_text(*info) + "\n";
  const std::string path = std::string(MAGIS_TEST_DATA) + "/operators.txt";
  if (std::getenv("MAGIS_BLESS") != nullptr) std::ofstream(path) << table;
  std::ostringstream recorded;
  recorded << std::ifstream(path).rdbuf();
  EXPECT_EQ(table, recorded.str());
}

TEST(OpTable, UnknownOperatorsAreOpaqueOrWriteByConvention) {
  EXPECT_EQ(op_info("mylib.fused").purity, Purity::opaque);
  EXPECT_EQ(op_info("mylib.fused.overload_").purity, Purity::opaque);
  EXPECT_EQ(op_info("aten.__xor__.Tensor").purity, Purity::opaque);
  for (const char* name : {"mylib.update_", "mylib.update_.Tensor"}) {
    EXPECT_EQ(op_info(name).purity, Purity::mutating) << name;
    EXPECT_EQ(op_info(name).mutated, std::vector<int>{0}) << name;
  }
}

TEST(OpTable, AddressesAreStableAndTheSameForAllThreads) {
  std::vector<std::vector<const OpInfo*>> seen(4);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 500; ++i) mine.push_back(&op_info("threads.op" + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& others : seen) EXPECT_EQ(others, seen[0]);
  EXPECT_EQ(seen[0][17]->name, "threads.op17");
}

double flops_of(const std::string& statement) {
  const Graph graph = parse_graph(
      "magis 1\ndevice cpu\n"
      "batch %x \"x\" : f32[2,6,10,12]\n"
      "batch %m \"m\" : f32[3,5]\n"
      "batch %n \"n\" : f32[5,7]\n"
      "batch %v \"v\" : f32[5]\n"
      "batch %bm \"bm\" : f32[2,3,5]\n"
      "batch %bn \"bn\" : f32[2,5,7]\n"
      "batch %q \"q\" : f32[2,4,8,16]\n"
      "batch %k \"k\" : f32[2,4,32,16]\n"
      "batch %u \"u\" : f32[2,4,32,20]\n"
      "param %w \"w\" : f32[8,3,3,5]\n" +
          statement + "\noutput loss \"\" %y\n",
      "test.magis");
  const Operator& op = graph.op(OpId(0));
  return op.info->flops == nullptr ? -1 : op.info->flops(graph, op);
}

TEST(OpTable, FlopsOfMatrixProducts) {
  EXPECT_EQ(flops_of("%y = aten.mm(%m, %n) : f32[3,7]"), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("%y = aten.addmm(%v, %m, %n) : f32[3,7]"), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("%y = aten.bmm(%bm, %bn) : f32[2,3,7]"), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("%y = aten.baddbmm(%v, %bm, %bn) : f32[2,3,7]"), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("%y = aten.addbmm(%v, %bm, %bn) : f32[3,7]"), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("%y = aten.mv(%m, %v) : f32[3]"), 2 * 3 * 5);
  EXPECT_EQ(flops_of("%y = aten.dot(%v, %v) : f32[]"), 2 * 5);
  EXPECT_EQ(flops_of("%y = aten.relu(%v) : f32[5]"), -1);
}

TEST(OpTable, FlopsOfConvolutions) {
  // 2 groups of 3 channels, 8 channels out, kernel 3 x 5, no padding: [2,8,8,8].
  const double one = 2.0 * (2 * 8 * 8 * 8) * (3 * 3 * 5);
  EXPECT_EQ(flops_of("%y = aten.convolution(%x, %w, none, [1,1], [0,0], [1,1], false, [0,0], 2) : "
                     "f32[2,8,8,8]"),
            one);
  const auto backward = [](const std::string& types) {
    return flops_of(
        "%y, %gw, %gb = aten.convolution_backward(%x, %x, %w, [8], [1,1], [0,0], [1,1], "
        "false, [0,0], 2, [true,true,true]) : " +
        types);
  };
  // %x stands for the gradient of the output too.
  const double pass = 2.0 * (2 * 6 * 10 * 12) * (3 * 3 * 5);
  EXPECT_EQ(backward("f32[2,6,10,12], f32[8,3,3,5], f32[8]"), 2 * pass);
  EXPECT_EQ(backward("f32[2,6,10,12], none, f32[8]"), pass);
  // Transposed: the weight is [in, out / groups, ...]; every input element meets 3 x 3 x 5 weights.
  EXPECT_EQ(flops_of("%y = aten.convolution(%x, %w, none, [1,1], [0,0], [1,1], true, [0,0], 1) : "
                     "f32[2,3,12,16]"),
            2.0 * (2 * 6 * 10 * 12) * (3 * 3 * 5));
}

TEST(OpTable, FlopsOfAttention) {
  const double forward = 2.0 * (2 * 4 * 8 * 32) * (16 + 20);
  EXPECT_EQ(flops_of("%y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %u) : "
                     "f32[2,4,8,20], f32[2,4,8]"),
            forward);
  EXPECT_EQ(
      flops_of("%y, %gk, %gv = aten._scaled_dot_product_flash_attention_for_cpu_backward(%q, "
               "%q, %k, %u, %q, %q, 0.0, false) : f32[2,4,8,16], f32[2,4,32,16], f32[2,4,32,20]"),
      2.5 * forward);
}

}  // namespace
}  // namespace magis
