// Code for tensors that leave for the host and come back.
#include <gtest/gtest.h>

#include <string>

#include "magis/codegen/python.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

std::string emitted(const std::string& device, const std::string& plan_text) {
  const PlanText plan = parse_plan("magis 1\ndevice " + device + "\n" + plan_text, "test");
  verify(plan.graph, plan.program);
  return emit_python(plan.graph, plan.program, "");
}

// What stands between two lines, without the first and with the second.
std::string between(const std::string& module, const std::string& from, const std::string& to) {
  const std::size_t begin = module.find(from) + from.size();
  return module.substr(begin, module.find(to, begin) + to.size() - begin);
}

const std::string kThere = R"(batch %x "x" : f32[4,8]
%gelu = aten.gelu(%x) : f32[4,8]
%tanh = aten.tanh(%gelu) : f32[4,8]
%wide = aten.exp(%tanh) : f32[4,8]
%dx = aten.mul.Tensor(%wide, %gelu) : f32[4,8]
output loss "" %dx
program
run %gelu
store %gelu
run %tanh
await %gelu
free %gelu
run %wide over %tanh
load %gelu as .1
await %gelu.1
run %dx reading %gelu.1 over %wide
free %gelu.1
)";

// A copy is through when its statement is; awaits leave nothing but the `del` behind them.
TEST(EmitCopies, OnTheCpuAWholeModule) {
  EXPECT_EQ(emitted("cpu", kThere), R"py(import torch

aten_exp_ = torch.ops.aten.exp_.default
aten_gelu = torch.ops.aten.gelu.default
aten_mul__Tensor = torch.ops.aten.mul_.Tensor
aten_tanh = torch.ops.aten.tanh.default


def step(inputs, host):
    # host: uint8[128], where tensors are kept that leave the device for a while
    (
        x,  # batch x, f32[4,8]
    ) = inputs
    gelu = aten_gelu(x)
    # gelu leaves for the host
    gelu_host = host[0:128].view(torch.float32).as_strided(gelu.shape, gelu.stride())
    gelu_host.copy_(gelu)
    tanh = aten_tanh(gelu)
    del gelu
    wide = aten_exp_(tanh)
    del tanh
    # gelu_1 comes back from the host for dx
    gelu_1 = torch.empty_strided(
        gelu_host.shape, gelu_host.stride(), dtype=torch.float32, device='cpu'
    )
    gelu_1.copy_(gelu_host)
    dx = aten_mul__Tensor(wide, gelu_1)
    del wide, gelu_1
    return (
        dx,  # loss
    )
)py");
}

TEST(EmitCopies, OnCudaAWholeModule) {
  EXPECT_EQ(emitted("cuda", kThere), R"py(import torch

aten_exp_ = torch.ops.aten.exp_.default
aten_gelu = torch.ops.aten.gelu.default
aten_mul__Tensor = torch.ops.aten.mul_.Tensor
aten_tanh = torch.ops.aten.tanh.default

# Tensors leave for the host and come back while the step computes.
to_host = torch.cuda.Stream(device='cuda')
from_host = torch.cuda.Stream(device='cuda')


def step(inputs, host):
    # host: uint8[128], where tensors are kept that leave the device for a while
    (
        x,  # batch x, f32[4,8]
    ) = inputs
    compute = torch.cuda.current_stream('cuda')
    gelu = aten_gelu(x)
    # gelu leaves for the host
    gelu_host = host[0:128].view(torch.float32).as_strided(gelu.shape, gelu.stride())
    to_host.wait_stream(compute)
    with torch.cuda.stream(to_host):
        gelu_host.copy_(gelu, non_blocking=True)
    gelu_stored = to_host.record_event()
    tanh = aten_tanh(gelu)
    compute.wait_event(gelu_stored)
    del gelu
    wide = aten_exp_(tanh)
    del tanh
    # gelu_1 comes back from the host for dx
    gelu_1 = torch.empty_strided(
        gelu_host.shape, gelu_host.stride(), dtype=torch.float32, device='cuda'
    )
    from_host.wait_stream(compute)
    with torch.cuda.stream(from_host):
        gelu_1.copy_(gelu_host, non_blocking=True)
    gelu_1_loaded = from_host.record_event()
    compute.wait_event(gelu_1_loaded)
    dx = aten_mul__Tensor(wide, gelu_1)
    del wide, gelu_1
    return (
        dx,  # loss
    )
)py");
}

// What comes back before anybody awaited that it is there waits for the store itself, and what
// nobody awaits is waited for at the end.
TEST(EmitCopies, OnCudaALoadWaitsForItsStore) {
  const std::string module = emitted("cuda", R"(batch %x "x" : f32[4,8]
%gelu = aten.gelu(%x) : f32[4,8]
%tanh = aten.tanh(%gelu) : f32[4,8]
output loss "" %tanh
program
run %gelu
store %gelu
load %gelu as .1
await %gelu.1
load %gelu as .2
await %gelu.1
run %tanh reading %gelu.1
)");
  EXPECT_EQ(between(module, "gelu_stored = to_host.record_event()\n", "return"),
            R"py(    # gelu_1 comes back from the host for tanh
    gelu_1 = torch.empty_strided(
        gelu_host.shape, gelu_host.stride(), dtype=torch.float32, device='cuda'
    )
    from_host.wait_stream(compute)
    from_host.wait_event(gelu_stored)
    with torch.cuda.stream(from_host):
        gelu_1.copy_(gelu_host, non_blocking=True)
    gelu_1_loaded = from_host.record_event()
    compute.wait_event(gelu_1_loaded)
    # gelu_2 comes back from the host
    gelu_2 = torch.empty_strided(
        gelu_host.shape, gelu_host.stride(), dtype=torch.float32, device='cuda'
    )
    from_host.wait_stream(compute)
    from_host.wait_event(gelu_stored)
    with torch.cuda.stream(from_host):
        gelu_2.copy_(gelu_host, non_blocking=True)
    gelu_2_loaded = from_host.record_event()
    tanh = aten_tanh(gelu_1)
    compute.wait_event(gelu_stored)
    compute.wait_event(gelu_2_loaded)
    return)py");
}

