#include "magis/codegen/python.h"

#include <gtest/gtest.h>

#include <string>

#include "codegen/python_literals.h"
#include "magis/graph/text.h"

namespace magis {
namespace {

std::string emitted(const std::string& plan_text, const std::string& heading = "") {
  const PlanText plan = parse_plan("magis 1\ndevice cpu\n" + plan_text, "test");
  verify(plan.graph, plan.program);
  return emit_python(plan.graph, plan.program, heading);
}

// The lines between `) = inputs` and `return (`, unindented.
std::string body(const std::string& plan_text) {
  const std::string module = emitted(plan_text);
  const std::string from = ") = inputs\n";
  const std::size_t begin = module.find(from) + from.size();
  const std::string indented = module.substr(begin, module.find("    return ") - begin);
  std::string lines;
  for (std::size_t at = 0; at < indented.size();) {
    const std::size_t end = indented.find('\n', at);
    const std::string line = indented.substr(at, end - at);
    lines += (line.size() > 4 ? line.substr(4) : line) + "\n";
    at = end + 1;
  }
  return lines;
}

TEST(EmitPython, AWholeModule) {
  EXPECT_EQ(emitted(R"(site @1 "encoder.layer.0" "model.py:12"
site @2 "" "loss.py:3"
param %w "encoder.weight" : f32[8,4]
batch %x "['x']" : f32[2,3,4]
scalar %scale "['scale']"
const %c "AAAAAA==" : f32[]
%flat = aten.view(%x, [6,4]) : f32[6,4]
%wt = aten.permute(%w, [1,0]) : f32[4,8]{1,4}
%mm = aten.mm(%flat, %wt) : f32[6,8] @1
%act = aten.relu(%mm) : f32[6,8] @1
%loss = aten.sum(%act) : f32[] @2
%wide = aten.expand(%loss, [6,8]) : f32[6,8]{0,0}
%dmm = aten.threshold_backward(%wide, %act, 0) : f32[6,8] @1 backward
%dmt = aten.permute(%dmm, [1,0]) : f32[8,6]{1,8}
%dw = aten.mm(%dmt, %flat) : f32[8,4] @1 backward
%scaled = aten.mul.Scalar(%dw, %scale) : f32[8,4] @1 backward
%total = aten.add.Tensor(%loss, %c) : f32[] @2
output loss "" %total
output grad "encoder.weight" %scaled
program
run %mm
run %act over %mm
run %loss
run %dmm
free %act
run %dw
free %dmm
run %scaled over %dw
run %total over %loss
)",
                    "Step of a \"test\".\nSecond line with a \\."),
            R"py("""Step of a \"test\".
Second line with a \\."""

import torch

aten_add__Tensor = torch.ops.aten.add_.Tensor
aten_mm = torch.ops.aten.mm.default
aten_mul__Tensor = torch.ops.aten.mul_.Tensor
aten_relu_ = torch.ops.aten.relu_.default
aten_sum = torch.ops.aten.sum.default
aten_threshold_backward = torch.ops.aten.threshold_backward.default


def step(inputs):
    (
        w,  # param encoder.weight, f32[8,4]
        x,  # batch ['x'], f32[2,3,4]
        scale,  # scalar ['scale']
        c,  # const, f32[]
    ) = inputs

    # encoder.layer.0  (model.py:12)  forward
    mm = aten_mm(x.view(6, 4), w.permute(1, 0))
    act = aten_relu_(mm)
    del mm

    # (loss.py:3)  forward
    loss = aten_sum(act)

    # encoder.layer.0  (model.py:12)  backward
    dmm = aten_threshold_backward(loss.expand(6, 8), act, 0)
    del act
    dw = aten_mm(dmm.permute(1, 0), x.view(6, 4))
    del dmm
    scaled = aten_mul__Tensor(dw, scale)
    del dw

    # (loss.py:3)  forward
    total = aten_add__Tensor(loss, c)
    del loss
    return (
        total,  # loss
        scaled,  # grad encoder.weight
    )
)py");
}

TEST(EmitPython, Copies) {
  EXPECT_EQ(body(R"(batch %x "x" : f32[4,4]
%mm = aten.mm(%x, %x) : f32[4,4]
%mm_1 = aten.mm(%mm, %x) : f32[4,4]
%b = aten.mm(%mm, %mm_1) : f32[4,4]
output loss "" %b
program
run %mm
run %mm_1
free %mm
run %mm as .1
run %b reading %mm.1
free %mm.1, %mm_1
)"),
            R"py(mm = aten_mm(x, x)
mm_1 = aten_mm(mm, x)
del mm

# forward, computed again
mm_1_ = aten_mm(x, x)

# forward
b = aten_mm(mm_1_, mm_1)
del mm_1_, mm_1
)py");
}

// `_` holds memory until it is bound again or deleted: it never outlives its statement.
TEST(EmitPython, ResultsThatNobodyReads) {
  const std::string graph = R"(batch %x "x" : f32[4,4]
%ln, %mean, %rstd = aten.native_layer_norm(%x, [4], none, none, 1e-05) : f32[4,4], f32[4,1], f32[4,1]
%dx, %dw, %db = aten.native_layer_norm_backward(%x, %x, [4], %mean, %mean, none, none, [true,false,false]) : f32[4,4], none, none
%dead = aten.mm(%x, %x) : f32[4,4]
%u = aten.add_.Tensor(%x, %dx) : none
output loss "" %dx
)";
  const std::string expected = R"py(_, mean, _ = aten_native_layer_norm(x, [4], None, None, 1e-05)
del _
dx, _, _ = aten_native_layer_norm_backward(
    x, x, [4], mean, mean, None, None, [True, False, False]
)
del mean
aten_mm(x, x)
aten_add__Tensor(x, dx)
)py";
  EXPECT_EQ(
      body(graph + "program\nrun %ln\nfree %ln, %rstd\nrun %dx\nfree %mean\nrun %dead\nfree %dead\n"
                   "run %u\n"),
      expected);
  // A plan that frees late, or not at all, holds nothing longer for it.
  EXPECT_EQ(
      body(graph + "program\nrun %ln\nrun %dx\nfree %mean\nrun %dead\nrun %u\nfree %dead, %ln\n"),
      expected);
}

TEST(EmitPython, RunsInPlace) {
  EXPECT_EQ(body(R"(batch %x "x" : f32[4,4]
%a = aten.mm(%x, %x) : f32[4,4]
%b = aten.mm(%a, %x) : f32[4,4]
%c = aten.sub.Tensor(%a, %x, alpha=2) : f32[4,4]
%d = aten.add.Tensor(%x, %c) : f32[4,4]
%e = aten.gelu_backward(%d, %b, approximate="tanh") : f32[4,4]
%flat = aten.view(%e, [16]) : f32[16]
%f = aten.relu(%flat) : f32[16]
output loss "" %f
program
run %a
run %b
run %c over %a
run %d over %c
run %e over %b
free %d
run %f over %e
)"),
            R"py(a = aten_mm(x, x)
b = aten_mm(a, x)
c = aten_sub__Tensor(a, x, alpha=2)
del a
d = aten_add__Tensor(c, x)
del c
e = aten_gelu_backward_grad_input(d, b, approximate='tanh', grad_input=b)
del b, d
f = aten_relu_(e.view(16))
del e
)py");
}

TEST(EmitPython, Views) {
  const std::string text = R"(batch %x "x" : f32[2,3,4]
batch %one "one" : f32[]
%v0 = aten.slice.Tensor(%x, 1, 0, 2) : f32[2,2,4]{12,4,1}/96
%r0 = aten.relu(%v0) : f32[2,2,4]
%v1 = aten.slice.Tensor(%x, -1, 1, 9223372036854775807, 2) : f32[2,3,2]{12,4,2}+1/96
%r1 = aten.abs(%v1) : f32[2,3,2]
%v2 = aten.slice.Tensor(%x, 0, -1) : f32[1,3,4]+12/96
%r2 = aten.abs(%v2) : f32[1,3,4]
%v3 = aten.select.int(%x, 1, 2) : f32[2,4]{12,1}+8/96
%r3 = aten.abs(%v3) : f32[2,4]
%v4 = aten.unsqueeze(%x, 0) : f32[1,2,3,4]
%v5 = aten.squeeze.dim(%v4, 0) : f32[2,3,4]
%r5 = aten.abs(%v5) : f32[2,3,4]
%v6 = aten.squeeze.dims(%v4, [0,1]) : f32[2,3,4]
%r6 = aten.abs(%v6) : f32[2,3,4]
%v7 = aten.as_strided(%x, [2,2], [1,4], 3) : f32[2,2]{1,4}+3/96
%r7 = aten.sum(%v7) : f32[]
%v8 = aten.diagonal(%x, 0, 1, 2) : f32[2,3]{12,5}/96
%r8 = aten.sum(%v8) : f32[]
%v9 = aten.unfold(%x, 2, 2, 1) : f32[2,3,3,2]{12,4,1,1}/96
%r9 = aten.sum(%v9) : f32[]
%v10 = aten.view.dtype(%x, torch.int32) : i32[2,3,4]
%r10 = aten.sum(%v10) : i64[]
%v11 = aten.view(%one, [1]) : f32[1]
%v12 = aten.view(%v11, []) : f32[]
%v13 = aten.expand(%v12, [3]) : f32[3]{0}
%r13 = aten.sum(%v13) : f32[]
%v14 = aten.view(%x, [6,4]) : f32[6,4]
%v15 = aten.view(%v14, [24]) : f32[24]
%v16 = aten.view(%v15, [2,3,4]) : f32[2,3,4]
%r16 = aten.add.Tensor(%v15, %v15) : f32[24]
%r17 = aten.abs(%v16) : f32[2,3,4]
%v18 = aten.view(%x, [2,3,2,2]) : f32[2,3,2,2]
%v19 = aten.view_as_complex(%v18) : c64[2,3,2]/96
%r19 = aten.sum(%v19) : c64[]
output aux "0" %r0
output aux "16" %r16
output aux "17" %v5
)";
  std::string program = "program\n";
  std::string outputs;
  for (const char* name :
       {"r0", "r1", "r2", "r3", "r5", "r6", "r7", "r8", "r9", "r10", "r13", "r16", "r17", "r19"}) {
    program += std::string("run %") + name + "\n";
  }
  EXPECT_EQ(body(text + program), R"py(r0 = aten_relu(x[:, :2])
aten_abs(x[:, :, 1::2])
aten_abs(x[-1:])
aten_abs(x.select(1, 2))
aten_abs(x.unsqueeze(0).squeeze(0))
aten_abs(x.unsqueeze(0).squeeze([0, 1]))
aten_sum(x.as_strided([2, 2], [1, 4], 3))
aten_sum(x.diagonal(0, 1, 2))
aten_sum(x.unfold(2, 2, 1))
aten_sum(x.view(torch.int32))
aten_sum(one.expand(3))
r16 = aten_add_Tensor(x.view(24), x.view(24))
aten_abs(x)
aten_sum(torch.ops.aten.view_as_complex.default(x.view(2, 3, 2, 2)))
)py");
  EXPECT_NE(emitted(text + program).find("        x.unsqueeze(0).squeeze(0),  # aux 17\n"),
            std::string::npos);
}

// Two views in a row on something that is not contiguous stay two.
TEST(EmitPython, ViewsOfPermutedTensorsStay) {
  EXPECT_EQ(body(R"(batch %x "x" : f32[4,2,3]
%p = aten.permute(%x, [1,0,2]) : f32[2,4,3]{3,6,1}
%v = aten.view(%p, [2,4,3,1]) : f32[2,4,3,1]{3,6,1,1}
%w = aten.view(%v, [2,2,2,3]) : f32[2,2,2,3]{3,12,6,1}
%r = aten.sum(%w) : f32[]
output loss "" %r
program
run %r
)"),
            "r = aten_sum(x.permute(1, 0, 2).view(2, 4, 3, 1).view(2, 2, 2, 3))\n");
}

TEST(EmitPython, Literals) {
  EXPECT_EQ(body(R"(batch %x "x" : f32[4]
%a = aten.full([2,3], -inf, dtype=torch.float32, layout=torch.strided, device=device("cpu"), pin_memory=false) : f32[2,3]
%m = magis.bernoulli([2,4], [1,2], 0.9, dtype=torch.float32, device=device("cpu")) : f32[2,4]{1,2}
%g = aten.gelu(%x, approximate="none") : f32[4]
%c = aten.clamp(%x, none, 1e-05) : f32[4]
%d = aten.div.Tensor_mode(%x, %x, rounding_mode="it's \\ \n") : f32[4]
%i = aten.index.Tensor(%x, [none, %x]) : f32[4]
output aux "0" %a
output aux "1" %m
output aux "2" %g
output aux "3" %c
output aux "4" %d
output aux "5" %i
program
run %a
run %m
run %g
run %c
run %d
run %i
)"),
            R"py(a = aten_full(
    [2, 3],
    float('-inf'),
    dtype=torch.float32,
    layout=torch.strided,
    device=torch.device('cpu'),
    pin_memory=False,
)
m = torch.empty_strided(
    [2, 4], [1, 2], dtype=torch.float32, device=torch.device('cpu')
).bernoulli_(0.9)
g = aten_gelu(x, approximate='none')
c = aten_clamp(x, None, 1e-05)
d = aten_div_Tensor_mode(x, x, rounding_mode='it\'s \\ \x0a')
i = aten_index_Tensor(x, [None, x])
)py");
}

TEST(EmitPython, FloatsKeepTheirValueAndType) {
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(1e-05), "1e-05");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(1e300), "1e+300");
  EXPECT_EQ(python_float(0.30000000000000004), "0.30000000000000004");
}

// Neither keywords, nor builtins, nor what the module uses itself.
TEST(EmitPython, NamesThatPythonHasAUseFor) {
  EXPECT_EQ(emitted(R"(batch %input "input" : f32[4,4]
batch %lambda "lambda" : f32[4,4]
%sum = aten.mm(%input, %lambda) : f32[4,4]
%torch = aten.mm(%sum, %sum) : f32[4,4]
%inputs = aten.mm(%torch, %torch) : f32[4,4]
%aten_mm = aten.mm(%inputs, %inputs) : f32[4,4]
%_ = aten.mm(%aten_mm, %aten_mm) : f32[4,4]
output loss "" %_
program
run %sum
run %torch
run %inputs
run %aten_mm
run %_
)"),
            R"py(import torch

aten_mm = torch.ops.aten.mm.default


def step(inputs):
    (
        input_,  # batch input, f32[4,4]
        lambda_,  # batch lambda, f32[4,4]
    ) = inputs
    sum_ = aten_mm(input_, lambda_)
    torch_ = aten_mm(sum_, sum_)
    inputs_ = aten_mm(torch_, torch_)
    aten_mm_ = aten_mm(inputs_, inputs_)
    __ = aten_mm(aten_mm_, aten_mm_)
    return (
        __,  # loss
    )
)py");
}

TEST(EmitPython, OtherNamespacesAndKeywordOverloads) {
  const std::string module = emitted(R"(batch %x "x" : f32[4]
%a = mylib.scale(%x, 2.0) : f32[4]
%b = aten.random.from(%x, 0, 10) : f32[4]
output loss "" %a
output aux "0" %b
program
run %a
run %b
)");
  EXPECT_NE(module.find("mylib_scale = torch.ops.mylib.scale.default\n"), std::string::npos)
      << module;
  EXPECT_NE(module.find("aten_random_from = getattr(torch.ops.aten.random, 'from')\n"),
            std::string::npos)
      << module;
}

TEST(EmitPython, AStepWithoutInputs) {
  EXPECT_EQ(emitted("%a = aten.ones([2]) : f32[2]\noutput aux \"\" %a\nprogram\nrun %a\n"),
            R"py(import torch

aten_ones = torch.ops.aten.ones.default


def step(inputs):
    a = aten_ones([2])
    return (
        a,  # aux
    )
)py");
}

// No line of a path can end the comment that it stands in.
TEST(EmitPython, PathsStayInTheirComment) {
  const std::string module = emitted(R"(site @1 "a\nb" "c\nd"
batch %x "['\n']" : f32[4]
%a = aten.relu(%x) : f32[4] @1
output aux "['\nimport os']" %a
program
run %a
)");
  EXPECT_NE(module.find("x,  # batch [' '], f32[4]\n"), std::string::npos) << module;
  EXPECT_NE(module.find("# a b  (c d)  forward\n"), std::string::npos) << module;
  EXPECT_NE(module.find("a,  # aux [' import os']\n"), std::string::npos) << module;
}

}  // namespace
}  // namespace magis
