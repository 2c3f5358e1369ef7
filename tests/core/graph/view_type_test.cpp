#include "magis/graph/view_type.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "magis/graph/text.h"

namespace magis {
namespace {

// tests/data/views.magis holds 600 views of random tensors, zero lengths and chains included, with
// the types that PyTorch gave them.
TEST(ViewType, EqualsPyTorchs) {
  std::ifstream file(std::string(MAGIS_TEST_DATA) + "/views.magis");
  std::ostringstream text;
  text << file.rdbuf();
  const Graph graph = parse_graph(text.str(), "views.magis");
  int views = 0;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::view) continue;
    ++views;
    const auto derived = derive_view(graph.view(value), graph.value(value.base).type);
    ASSERT_TRUE(std::holds_alternative<Type>(derived)) << value.name;
    // Strides of length-1 axes too: later layouts follow from them.
    EXPECT_EQ(to_text(std::get<Type>(derived)), to_text(value.type)) << value.name;
  }
  EXPECT_GE(views, 600);
}

TEST(ViewType, StridesThatAreNeverUsedDoNotCount) {
  const Type a{.shape = {1, 4}, .strides = {4, 1}, .storage = 16};
  Type b = a;
  b.strides = {99, 1};
  EXPECT_TRUE(same_layout(a, b));
  b.strides = {4, 2};
  EXPECT_FALSE(same_layout(a, b));
  b = a;
  b.offset = 1;
  EXPECT_FALSE(same_layout(a, b));
  b = a;
  b.storage = 32;
  EXPECT_FALSE(same_layout(a, b));
}

}  // namespace
}  // namespace magis