// Slots are as large as the tensor, whatever its dtype, and 64 bytes aligned.
TEST(EmitCopies, SlotsOfEveryDtype) {
  const std::string module = emitted("cpu", R"(batch %x "x" : bf16[3,5]
batch %y "y" : bf16[3,5]
%mask = aten.gt.Tensor(%x, %y) : bool[3,5]
%half = aten.mul.Tensor(%x, %y) : bf16[3,5]
%small = aten._to_copy(%x, dtype=torch.float8_e4m3fn) : f8e4m3fn[3,5]
%turned = aten._to_copy(%x, dtype=torch.complex64) : c64[3,5]
%one = aten.sum(%turned) : c64[]
%sum = aten.any(%mask) : bool[]
output aux "0" %sum
program
run %mask
store %mask
run %half
store %half
run %small
store %small
run %turned
run %one
store %one
load %mask as .1
load %half as .1
load %small as .1
load %one as .1
await %mask.1, %half.1, %small.1, %one.1
run %sum
)");
  for (const char* line :
       {"mask_host = host[0:15].view(torch.bool).as_strided(mask.shape, mask.stride())",
        "half_host = host[64:94].view(torch.bfloat16).as_strided(half.shape, half.stride())",
        "small_host = host[128:143].view(torch.float8_e4m3fn).as_strided(",
        "one_host = host[192:200].view(torch.complex64).as_strided(one.shape, one.stride())"}) {
    EXPECT_NE(module.find(line), std::string::npos) << line << "\n" << module;
  }
  EXPECT_NE(module.find("uint8[256]"), std::string::npos) << module;
}

// The language's own words stay free for the copies, and names that nobody could tell apart do not
// arise.
TEST(EmitCopies, Names) {
  const std::string module = emitted("cuda", R"(batch %host "host" : f32[4]
batch %compute "compute" : f32[4]
%a = aten.mul.Tensor(%host, %compute) : f32[4]
%a_host = aten.sin(%a) : f32[4]
%a_stored = aten.cos(%a_host) : f32[4]
%to_host = aten.exp(%a_stored) : f32[4]
%from_host = aten.add.Tensor(%to_host, %a) : f32[4]
output loss "" %from_host
program
run %a
store %a
run %a_host
await %a
free %a
run %a_stored over %a_host
run %to_host over %a_stored
load %a as .1
await %a.1
run %from_host reading %a.1 over %to_host
free %a.1
)");
  for (const char* line :
       {"        host_,  # batch host, f32[4]\n", "        compute_,  # batch compute, f32[4]\n",
        "    a_host_ = host[0:16].view(torch.float32).as_strided(a.shape, a.stride())\n",
        "    a_stored_ = to_host.record_event()\n", "    compute.wait_event(a_stored_)\n",
        "    to_host_ = aten_exp_(a_stored)\n",
        "    from_host_ = aten_add__Tensor(to_host_, a_1)\n"}) {
    EXPECT_NE(module.find(line), std::string::npos) << line << "\n" << module;
  }
}

// In a loop every iteration stores to the same place, as much as its part holds.
TEST(EmitCopies, InTheBodyOfALoop) {
  const std::string module = emitted("cpu", R"(batch %h "h" : f32[8,64]
%y = magis.begin("r1", 3, 8, []) : f32[8,64]
%part = magis.part(%h, 0, 1*r1) : f32[3,64]
%a = aten.sin(%part) : f32[3,64]
%b = aten.cos(%a) : f32[3,64]
%c = aten.mul.Tensor(%b, %a) : f32[3,64]
%n1 = magis.write_part(%y, 0, 1*r1, %c) : none
%end = magis.end("r1", [%y], []) : none
output loss "" %y
program
run %y
run %a
store %a
run %b
await %a
free %a
load %a as .1
await %a.1
run %c reading %a.1 over %b
free %a.1
run %n1
free %c
run %end
)");
  EXPECT_EQ(between(module, "r1 in range(0, 8, 3):\n", "del c\n"),
            R"py(        r1_length = min(3, 8 - r1)
        a = aten_sin(h.narrow(0, r1, r1_length))
        # a leaves for the host
        a_host = host[0:768].view(torch.float32).as_strided(a.shape, a.stride())
        a_host.copy_(a)
        b = aten_cos(a)
        del a
        # a_1 comes back from the host for c
        a_1 = torch.empty_strided(a_host.shape, a_host.stride(), dtype=torch.float32, device='cpu')
        a_1.copy_(a_host)
        c = aten_mul__Tensor(b, a_1)
        del b, a_1
        y.narrow(0, r1, r1_length).copy_(c)
        del c
)py");
}

}  // namespace
}  // namespace magis
