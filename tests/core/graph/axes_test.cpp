#include "magis/graph/axes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "graph/axes_builder.h"
#include "magis/graph/op_table.h"
#include "magis/graph/text.h"

namespace magis {
namespace {

Graph parse(const std::string& lines) {
  return parse_graph("magis 1\ndevice cpu\n" + lines + "\noutput aux \"\" %r\n", "test");
}

// The signature of the last operator of a graph of these lines.
std::string signature_text(const std::string& lines) {
  const Graph graph = parse(lines);
  const auto signature = axis_signature(graph, OpId(graph.op_count() - 1));
  return signature ? to_text(*signature) : "none";
}

const std::string kX = "batch %x \"x\" : f32[4,6,8]\n";

TEST(AxisSignature, MatrixProducts) {
  const std::string inputs =
      "param %a \"a\" : f32[4,8]\nparam %b \"b\" : f32[8,3]\nparam %c \"c\" : f32[3]\n";
  EXPECT_EQ(signature_text(inputs + "%r = aten.mm(%a, %b) : f32[4,3]"), "ab, bc -> ac+b");
  // Only one part may add the bias, which has the axis of the columns.
  EXPECT_EQ(signature_text(inputs + "%r = aten.addmm(%c, %a, %b) : f32[4,3]"),
            "!c, ab, bc -> ac+b");
}

TEST(AxisSignature, BroadcastOperandsLackTheAxis) {
  EXPECT_EQ(signature_text(kX + "batch %y \"y\" : f32[6,1]\n"
                                "%r = aten.add.Tensor(%x, %y) : f32[4,6,8]"),
            "abc, b. -> abc");
}

TEST(AxisSignature, WholeAxesAreInUpperCase) {
  EXPECT_EQ(signature_text(kX + "%r = aten._softmax(%x, -1, false) : f32[4,6,8]"), "abC -> abC");
  EXPECT_EQ(signature_text(kX + "%r = aten.mean.dim(%x, [1]) : f32[4,8]"), "aBc -> ac");
}

TEST(AxisSignature, Reductions) {
  EXPECT_EQ(signature_text(kX + "%r = aten.sum.dim_IntList(%x, [0, -1], true) : f32[1,6,1]"),
            "abc -> .b.+a+c");
  EXPECT_EQ(signature_text(kX + "%r = aten.amax(%x, [1]) : f32[4,8]"), "abc -> ac max b");
}

TEST(AxisSignature, GroupsAreAnAxisWithAStep) {
  EXPECT_EQ(signature_text("batch %x \"x\" : f32[2,6,9]\nparam %w \"w\" : f32[12,2,3]\n"
                           "%r = aten.convolution(%x, %w, none, [1], [1], [1], false, [0], 3) : "
                           "f32[2,12,9]"),
            "a2b., 4b.. -> a4b.; 8=b");
}

TEST(AxisSignature, LengthsThatShrinkWithThePart) {
  EXPECT_EQ(signature_text("batch %g \"g\" : f32[4,3,8]\n"
                           "%r = aten.slice_backward(%g, [4, 6, 8], 1, 0, 3, 1) : f32[4,6,8]"),
            "a.b -> a.b; 1.0=a, 1.2=b");
}

TEST(AxisSignature, CausalAttentionKeepsItsRows) {
  const std::string inputs =
      "batch %q \"q\" : f32[2,4,5,8]\nbatch %k \"k\" : f32[2,2,6,8]\nbatch %v \"v\" : "
      "f32[2,2,6,8]\n";
  const auto attention = [&](const std::string& rest) {
    return signature_text(inputs +
                          "%r, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, " +
                          rest + ") : f32[2,4,5,8], f32[2,4,5]\noutput aux \"l\" %l");
  };
  EXPECT_EQ(attention("0.0, false"), "a2bcE, abDE, abDF -> a2bcF, a2bc");
  EXPECT_EQ(attention("0.0, true"), "a2bCE, abDE, abDF -> a2bCF, a2bC");
  EXPECT_EQ(attention("0.5, false"), "none");
}

// Calls that no PyTorch would make: no signature, no exception.
TEST(AxisSignature, OddCallsHaveNone) {
  for (const std::string call : {
           "aten.mm(%x, %x) : f32[4,3]",
           "aten.mm(3) : f32[4,3]",
           "aten.mm() : f32[4,3]",
           "aten.sum.dim_IntList(%x, [7]) : f32[4]",
           "aten.sum.dim_IntList(%x, \"a\") : f32[4]",
           "aten._softmax(%x, [1], false) : f32[4,6,8]",
           "aten.cat(%x, 0) : f32[4,6,8]",
           "aten.cat([1, 2], 0) : f32[4,6,8]",
           "aten.slice_backward(%x, [1], 0, 0, 3, 1) : f32[4,6,8]",
           "aten.convolution(%x) : f32[4,6,8]",
           "aten.convolution(%x, %x, none, [1], [0], [1], false, [0], 0) : f32[4,4,1]",
           "aten.index.Tensor(%x, [%x]) : f32[4,6,8]",
           "aten.embedding(%x, %x) : f32[4]",
           "aten.zeros([4, 7]) : f32[4,6]",
           "aten.native_layer_norm(%x, [9], none, none, 1e-05) : f32[4,6,8]",
           "aten.pixel_shuffle(%x, 0) : f32[4,6,8]",
           "made_up.operator(%x) : f32[4,6,8]",
       }) {
    const std::string text = signature_text(kX + "%r = " + call);
    EXPECT_EQ(text, "none") << call;
  }
}

TEST(AxisNotation, EveryEntrysIsWellFormed) {
  for (const OpInfo* info : known_operators()) {
    if (info->axes.empty()) continue;
    EXPECT_EQ(info->axis_rule, nullptr) << info->name << " has both";
    const auto error = notation_error(info->axes);
    EXPECT_FALSE(error) << info->name << ": " << *error;
  }
  EXPECT_TRUE(notation_error("mk, kn"));
  EXPECT_TRUE(notation_error("mk, kn -> m?"));
  EXPECT_EQ(notation_error("mk, kn -> mn"),
            "`mk, kn -> mn` does not say how each result depends on k");
}

// ---- views

std::string view_axes_text(const std::string& base, const std::string& view) {
  const Graph graph =
      parse("batch %x \"x\" : " + base + "\n%v = " + view + "\n%r = aten.clone(%v) : f32[1]");
  std::string text;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::view) continue;
    for (const ViewAxis& axis : view_axes(graph, value)) {
      text += (text.empty() ? "" : " ") + std::to_string(axis.base_dim);
      if (axis.base_step != 1) text += "/" + std::to_string(axis.base_step);
      text += "=" + std::to_string(axis.view_dim);
      if (axis.view_step != 1) text += "/" + std::to_string(axis.view_step);
    }
  }
  return text;
}

