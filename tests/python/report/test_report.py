"""The report on a plan: what it says, and that it says the bad news first."""

import json
import pickle
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from magis.report import Report
from magis.report.reserved import Reserved
from magis.report.time_bound import TimeBound

MIB = 2**20

GOOD = Report(
    promised_peak_bytes=45 * MIB,
    transient_peak_bytes=25 * MIB,
    persistent_bytes=20 * MIB,
    baseline_peak_bytes=118 * MIB,
    baseline_source="captured graph in program order",
    seconds=0.120,
    baseline_seconds=0.110,
    lower_bound_bytes=30 * MIB,
    lower_bound_reason="the working set of aten.mm (%mm_3) in decoder, model.py:7",
    limit="memory at most 40 % of the baseline's peak",
    met=True,
    stop_reason="time_budget",
    states_scored=12345,
    states_evaluated=678,
    wall_seconds=10.02,
    cpu_seconds=9.9,
    recomputed=3,
    replayed="bitwise equal to eager",
    device="cpu",
    edits=[
        {"kind": "reorder", "moved": 1, "operators": 700},
        *(
            {
                "kind": "recompute",
                "operator": "aten.gelu",
                "tensor": f"gelu_{layer}",
                "module": f"encoder.layer.{layer}.mlp",
                "source": "model.py:3",
                "times": 1,
                "bytes": 2 * MIB,
                "seconds": 0.001,
            }
            for layer in range(2)
        ),
        {
            "kind": "recompute",
            "operator": "aten.mul.Tensor",
            "tensor": "mul",
            "module": "",
            "source": "",
            "times": 2,
            "bytes": 1024,
            "seconds": 0.0005,
        },
    ],
)


def test_everything_it_says() -> None:
    assert str(GOOD) == (
        """\
Peak memory 118.00 MiB -> 45.00 MiB (38.1 % of before), time +9.1 %

  limit        memory at most 40 % of the baseline's peak: met
  promised     45.00 MiB = 20.00 MiB persistent + 25.00 MiB in the step
  before       118.00 MiB (captured graph in program order)
  time         120 ms, before 110 ms (profile cpu)
  lower bound  30.00 MiB; the plan is 15.00 MiB above it
               the working set of aten.mm (%mm_3) in decoder, model.py:7
  search       12,345 states scored, 678 evaluated in 10.0 s; the time budget was used up
  replay       bitwise equal to eager

What was done
  order changed: 1 operator of 700 moved
  recomputed: 3 operators, 2.50 ms a step
  2 x  aten.gelu        4.00 MiB  2.00 ms  encoder.layer.*.mlp
  2 x  aten.mul.Tensor  1.00 KiB   500 us  (outside any module)"""
    )


SWAPPED = replace(
    GOOD,
    host_bytes=6 * MIB,
    bytes_to_host=8 * MIB,
    bytes_to_device=12 * MIB,
    copy_seconds=0.002,
    exposed_seconds=0.0005,
    edits=[
        {
            "kind": "swap",
            "operator": "aten.gelu",
            "tensor": f"gelu_{layer}",
            "module": f"encoder.layer.{layer}.mlp",
            "source": "model.py:3",
            "times": 2 - layer,
            "bytes": 4 * MIB,
            "seconds": 0.001,
        }
        for layer in range(2)
    ],
)


def test_what_is_kept_on_the_host() -> None:
    lines = str(SWAPPED).splitlines()
    assert "  host         6.00 MiB at most for tensors that leave the device" in lines
    assert lines[-3:] == [
        "What was done",
        "  swapped: 2 tensors, 8.00 MiB to the host and 12.00 MiB back a step; "
        "of 2.00 ms of copying 1.50 ms hidden, 500 us exposed",
        "  3 x  aten.gelu  8.00 MiB  2.00 ms  encoder.layer.*.mlp",
    ]
    assert Report.from_json(json.loads(json.dumps(SWAPPED.to_json()))) == SWAPPED


