"""Programs whose tensors are on the host for a while, and the same ones without."""

from verify_support import MLP_PLAN, changed

# %a is away from after %o to before its two readers in the backward pass.
MLP_SWAP = changed(
    changed(
        changed(MLP_PLAN, "run %o\n", "store %a\nrun %o\nawait %a\nfree %a\n"),
        "run %dw2\n",
        "load %a as .1\nawait %a.1\nrun %dw2 reading %a.1\n",
    ),
    "run %dh over %da\nfree %a\n",
    "run %dh reading %a.1 over %da\nfree %a.1\n",
)

LOOP_GRAPH = """magis 1
device cpu
batch %x "x" : f32[8,4]
%m = aten.neg(%x) : f32[8,4]
%r, %t = magis.begin("r1", 3, 8, [%m]) : f32[8,4], f32[]
%mp = magis.part(%m, 0, 1*r1) : f32[3,4]/128
%a = aten.exp(%mp) : f32[3,4]
%b = aten.neg(%a) : f32[3,4]
%c = aten.tanh(%b) : f32[3,4]
%d = aten.mul.Tensor(%c, %a) : f32[3,4]
%n1 = magis.write_part(%r, 0, 1*r1, %d) : none
%s = aten.sum(%d) : f32[]
%n2 = magis.add_part(%t, %s) : none
%end = magis.end("r1", [%r, %t], [%m]) : none
%u = aten.relu(%r) : f32[8,4]
%v = aten.mul.Tensor(%u, %r) : f32[8,4]
output aux "" %v
output loss "" %t
"""

# In every iteration %a is away while %c runs; the loop's result is away after it.
LOOP_SWAP = (
    LOOP_GRAPH
    + """program
run %m
run %r
run %a
store %a
run %b
await %a
free %a
run %c over %b
load %a as .1
await %a.1
run %d reading %a.1 over %c
free %a.1
run %n1
run %s
free %d
run %n2
free %s
run %end
free %m
store %r
run %u
await %r
free %r
load %r as .1
await %r.1
run %v reading %r.1 over %u
free %r.1
"""
)

# A chain in which %a is away twice, stored once. %b and %d are 16 bytes, the others 128.
TWICE = """magis 1
device cpu
batch %x "x" : f32[4,8]
%a = aten.neg(%x) : f32[4,8]
%b = aten.sum.dim_IntList(%a, [1]) : f32[4]
%c = aten.exp(%x) : f32[4,8]
%d = aten.sum.dim_IntList(%c, [1]) : f32[4]
%e = aten.mul.Tensor(%a, %x) : f32[4,8]
%f = aten.sum(%e) : f32[]
%g = aten.exp(%x) : f32[4,8]
%h = aten.mul.Tensor(%g, %a) : f32[4,8]
output aux "" %b
output aux "" %d
output loss "" %f
output aux "" %h
program
run %a
store %a
run %b
await %a
free %a
run %c
run %d
free %c
load %a as .1
await %a.1
run %e reading %a.1
run %f
free %e
await %a.1
free %a.1
run %g
load %a as .2
await %a.2
run %h reading %a.2 over %g
free %a.2
"""
