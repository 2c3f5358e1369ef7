"""What the tests of the command line share: a graph, a finished command, and how errors look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A step of two linear layers and an activation that magis does not know.
#
# Persistent: 2 parameters of 64 x 64 x 4 = 16,384 B, a buffer of 256 B, a batch of
# 128 x 64 x 4 = 32,768 B; together 65,792 B.
# Transient: h0, a0, h1, a1 and g of 32,768 B each and the loss of 4 B are live when g is made;
# the peak is 163,844 B, then dh1 runs in place of g, and nothing ever holds more.
SMALL = """\
magis 1
device cpu
meta model "small.py:make"
meta replay "bitwise equal to eager"
site @1 "net.layers.0.linear" "small.py:11"
site @2 "net.layers.0.act" "small.py:12"
site @3 "net.layers.1.linear" "small.py:11"
site @4 "net.layers.1.act" "small.py:12"
site @5 "" "small.py:20"

param %w0 "net.layers.0.linear.weight" : f32[64,64]
param %w1 "net.layers.1.linear.weight" : f32[64,64]
buffer %scale "net.scale" : f32[64]
batch %x "[0]" : f32[128,64]

%w0t = aten.permute(%w0, [1,0]) : f32[64,64]{1,64}
%h0 = aten.mm(%x, %w0t) : f32[128,64] @1
%a0 = aten.gelu(%h0) : f32[128,64] @2
%w1t = aten.permute(%w1, [1,0]) : f32[64,64]{1,64}
%h1 = aten.mm(%a0, %w1t) : f32[128,64] @3
%a1 = mylib.squash(%h1, %scale) : f32[128,64] @4
%loss = aten.sum(%a1) : f32[] @5
%g = aten.ones_like(%a1) : f32[128,64] @5 backward
%dh1 = aten.gelu_backward(%g, %h1) : f32[128,64] @4 backward scratch 1000
%dh1t = aten.permute(%dh1, [1,0]) : f32[64,128]{1,64}
%dw1 = aten.mm(%dh1t, %a0) : f32[64,64] @3 backward
%da0 = aten.mm(%dh1, %w1) : f32[128,64] @3 backward
%dh0 = aten.gelu_backward(%da0, %h0) : f32[128,64] @2 backward scratch 1000
%xt = aten.permute(%x, [1,0]) : f32[64,128]{1,64}
%dw0t = aten.mm(%xt, %dh0) : f32[64,64] @1 backward
%dw0 = aten.permute(%dw0t, [1,0]) : f32[64,64]{1,64}

output loss "" %loss
output grad "net.layers.0.linear.weight" %dw0
output grad "net.layers.1.linear.weight" %dw1
"""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Magis = Callable[..., Finished]


def assert_user_error(finished: Finished, *words: str) -> None:
    """One message on stderr that holds all `words`, status 2, nothing on stdout, no traceback."""
    assert finished.status == 2, finished
    assert finished.out == ""
    assert finished.err.startswith("magis: error: ")
    assert finished.err.count("magis: error: ") == 1
    assert "Traceback" not in finished.err
    for word in words:
        assert word in finished.err


def chain(length: int) -> str:
    """A graph that keeps a search busy: `length` activations, read again in reverse order."""
    shape = "f32[256,256]"
    lines = ["magis 1", "device cpu", f'batch %x "[0]" : {shape}', f"%a0 = aten.tanh(%x) : {shape}"]
    lines += [f"%a{i} = aten.tanh(%a{i - 1}) : {shape}" for i in range(1, length)]
    lines.append(f"%g{length} = aten.mm(%a{length - 1}, %x) : {shape} backward")
    lines += [
        f"%g{i} = aten.mul.Tensor(%g{i + 1}, %a{i}) : {shape} backward"
        for i in reversed(range(length))
    ]
    return "\n".join([*lines, 'output grad "[0]" %g0']) + "\n"


# A user's file: functions that can be captured, and functions that cannot. Tests know its lines.
TRAIN = """\
import torch
from torch import nn

print("loading")

def loss(model, x, y):
    return nn.functional.cross_entropy(model(x), y)

def make():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    return model, loss, (torch.randn(32, 8), torch.randint(0, 4, (32,)))

def fails():
    raise RuntimeError("no data set")

def pair():
    return 1, 2

def no_module():
    return {}, loss, ()

class Branch(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        if super().forward(x).sum().item() > 0:
            return super().forward(x)
        return x

def looks_at_data():
    return Branch(), lambda model, x: model(x).sum(), (torch.randn(2, 4),)

masked = lambda model, x: model(x)[model(x) > 0].sum()

def boolean():
    return nn.Linear(4, 4), masked, (torch.randn(2, 4),)

def no_scalar():
    return nn.Linear(4, 4), lambda model, x: model(x), (torch.randn(2, 4),)

calls = 0

def counted(model, x):
    global calls
    calls += 1
    return model(x).sum() * calls

def changes_by_itself():
    return nn.Linear(4, 4), counted, (torch.ones(1, 4),)
"""
