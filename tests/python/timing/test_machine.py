"""What times depend on beside the call."""

from __future__ import annotations

import torch

from magis.timing.machine import clock_mhz, machine_of

CPU = torch.device("cpu")


def test_threads_and_settings_make_another_machine() -> None:
    torch.set_num_threads(1)
    here = machine_of(CPU)
    assert here == machine_of(CPU)
    assert here.threads == 1
    assert f"torch {torch.__version__}" in here.libraries
    torch.set_num_threads(2)
    try:
        assert machine_of(CPU) != here
    finally:
        torch.set_num_threads(1)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert machine_of(CPU) != here
    finally:
        torch.set_float32_matmul_precision(before)
    with torch.backends.mkldnn.flags(enabled=False):
        assert machine_of(CPU) != here
    assert machine_of(CPU) == here


def test_the_clock_is_a_number_of_mhz() -> None:
    assert clock_mhz(CPU) == 0 or 100 < clock_mhz(CPU) < 10_000
