"""Breakdowns of memory on graphs with many modules: short tables whose sums are the peak."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from magis import _core
from magis.report import MemoryReport
from magis.report.memory import MOST_ROWS, Share
from magis.report.render import memory_view, model_text
from magis.report.wrapping import broken


def wide_graph(modules: list[str]) -> _core.Graph:
    """One tensor of 4 * (i + 1) bytes made in the i-th module, all of them outputs."""
    lines = ["magis 1", "device cpu"]
    lines += [f'site @{i + 1} "{module}" ""' for i, module in enumerate(modules)]
    lines.append('batch %x "[0]" : f32[1]')
    lines += [
        f"%y{i} = aten.full([{i + 1}], 1.0, dtype=torch.float32) : f32[{i + 1}] @{i + 1}"
        for i in range(len(modules))
    ]
    lines += [f'output aux "[{i}]" %y{i}' for i in range(len(modules))]
    return _core.Graph.parse("\n".join(lines) + "\n")


def test_tables_are_short_and_add_up() -> None:
    modules = [f"part{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    report = MemoryReport.of_graph(wide_graph(modules), device="cpu")
    assert len(report.by_module) == MOST_ROWS
    assert report.by_module[0] == Share("partz", 104, 1)
    # a to l: 4 + 8 + ... + 48
    assert report.by_module[-1] == Share("(12 other modules)", 312, 12)
    for shares in (report.by_module, report.by_operator, report.by_kind):
        assert sum(share.bytes for share in shares) == report.transient_peak_bytes
    assert report.by_operator == [Share("aten.full", 4 * 26 * 27 // 2, 26)]


def test_layers_are_one_row_per_part() -> None:
    modules = [f"h.{layer}.{part}" for layer in range(24) for part in ("attn", "mlp")]
    report = MemoryReport.of_graph(wide_graph(modules), device="cpu")
    # attn: 4 * (1 + 3 + ... + 47), mlp: 4 * (2 + 4 + ... + 48)
    assert report.by_module == [Share("h.*.mlp", 2400, 24), Share("h.*.attn", 2304, 24)]


def test_nothing_live_is_no_table() -> None:
    graph = _core.Graph.parse('magis 1\ndevice cpu\nbatch %x "[0]" : f32[1]\noutput loss "" %x\n')
    report = MemoryReport.of_graph(graph, device="cpu")
    assert (report.peak_bytes, report.by_kind, report.biggest) == (4, [], [])
    console = Console(file=StringIO(), width=80)
    console.print(memory_view(report))
    assert "Live at the peak" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_was_captured_reads_as_it_would_be_asked_for() -> None:
    meta = {"torch": "2.13", "model": "bert", "zoo_size": "full", "zoo_batch": "8", "threads": "2"}
    assert model_text(meta) == "bert --size full --batch 8"
    assert model_text({}) == ""
    assert model_text(meta | {"optimizer": "AdamW"}) == "bert --size full --batch 8, with AdamW"
    assert model_text({"optimizer": "AdamW"}) == "training step, with AdamW"


def test_long_paths_break_after_dots_and_slashes() -> None:
    assert broken("bert.encoder.layer", 40) == ["bert.encoder.layer"]
    assert broken("bert.encoder.layer", 14) == ["bert.encoder.", "layer"]
    assert broken("of encoder.layer (models/bert.py:7)", 16) == [
        "of encoder.layer",
        "(models/bert.",
        "py:7)",
    ]
    assert broken("unbreakable", 4) == ["unbreakable"]
    assert broken("", 10) == [""]


# Transient, in f32[64] of 256 bytes: %h; %h %k; %k alone while %h is away; %k %h.1 and %q at the
# peak.
SWAPS = """\
magis 1
device cpu
site @1 "net.act" "net.py:3"
batch %x "[0]" : f32[64]
%h = aten.exp(%x) : f32[64] @1
%k = aten.sin(%h) : f32[64]
%q = aten.dot(%k, %h) : f32[] backward
%r = aten.cat([%k, %h]) : f32[128] backward
output loss "" %q
output aux "r" %r
program
run %h
store %h
run %k
await %h
free %h
load %h as .1
await %h.1
run %q reading %h.1
run %r reading %h.1
free %k, %h.1
"""


def test_what_is_away_and_what_is_back() -> None:
    report = MemoryReport.of_plan(_core.Plan.parse(SWAPS), device="cpu")
    assert report.transient_peak_bytes == 256 + 256 + 4 + 512
    assert Share("activations back from the host", 256, 1) in report.by_kind
    assert report.swaps is not None
    assert (report.swaps.host_bytes, report.swaps.bytes_to_host) == (256, 256)
    assert [tensors.names for tensors in report.swaps.tensors] == [["h"]]
    assert report.swaps.tensors[0].module == "net.act"
    console = Console(file=StringIO(), width=200)
    console.print(memory_view(report))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "256 B at most; 256 B to the host and 256 B back a step; of " in shown
    assert "Tensors that leave for the host" in shown
    assert "256 B  %h f32[64], aten.exp" in shown


def test_without_swaps_nothing_is_said_of_the_host() -> None:
    report = MemoryReport.of_graph(wide_graph(["a"]), device="cpu")
    assert report.swaps is None
    console = Console(file=StringIO(), width=80)
    console.print(memory_view(report))
    assert "host" not in console.file.getvalue()  # type: ignore[attr-defined]
