"""What `magis inspect` draws: memory over a step, and the modules that hold it at the peak."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
import viewer_plans
from rich.console import Console

from magis import _core
from magis.report import MemoryReport
from magis.report.curve import STRETCHES, CurveView, MemoryCurve
from magis.report.module_tree import module_tree
from magis.report.modules import NO_MODULE
from magis.report.render import memory_view
from magis.report.timeline import Timeline
from magis.report.wrapping import Named


def curve_of(plan: _core.Plan, device: str) -> MemoryCurve:
    simulation = plan.simulate(device)
    return MemoryCurve.of(Timeline.of(plan, simulation, device), simulation)


def drawn(view: Any, **options: Any) -> list[str]:
    console = Console(file=StringIO(), width=options.pop("width", 60), **options)
    console.print(view)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("make", [viewer_plans.swapping_bert, viewer_plans.split_bert])
def test_the_curve_has_the_peak_where_it_is_and_leaves_nothing_out(make: Any) -> None:
    plan = make()
    simulation = plan.simulate("reference")
    curve = curve_of(plan, "reference")
    assert len(curve.levels) == STRETCHES
    assert max(curve.levels) == simulation.peak_bytes
    assert min(curve.levels) >= simulation.persistent_bytes
    for width in (1, 7, 60, 1000):
        columns = curve.columns(width)
        assert len(columns) == min(width, STRETCHES)
        assert max(columns) == simulation.peak_bytes
    if not plan.graph.loop_count:
        for point in simulation.timeline:
            stretch = int(STRETCHES * point.start / simulation.seconds)
            live = simulation.persistent_bytes + point.live_bytes
            assert max(curve.levels[max(0, stretch - 1) : stretch + 2]) >= live


# The batch takes 4,000 bytes, %a as much, %b and %c twice that; %a is there until %b is made.
GRAPH = """magis 1
device cpu
batch %x "x" : f32[1000]
%a = aten.exp(%x) : f32[1000]
%b = aten.cat([%a, %a]) : f32[2000]
%c = aten.sin(%b) : f32[2000]
%d = aten.cat([%c, %b]) : f32[4000]
output loss "" %d
"""


def test_a_drawing_in_plain_characters() -> None:
    curve = MemoryCurve(2.0, 1024, [1024] * 60 + [2048] * 60 + [4096] * 60 + [1536] * 60)
    lines = drawn(CurveView(curve), width=20)  # 8 columns
    assert lines[0] == "  4.00 KiB |    ##"
    assert lines[4] == "           |    ##"
    assert lines[5] == "           |  ####"
    assert lines[6] == "           |  ######"
    assert lines[7] == "           |########"
    assert lines[8] == "  1.00 KiB |::::::::"  # a quarter, rounded
    assert lines[9] == "           |::::::::"
    assert lines[10] == "           +--------"
    assert lines[11] == "            peak ^"  # beside it is no room for the end of the step
    assert all(line.isascii() for line in lines)


def test_a_drawing_on_a_terminal_and_on_one_that_knows_ascii_alone() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(GRAPH))
    view = CurveView(curve_of(plan, "cpu"))
    blocks = drawn(view, force_terminal=True, color_system=None, legacy_windows=False)
    assert "█" in blocks[0]
    assert "▲" in blocks[-1]
    assert "35.16 KiB │" in blocks[0]
    plain = drawn(view)
    assert "#" in plain[0]
    assert "^" in plain[-1]
    assert "".join(plain).isascii()


def test_every_drawing_fits() -> None:
    view = CurveView(curve_of(viewer_plans.split_bert(), "cpu"))
    for width in (14, 20, 40, 200):
        assert max(map(len, drawn(view, width=width))) <= width


@dataclass
class Held:
    module: str
    bytes: int


def rows(*held: tuple[str, int], most: int = 24) -> list[tuple[int, str, int, int]]:
    tree = module_tree([Held(*entry) for entry in held], most=most)
    return [(row.depth, row.name, row.bytes, row.tensors) for row in tree]


def test_modules_inside_modules_largest_first() -> None:
    assert rows(("a.b.c", 10), ("a.b.d", 30), ("a.b", 5), ("e", 50), ("", 7)) == [
        (0, "e", 50, 1),
        (0, "a.b", 45, 3),  # nothing else is in a
        (1, "d", 30, 1),
        (1, "c", 10, 1),
        (1, "(itself)", 5, 1),
        (0, NO_MODULE, 7, 1),
    ]


def test_layers_are_one_module() -> None:
    held = [
        (f"net.layer.{i}.{part}", size) for i in range(9) for part, size in (("f", 2), ("g", 1))
    ]
    assert rows(*held) == [
        (0, "net.layer.*", 27, 18),
        (1, "f", 18, 9),
        (1, "g", 9, 9),
    ]


def test_small_ones_are_summed_up_and_what_is_largest_is_opened_first() -> None:
    held = [(f"a.part{letter}.x", 100) for letter in "abcdefgh"]
    held += [("b.large.y", 5000), ("b.large.z", 4000)]
    assert rows(*held, ("b.s", 3), ("b.t", 4), most=5) == [
        (0, "b", 9007, 4),
        (1, "large", 9000, 2),
        (1, "(2 others)", 7, 2),
        (0, "a", 800, 8),
    ]


def test_names_that_a_terminal_would_obey_are_shown() -> None:
    text = viewer_plans.LOOP.replace("net.first", "net.\x1b[31m<b>").replace(
        "net.py:3", "\x07.py:3"
    )
    report = MemoryReport.of_graph(_core.Graph.parse(text), device="cpu")
    shown = "\n".join(drawn(memory_view(report), width=100))
    assert "\\x1b[31m<b>" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_the_tree_and_the_curve_are_in_the_report() -> None:
    plan = viewer_plans.split_bert()
    report = MemoryReport.of_plan(plan, device="cpu")
    top = [row for row in report.tree if row.depth == 0]
    assert sum(row.bytes for row in top) == sum(share.bytes for share in report.by_module)
    lines = drawn(memory_view(report, curve_of(plan, "cpu")), width=100)
    assert "Memory over a step" in lines
    start = lines.index("Live at the peak, by module")
    names = [line.split("%")[1] for line in lines[start + 1 :][: len(report.tree)]]
    indents = [len(name) - len(name.lstrip()) for name in names]
    assert [indent - indents[0] for indent in indents] == [2 * row.depth for row in report.tree]


def test_a_name_without_room_beside_its_figures_stands_below_them_whole() -> None:
    rows = [
        ("4 x", "aten._native_batch_norm_legit_functional", "1.19 GiB", "2.74 ms", "encoder.*.*"),
        ("5 x", "aten.max_pool2d_with_indices            ", "240 MiB ", "2.03 ms", "pool"),
    ]
    assert drawn(Named(rows), width=70) == [
        "4 x  aten._native_batch_norm_legit_functional  1.19 GiB  2.74 ms",
        "     encoder.*.*",
        "5 x  aten.max_pool2d_with_indices              240 MiB   2.03 ms  pool",
    ]
    assert drawn(Named(rows), width=90)[0].endswith("2.74 ms  encoder.*.*")
    assert drawn(Named([("1 x", "aten.relu", "a.long.name\x1b.of.parts")]), width=20) == [
        "1 x  aten.relu",
        "     a.long.",
        r"     name\x1b.of.",
        "     parts",
    ]
