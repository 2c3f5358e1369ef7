#include "magis/graph/axes.h"

#include <gtest/gtest.h>

#include "magis/graph/text.h"

namespace magis {
namespace {

// The signature of the last operator of a graph with these lines.
std::string signature_text(const std::string& lines) {
  const Graph graph = parse_graph("magis 1\ndevice cpu\n" + lines + "\noutput loss \"\" %r\n", "t");
  const OpId last{static_cast<int32_t>(graph.op_count()) - 1};
  const std::optional<AxisSignature> signature = axis_signature(graph, last);
  return signature ? to_text(*signature) : "none";
}

TEST(AxisSignature, MatrixProducts) {
  EXPECT_EQ(signature_text("param %a \"a\" : f32[4,8]\nparam %b \"b\" : f32[8,3]\n"
                           "%r = aten.mm(%a, %b) : f32[4,3]"),
            "ab, bc -> ac+b");
}

}  // namespace
}  // namespace magis
