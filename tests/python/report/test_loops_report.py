"""Split graphs in reports: whose parts a loop's results hold, and in which loop the peak is."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from magis import _core
from magis.report import MemoryReport
from magis.report.loops import LoopResult, SplitLoop, read_loops
from magis.report.memory import Share
from magis.report.render import memory_view

SPLIT = """\
magis 1
device cpu
site @1 "encoder" "model.py:3"
site @2 "head" "model.py:7"

param %w "w" : f32[16,16]
batch %x "[0]" : f32[8,16]

%h = aten.exp(%x) : f32[8,16] @1
%y, %dw = magis.begin("r1", 3, 8, [%h]) : f32[8,16], f32[16,16]
%p = magis.part(%h, 0, 1*r1) : f32[3,16]/512
%m = aten.mm(%p, %w) : f32[3,16] @2
%n1 = magis.write_part(%y, 0, 1*r1, %m) : none @2
%t = aten.permute(%p, [1,0]) : f32[16,3]{1,16}/512
%n2 = magis.add_mm_part(%dw, %t, %m) : none @2 backward
%e = magis.end("r1", [%y, %dw], [%h]) : none
%z = aten.sum(%y) : f32[] @2
%s = aten.sum(%dw) : f32[] @2 backward

output loss "" %z
output aux "" %s
"""


def test_where_the_memory_of_a_split_graph_goes() -> None:
    report = MemoryReport.of_graph(_core.Graph.parse(SPLIT), device="cpu")
    # While %m is made: %h 512, %y 512, %dw 1024, %m 3 * 16 * 4.
    assert report.transient_peak_bytes == 512 + 512 + 1024 + 192
    assert report.peak_operator == "aten.mm"
    assert report.peak_loop == "in part of r1 (3 of 8)"
    assert report.by_kind == [
        Share("accumulators of split regions", 1024, 1),
        Share("forward activations saved for backward", 512 + 192, 2),
        Share("concatenated results of split regions", 512, 1),
    ]
    assert report.by_operator == [
        Share("accumulator of r1", 1024, 1),
        Share("aten.exp", 512, 1),
        Share("concatenated result of r1", 512, 1),
        Share("aten.mm", 192, 1),
    ]
    assert report.by_module == [Share("head", 512 + 1024 + 192, 3), Share("encoder", 512, 1)]
    assert report.to_json()["loops"] == [{"name": "r1", "part": 3, "length": 8}]


def test_the_loops_in_words() -> None:
    console = Console(file=StringIO(), width=100)
    console.print(memory_view(MemoryReport.of_graph(_core.Graph.parse(SPLIT), device="cpu")))
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert "split r1 in 3 parts of 3 of 8" in lines
    assert "reached in aten.mm of head (model.py:7) in part of r1 (3 of 8)" in lines


def test_a_graph_without_loops_has_no_place_in_one() -> None:
    text = 'batch %x "[0]" : f32[4]\n%y = aten.exp(%x) : f32[4]\noutput aux "" %y\n'
    graph = _core.Graph.parse(f"magis 1\ndevice cpu\n{text}")
    report = MemoryReport.of_graph(graph, device="cpu")
    assert (report.peak_loop, report.loops) == ("", [])


def test_nested_loops_are_read_from_the_text() -> None:
    text = """\
site @7 "a.\\"b\\"" "m.py:1"
%y, %s = magis.begin("r1", 5, 8, []) : f32[8,10], f32[10]
%yr = magis.begin("r2", 2, 3*r1, []) : f32[15,10]
%mm = aten.mm(%x, %w) : f32[2,10] @7 backward scratch 64
%n1 = magis.write_part(%yr, 0, 1*r2, %mm) : none @7 backward scratch 64
%e2 = magis.end("r2", [%yr], []) : none
%n2 = magis.write_part(%y, 0, 1*r1, %yr) : none
%e1 = magis.end("r1", [%y, %s], []) : none
%z = aten.exp(%y) : f32[8,10]
"""
    loops = read_loops(text)
    assert loops.loops == {"r1": SplitLoop("r1", 5, 8), "r2": SplitLoop("r2", 2, 15)}
    assert [loop.part_count for loop in loops.loops.values()] == [2, 8]
    assert loops.place("mm") == "in part of r1 (5 of 8), r2 (2 of 15)"
    assert loops.place("n2") == loops.place("yr") == "in part of r1 (5 of 8)"
    assert loops.place("y") == loops.place("e1") == loops.place("z") == ""
    assert loops.results == {
        "yr": LoopResult("r2", True, 'a."b"', "m.py:1", True),
        "y": LoopResult("r1", True, "", "", False),
    }
    assert loops.backward == {"n1", "e2", "e1"}