TEST(ViewAxes, ReshapesLinkLeadingFactors) {
  EXPECT_EQ(view_axes_text("f32[2,3,5]", "aten.view(%x, [6,5]) : f32[6,5]"), "0=0/3 2=1");
  EXPECT_EQ(view_axes_text("f32[6,5]", "aten.view(%x, [2,3,5]) : f32[2,3,5]"), "0/3=0 1=2");
  EXPECT_EQ(view_axes_text("f32[6,4]", "aten.view(%x, [8,3]) : f32[8,3]"), "0/3=0/4");
  EXPECT_EQ(view_axes_text("f32[2,1,3]", "aten.view(%x, [1,2,3,1]) : f32[1,2,3,1]"), "0=1 2=2");
  EXPECT_EQ(view_axes_text("f32[3,2]", "aten.view(%x, [2,3]) : f32[2,3]"), "");
}

TEST(ViewAxes, OtherViews) {
  EXPECT_EQ(view_axes_text("f32[2,3,5]", "aten.permute(%x, [2,0,1]) : f32[5,2,3]{1,15,5}"),
            "2=0 0=1 1=2");
  EXPECT_EQ(view_axes_text("f32[3,1]", "aten.expand(%x, [2,3,4]) : f32[2,3,4]{0,1,0}"), "0=1");
  EXPECT_EQ(view_axes_text("f32[3,5]", "aten.slice.Tensor(%x, 1, 0, 4) : f32[3,4]{5,1}"), "0=0");
  EXPECT_EQ(view_axes_text("f32[3,5]", "aten.slice.Tensor(%x, 1, 0, 9) : f32[3,5]"), "0=0 1=1");
  EXPECT_EQ(view_axes_text("f32[2,3,5]", "aten.select.int(%x, 1, 2) : f32[2,5]{15,1}+10"),
            "0=0 2=1");
  EXPECT_EQ(view_axes_text("f32[2,3,3]", "aten.diagonal(%x, 0, 1, 2) : f32[2,3]{9,4}"), "0=0");
  EXPECT_EQ(view_axes_text("f32[3,5]", "aten.unfold(%x, 1, 2, 1) : f32[3,4,2]{5,1,1}"), "0=0");
  EXPECT_EQ(view_axes_text("f32[3,4]", "aten.as_strided(%x, [4,3], [3,1]) : f32[4,3]"), "");
  EXPECT_EQ(view_axes_text("f32[3,4]", "aten.unsqueeze(%x, 1) : f32[3,1,4]"), "0=0 1=2");
  EXPECT_EQ(view_axes_text("f32[3,1,4]", "aten.squeeze.dim(%x, 1) : f32[3,4]"), "0=0 2=1");
  EXPECT_EQ(view_axes_text("f32[3,4]", "aten.view.dtype(%x, torch.bfloat16) : bf16[3,8]"), "0=0");
  EXPECT_EQ(view_axes_text("c64[3,4]", "aten.view_as_real(%x) : f32[3,4,2]"), "0=0 1=1");
  EXPECT_EQ(view_axes_text("f32[3,4,2]", "aten.view_as_complex(%x) : c64[3,4]"), "0=0 1=1");
}

