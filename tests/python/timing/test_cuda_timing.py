"""Measuring on a GPU."""

from __future__ import annotations

import pytest
import torch

from magis.timing.calls import read_call
from magis.timing.machine import machine_of
from magis.timing.measuring import measure
from magis.timing.stopwatch import Stopwatch

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def test_a_larger_product_takes_longer() -> None:
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(0)
    seconds = []
    for n in (2048, 4096):
        call = read_call(f"aten.mm(%0, %0) : f32[{n},{n}] of f32[{n},{n}]")
        (timing,) = Stopwatch(device).time([call.prepare(device, generator)], 0.3)
        seconds.append(timing.median)
    assert 4 < seconds[1] / seconds[0] < 16  # 8 times the arithmetic


def test_a_small_kernel_is_not_charged_for_its_launch_on_the_host() -> None:
    device = torch.device("cuda")
    found = measure(["aten.relu(%0) over 0 : f32[16] of f32[16]"], device, 2.0, free_bytes=1 << 30)
    (entry,) = found.entries.values()
    assert 0 < entry.seconds < 20e-6


def test_workspace_is_what_a_kernel_holds_beside_its_results() -> None:
    key = "aten.sort(%0) : f32[1000000], i64[1000000] of f32[1000000]"
    found = measure([key], torch.device("cuda"), 2.0, free_bytes=1 << 30)
    assert found.entries[key].workspace > 4_000_000


def test_the_machine_is_named() -> None:
    machine = machine_of(torch.device("cuda"))
    assert machine.device == torch.cuda.get_device_name()
    assert "CUDA" in machine.libraries
    assert machine.threads == 0
