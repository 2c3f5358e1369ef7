// verify() finds what is wrong with a graph that the builder was misled into making.
#include <gtest/gtest.h>

#include "magis/base/error.h"
#include "magis/graph/builder.h"
#include "magis/graph/text.h"
#include "support/expect_error.h"

namespace magis {
namespace {

Type contiguous(Shape shape) {
  Type type{.shape = std::move(shape)};
  type.strides = contiguous_strides(type.shape);
  type.storage = minimal_storage(type);
  return type;
}

TEST(GraphVerify, AViewsTypeIsDerivedFromItsBase) {
  GraphBuilder builder;
  const ValueId x = builder.add_input(InputKind::batch, "x", "x", contiguous({4, 6}));
  const Call call{&op_info("aten.permute"), {{x}, {ArgList{{int64_t{1}}, {int64_t{0}}}}}, {}};
  builder.add_output(OutputKind::aux, "", builder.add_view("v", call, contiguous({6, 4})));
  const Graph graph = std::move(builder).build();
  const std::string message = test::message_of<InternalError>([&] { verify(graph); });
  EXPECT_NE(message.find("%v : f32[6,4], not f32[6,4]{1,6}"), std::string::npos) << message;
}

TEST(GraphVerify, OnlyInputsAreWrittenTo) {
  GraphBuilder builder;
  const ValueId x = builder.add_input(InputKind::batch, "x", "x", contiguous({4, 6}));
  Operator exp;
  exp.info = &op_info("aten.exp");
  exp.args = {{x}};
  const ValueId a = builder.add_operator(exp, {"a"}, {contiguous({4, 6})})[0];
  Operator write;
  write.info = &op_info("aten.add_.Tensor");
  write.args = {{a}, {x}};
  builder.add_operator(write, {"w"}, {Type{.defined = false}});
  builder.add_output(OutputKind::aux, "", a);
  const Graph graph = std::move(builder).build();
  const std::string message = test::message_of<InternalError>([&] { verify(graph); });
  EXPECT_NE(message.find("aten.add_.Tensor writes to %a, which is not an input"), std::string::npos)
      << message;
}

TEST(GraphVerify, TheBuilderRefusesWhatHasNoMeaning) {
  GraphBuilder builder;
  builder.add_input(InputKind::batch, "x", "x", contiguous({4, 6}));
  const auto refuses = [](auto run) { test::message_of<InternalError>(run); };
  refuses([&] { builder.add_input(InputKind::param, "x", "y", contiguous({4})); });
  refuses([&] { builder.add_input(InputKind::scalar, "s", "s", contiguous({4})); });
  refuses([&] { builder.add_view("v", {&op_info("aten.view"), {}, {}}, contiguous({4})); });
  Operator op;
  op.info = &op_info("aten.ones");
  refuses([&] { builder.add_operator(op, {"a", "b"}, {contiguous({4})}); });
}

}  // namespace
}  // namespace magis
