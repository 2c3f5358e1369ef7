"""Graphs, and the same graphs split by hand."""

from verify_support import MLP, changed

# The MLP with its prediction as one more output.
MLP_SOURCE = changed(MLP, "output loss", 'output aux "" %o\noutput loss')


def mlp_split(part: int) -> str:
    """Forward and backward in parts of the batch of 4. The prediction is concatenated, the loss
    summed, both weights' gradients summed without a temporary; the weights are shared."""
    return f"""magis 1
device cpu
param %w1 "0.weight" : f32[5,3]
param %w2 "2.weight" : f32[2,5]
batch %x "[0]" : f32[4,3]
batch %y "[1]" : f32[4,2]
%w1t = aten.permute(%w1, [1,0]) : f32[3,5]{{1,3}}
%w2t = aten.permute(%w2, [1,0]) : f32[5,2]{{1,5}}
%out, %loss, %dw2, %dw1 = magis.begin("r1", {part}, 4, []) : f32[4,2], f32[], f32[2,5], f32[5,3]
%xp = magis.part(%x, 0, 1*r1) : f32[{part},3]/48
%yp = magis.part(%y, 0, 1*r1) : f32[{part},2]/32
%h = aten.mm(%xp, %w1t) : f32[{part},5]
%a = aten.relu(%h) : f32[{part},5]
%o = aten.mm(%a, %w2t) : f32[{part},2]
%n1 = magis.write_part(%out, 0, 1*r1, %o) : none
%d = aten.sub.Tensor(%o, %yp) : f32[{part},2]
%sq = aten.mul.Tensor(%d, %d) : f32[{part},2]
%s = aten.sum(%sq) : f32[]
%n2 = magis.add_part(%loss, %s) : none
%do = aten.mul.Tensor(%d, 2.0) : f32[{part},2] backward
%dot = aten.permute(%do, [1,0]) : f32[2,{part}]{{1,2}} backward
%n3 = magis.add_mm_part(%dw2, %dot, %a) : none
%da = aten.mm(%do, %w2) : f32[{part},5] backward
%dh = aten.threshold_backward(%da, %a, 0) : f32[{part},5] backward
%dht = aten.permute(%dh, [1,0]) : f32[5,{part}]{{1,5}} backward
%n4 = magis.add_mm_part(%dw1, %dht, %xp) : none
%e = magis.end("r1", [%out, %loss, %dw2, %dw1], []) : none
output aux "" %out
output loss "" %loss
output grad "0.weight" %dw1
output grad "2.weight" %dw2
"""


MLP_SPLIT = mlp_split(3)  # iterations of 3 and 1

MLP_SPLIT_PLAN = (
    MLP_SPLIT
    + """program
run %out
run %h
run %a over %h
run %o
run %n1
run %d over %o
run %sq
run %s
free %sq
run %n2
free %s
run %do over %d
run %n3
run %da
free %do
run %dh over %da
free %a
run %n4
free %dh
run %e
"""
)

TWO_AXES_SOURCE = """magis 1
device cpu
param %w "w" : f32[6,10]
batch %x "x" : f32[8,6]
%x2 = aten.mul.Tensor(%x, 2.0) : f32[8,6]
%x3 = aten.neg(%x2) : f32[8,6]
%mm = aten.mm(%x3, %w) : f32[8,10]
%y = aten.relu(%mm) : f32[8,10]
%rows = aten.sum.dim_IntList(%y, [1]) : f32[8]
%z = aten.exp(%rows) : f32[8]
output aux "y" %y
output aux "z" %z
"""