// Byte addresses of the elements of `type` with dimension `dim` between `begin` and `end`.
std::set<int64_t> addresses(const Type& type, int dim, int64_t begin, int64_t end) {
  std::set<int64_t> found;
  const auto visit = [&](const auto& self, std::size_t d, int64_t place) -> void {
    if (d == type.shape.size()) {
      for (Bytes byte = 0; byte < element_size(type.dtype); ++byte) {
        found.insert(place * static_cast<int64_t>(element_size(type.dtype)) +
                     static_cast<int64_t>(byte));
      }
      return;
    }
    const bool chosen = static_cast<int>(d) == dim;
    const int64_t last = chosen ? end : type.shape[d];
    for (int64_t i = chosen ? begin : 0; i < last; ++i) {
      self(self, d + 1, place + i * type.strides[d]);
    }
  };
  visit(visit, 0, type.offset);
  return found;
}

// Of 600 views of random tensors: a slice of the view reads no more than the linked slice of its
// base, for every link and every unit.
TEST(ViewAxes, SlicesReadLinkedSlicesAlone) {
  std::ifstream file(std::string(MAGIS_TEST_DATA) + "/views.magis");
  std::ostringstream text;
  text << file.rdbuf();
  const Graph graph = parse_graph(text.str(), "views.magis");
  int links = 0;
  for (const Value& view : graph.values()) {
    if (view.kind != ValueKind::view) continue;
    const Type& base = graph.value(view.base).type;
    std::set<int> base_dims;
    std::set<int> view_dims;
    for (const ViewAxis& axis : view_axes(graph, view)) {
      ++links;
      EXPECT_TRUE(base_dims.insert(axis.base_dim).second) << view.name;
      EXPECT_TRUE(view_dims.insert(axis.view_dim).second) << view.name;
      const int64_t base_length = base.shape[static_cast<std::size_t>(axis.base_dim)];
      const int64_t view_length = view.type.shape[static_cast<std::size_t>(axis.view_dim)];
      ASSERT_EQ(base_length % axis.base_step, 0) << view.name;
      const int64_t units = base_length / axis.base_step;
      ASSERT_EQ(view_length, units * axis.view_step) << view.name;
      for (int64_t unit = 0; unit < units; ++unit) {
        const auto of_base =
            addresses(base, axis.base_dim, unit * axis.base_step, (unit + 1) * axis.base_step);
        const auto of_view =
            addresses(view.type, axis.view_dim, unit * axis.view_step, (unit + 1) * axis.view_step);
        EXPECT_TRUE(std::includes(of_base.begin(), of_base.end(), of_view.begin(), of_view.end()))
            << view.name << " unit " << unit;
      }
    }
  }
  EXPECT_GE(links, 400);
}

}  // namespace
}  // namespace magis