def test_on_a_wide_terminal_it_says_the_same() -> None:
    console = Console(file=StringIO(), width=120, markup=False, emoji=False, highlight=False)
    console.print(GOOD)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.rstrip() for line in printed.splitlines()] == str(GOOD).splitlines()


@pytest.mark.parametrize("width", [60, 80])
def test_on_a_narrow_terminal_nothing_is_lost(width: int) -> None:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(GOOD)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, printed.splitlines())) <= width
    assert "".join(printed.split()) == "".join(str(GOOD).split())


@pytest.mark.parametrize(
    ("change", "first_line"),
    [
        (
            {"promised_peak_bytes": 118 * MIB},
            "NOTHING WAS GAINED: the peak stays 118.00 MiB. "
            "The search ended because the time budget was used up.",
        ),
        (
            {"promised_peak_bytes": 118 * MIB, "stop_reason": "converged"},
            "NOTHING WAS GAINED: the peak stays 118.00 MiB; "
            "it keeps the limit as it is, nothing was left to try.",
        ),
        (
            {"promised_peak_bytes": 118 * MIB, "stop_reason": "converged", "met": False},
            "NOTHING WAS GAINED: the peak stays 118.00 MiB; "
            "no order and no recomputation lowers it within the limit.",
        ),
        (
            {"promised_peak_bytes": 118 * MIB, "lower_bound_bytes": 118 * MIB},
            "NOTHING WAS GAINED: the peak stays 118.00 MiB, which is the lower bound already.",
        ),
        (
            {"promised_peak_bytes": 119 * MIB, "baseline_source": "eager, measured"},
            "NOTHING WAS GAINED: the peak is 119.00 MiB, more than 118.00 MiB before.",
        ),
    ],
)
def test_nothing_gained_comes_first(change: dict[str, object], first_line: str) -> None:
    report = replace(GOOD, **change)  # type: ignore[arg-type]
    assert str(report).splitlines()[0] == first_line
    assert not report.gained


def test_a_limit_that_was_not_met_comes_right_after_the_headline() -> None:
    lines = str(replace(GOOD, met=False)).splitlines()
    assert lines[1] == (
        "LIMIT NOT MET: memory at most 40 % of the baseline's peak. This is the best plan found."
    )
    assert lines[3].endswith(": not met")


def test_a_plan_at_the_floor_says_so() -> None:
    text = str(replace(GOOD, lower_bound_bytes=45 * MIB))
    assert "lower bound  45.00 MiB; the plan reaches it" in text


def test_json_keeps_every_field() -> None:
    data = json.loads(json.dumps(GOOD.to_json()))
    assert Report.from_json(data) == GOOD


def test_json_without_a_field_names_it() -> None:
    data = GOOD.to_json()
    del data["seconds"]
    with pytest.raises(KeyError, match="seconds"):
        Report.from_json(data)


def test_a_report_keeps_reserved_memory() -> None:
    reserved = Reserved(50 * MIB, 46 * MIB, 4 * MIB, 46 * MIB, 0, True, "")
    report = replace(GOOD, reserved=reserved, baseline_reserved_bytes=120 * MIB)
    line = "50.00 MiB, 4.00 MiB of it between tensors, before 120.00 MiB (predicted)"
    assert line in str(report)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert pickle.loads(pickle.dumps(report)) == report
    older = {key: value for key, value in GOOD.to_json().items() if "reserved" not in key}
    assert Report.from_json(older) == GOOD


def test_a_report_keeps_the_bound_on_time() -> None:
    report = replace(GOOD, time_bound=TimeBound(seconds=0.115, gap=0.12 / 0.115 - 1))
    lines = str(report).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  time bound"))
    assert lines[at : at + 2] == [
        "  time bound   115 ms; the plan is 4.3 % above it",
        "               no plan of these operators in this order, without swapping, is faster "
        "within the limit",
    ]
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert pickle.loads(pickle.dumps(report)) == report
    assert GOOD.to_json()["time_bound"] is None
    older = {key: value for key, value in GOOD.to_json().items() if key != "time_bound"}
    assert Report.from_json(older) == GOOD