def two_axes(rows: int, columns: int) -> str:
    """r1 walks `rows` of 8; in it r2 walks `columns` of 10. %x2 is made outside, %x3 in r1."""
    return f"""magis 1
device cpu
param %w "w" : f32[6,10]
batch %x "x" : f32[8,6]
%x2 = aten.mul.Tensor(%x, 2.0) : f32[8,6]
%y, %z = magis.begin("r1", {rows}, 8, [%x2]) : f32[8,10], f32[8]
%xp = magis.part(%x2, 0, 1*r1) : f32[{rows},6]/192
%x3 = aten.neg(%xp) : f32[{rows},6]
%yr, %rows = magis.begin("r2", {columns}, 10, [%x3]) : f32[{rows},10], f32[{rows}]
%wp = magis.part(%w, 1, 1*r2) : f32[6,{columns}]{{10,1}}/240
%mm = aten.mm(%x3, %wp) : f32[{rows},{columns}]
%yp = aten.relu(%mm) : f32[{rows},{columns}]
%n1 = magis.write_part(%yr, 1, 1*r2, %yp) : none
%rp = aten.sum.dim_IntList(%yp, [1]) : f32[{rows}]
%n2 = magis.add_part(%rows, %rp) : none
%e2 = magis.end("r2", [%yr, %rows], [%x3]) : none
%n3 = magis.write_part(%y, 0, 1*r1, %yr) : none
%zp = aten.exp(%rows) : f32[{rows}]
%n4 = magis.write_part(%z, 0, 1*r1, %zp) : none
%e1 = magis.end("r1", [%y, %z], [%x2]) : none
output aux "y" %y
output aux "z" %z
"""


TWO_AXES = two_axes(3, 4)

TWO_AXES_PLAN = (
    TWO_AXES
    + """program
run %x2
run %y
run %x3
run %yr
run %mm
run %yp over %mm
run %n1
run %rp
free %yp
run %n2
free %rp
run %e2
free %x3
run %n3
free %yr
run %zp over %rows
run %n4
free %zp
run %e1
free %x2
"""
)

SAME_AXIS_SOURCE = """magis 1
device cpu
param %w "w" : f32[6,10]
batch %x "x" : f32[8,6]
%mm = aten.mm(%x, %w) : f32[8,10]
%y = aten.relu(%mm) : f32[8,10]
%z = aten.exp(%y) : f32[8,10]
%s = aten.sum.dim_IntList(%z, [0]) : f32[10]
output aux "y" %y
output aux "s" %s
"""


def same_axis(outer: int, inner: int) -> str:
    """The same rows twice: r1 walks `outer` of 8, r2 walks `inner` of what r1 walks."""
    return f"""magis 1
device cpu
param %w "w" : f32[6,10]
batch %x "x" : f32[8,6]
%y, %s = magis.begin("r1", {outer}, 8, []) : f32[8,10], f32[10]
%xp = magis.part(%x, 0, 1*r1) : f32[{outer},6]/192
%yr = magis.begin("r2", {inner}, 1*r1, []) : f32[{outer},10]
%xq = magis.part(%xp, 0, 1*r2) : f32[{inner},6]/192
%mm = aten.mm(%xq, %w) : f32[{inner},10]
%yq = aten.relu(%mm) : f32[{inner},10]
%n1 = magis.write_part(%yr, 0, 1*r2, %yq) : none
%e2 = magis.end("r2", [%yr], []) : none
%n2 = magis.write_part(%y, 0, 1*r1, %yr) : none
%z = aten.exp(%yr) : f32[{outer},10]
%sp = aten.sum.dim_IntList(%z, [0]) : f32[10]
%n3 = magis.add_part(%s, %sp) : none
%e1 = magis.end("r1", [%y, %s], []) : none
output aux "y" %y
output aux "s" %s
"""


SAME_AXIS = same_axis(5, 2)

# Rows of 4 sequences of 6 tokens as one axis of 24, and both axes sliced in one view's lengths.
MERGED_SOURCE = """magis 1
device cpu
param %w "w" : f32[5,2]
batch %x "x" : f32[4,6,5]
%c = aten.neg(%x) : f32[4,6,5]
%rows = aten.view(%c, [24,5]) : f32[24,5]
%y = aten.mm(%rows, %w) : f32[24,2]
%e = aten.exp(%x) : f32[4,6,5]
%s = aten.sum(%e) : f32[]
output aux "y" %y
output aux "s" %s
"""

