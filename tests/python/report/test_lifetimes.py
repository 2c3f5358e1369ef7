"""Who reads a tensor last, read off plan text."""

from __future__ import annotations

from magis import _core
from magis.report.lifetimes import last_readers

GRAPH = """magis 1
device cpu
batch %x "[0]" : f32[8,8]
%a = aten.mm(%x, %x) : f32[8,8]
%b = aten.relu(%a) : f32[8,8]
%c = aten.mm(%b, %x) : f32[8,8]
%d = aten.mm(%c, %b) : f32[8,8]
%e = aten.mm(%d, %b) : f32[8,8]
output loss "" %e
program
"""


def readers(program: str) -> dict[str, str]:
    plan = _core.Plan.parse(GRAPH + program)
    plan.verify()
    return last_readers(plan)


def test_what_is_overwritten_recomputed_and_freed() -> None:
    found = readers(
        "run %a\nrun %b over %a\nrun %c\nrun %d\nfree %c, %b\n"
        "run %a as .1\nrun %b as .1 reading %a.1 over %a.1\nrun %e reading %b.1\nfree %d, %b.1\n"
    )
    assert found == {"a": "b", "c": "d", "b": "d", "a.1": "b", "d": "e", "b.1": "e"}


def test_what_leaves_is_read_by_who_reads_it_after_it_is_back() -> None:
    found = readers(
        "run %a\nrun %b over %a\nstore %b\nrun %c\nawait %b\nfree %b\nload %b as .1\nawait %b.1\n"
        "run %d reading %b.1\nfree %c, %b.1\nload %b as .2\nawait %b.2\nrun %e reading %b.2\n"
        "free %d, %b.2\n"
    )
    assert found == {"a": "b", "c": "d", "b": "e", "b.1": "e", "b.2": "e", "d": "e"}