MERGED = """magis 1
device cpu
param %w "w" : f32[5,2]
batch %x "x" : f32[4,6,5]
%y, %s = magis.begin("r1", 3, 4, []) : f32[24,2], f32[]
%xp = magis.part(%x, 0, 1*r1) : f32[3,6,5]/480
%c = aten.neg(%xp) : f32[3,6,5]
%rows = aten.view(%c, [6*r1,5]) : f32[18,5]
%yp = aten.mm(%rows, %w) : f32[18,2]
%n1 = magis.write_part(%y, 0, 6*r1, %yp) : none
%sr = magis.begin("r2", 4, 6, []) : f32[]
%xq = magis.part(%xp, 1, 1*r2) : f32[3,4,5]{30,5,1}/480
%e = aten.clone(%xq, memory_format=torch.contiguous_format) : f32[3,4,5]
%eq = aten.exp(%e) : f32[3,4,5]
%flat = aten.view(%eq, [5*r1*r2]) : f32[60]
%sq = aten.sum(%flat) : f32[]
%n2 = magis.add_part(%sr, %sq) : none
%e2 = magis.end("r2", [%sr], []) : none
%n3 = magis.add_part(%s, %sr) : none
%e1 = magis.end("r1", [%y, %s], []) : none
output aux "y" %y
output aux "s" %s
"""

COMBINED_SOURCE = """magis 1
device cpu
param %w "w" : f32[5]
batch %x "x" : f32[7,5]
batch %a "a" : f32[2,3,7]
batch %b "b" : f32[2,7,4]
%max = aten.amax(%x, [0]) : f32[5]
%min = aten.amin(%x, [0]) : f32[5]
%prod = aten.prod.dim_int(%x, 0) : f32[5]
%big = aten.gt.Scalar(%x, 0.7) : bool[7,5]
%any = aten.any.dim(%big, 0) : bool[5]
%small = aten.le.Scalar(%x, 0.7) : bool[7,5]
%all = aten.all.dim(%small, 0) : bool[5]
%kept = aten.neg(%w) : f32[5]
%bmm = aten.bmm(%a, %b) : f32[2,3,4]
output aux "max" %max
output aux "min" %min
output aux "prod" %prod
output aux "any" %any
output aux "all" %all
output aux "kept" %kept
output aux "bmm" %bmm
"""

COMBINED = """magis 1
device cpu
param %w "w" : f32[5]
batch %x "x" : f32[7,5]
batch %a "a" : f32[2,3,7]
batch %b "b" : f32[2,7,4]
%max, %min, %prod, %any, %all, %kept, %bmm = magis.begin("r1", 2, 7, []) : f32[5], f32[5], f32[5], bool[5], bool[5], f32[5], f32[2,3,4]
%xp = magis.part(%x, 0, 1*r1) : f32[2,5]/140
%p1 = aten.amax(%xp, [0]) : f32[5]
%n1 = magis.max_part(%max, %p1) : none
%p2 = aten.amin(%xp, [0]) : f32[5]
%n2 = magis.min_part(%min, %p2) : none
%p3 = aten.prod.dim_int(%xp, 0) : f32[5]
%n3 = magis.mul_part(%prod, %p3) : none
%big = aten.gt.Scalar(%xp, 0.7) : bool[2,5]
%p4 = aten.any.dim(%big, 0) : bool[5]
%n4 = magis.any_part(%any, %p4) : none
%small = aten.le.Scalar(%xp, 0.7) : bool[2,5]
%p5 = aten.all.dim(%small, 0) : bool[5]
%n5 = magis.all_part(%all, %p5) : none
%p6 = aten.neg(%w) : f32[5]
%n6 = magis.keep_part(%kept, %p6) : none
%ap = magis.part(%a, 2, 1*r1) : f32[2,3,2]{21,7,1}/168
%bp = magis.part(%b, 1, 1*r1) : f32[2,2,4]{28,4,1}/224
%n7 = magis.add_bmm_part(%bmm, %ap, %bp) : none
%e = magis.end("r1", [%max, %min, %prod, %any, %all, %kept, %bmm], []) : none
output aux "max" %max
output aux "min" %min
output aux "prod" %prod
output aux "any" %any
output aux "all" %all
output aux "kept" %kept
output aux "bmm" %bmm
"""  # noqa: E501
