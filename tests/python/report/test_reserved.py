"""Reserved memory in words and figures, and the settings of PyTorch's allocator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magis import _core
from magis.errors import MagisError
from magis.report import MemoryReport
from magis.report.reserved import Reserved, allocator_settings, cublas_workspace, reserved_memory

MIB = 2**20

# x, a: 8 and 12 MiB share a segment of 20; b's 11 take one of 12.
GRAPH = """magis 1
device cuda
batch %x "x" : f32[2097152]
%a = aten.cos(%x) : f32[3145728]
%b = aten.mul.Tensor(%a, %x) : f32[2883584]
output loss "" %b
"""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def predicted(device: str = "a100") -> Reserved | None:
    return reserved_memory(_core.Plan.program_order(_core.Graph.parse(GRAPH)), device)


def test_the_environment_sets_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = predicted()
    assert plain is not None
    assert plain.fits
    assert (plain.reserved_bytes, plain.allocated_bytes) == (32 * MIB, 32 * MIB)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    grown = predicted()
    assert grown is not None
    # Pages of 20 MiB: 8 + 12, 11 [9].
    assert (grown.reserved_bytes, grown.fragmentation_bytes) == (40 * MIB, 9 * MIB)
    assert grown.settings == "expandable_segments:True"
    assert "40.00 MiB, 9.00 MiB of it between tensors" in str(grown)
    # The newer name goes first.
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False")
    assert predicted() == replace(plain, settings="expandable_segments:False")


def test_only_cuda_devices_with_this_allocator_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    assert predicted("cpu") is None
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    assert predicted() is None


def test_settings_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:many")
    with pytest.warns(UserWarning, match="max_split_size_mb:many is not a value"):
        assert predicted() is None
    with pytest.raises(MagisError, match="separate with commas"):
        allocator_settings("expandable_segments")
    with pytest.raises(MagisError, match="garbage_collection_threshold:2"):
        allocator_settings("garbage_collection_threshold:2")
    with pytest.raises(MagisError, match="CUBLAS_WORKSPACE_CONFIG='4096'"):
        cublas_workspace("4096", "a100")


def test_every_setting() -> None:
    settings = allocator_settings(
        "max_split_size_mb:64, max_non_split_rounding_mb:32,large_segment_size_mb:40,"
        "garbage_collection_threshold:0.8,expandable_segments:True,pinned_use_background_threads:"
        "True,roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"
    )
    assert settings is not None
    assert settings.max_split_size == 64 * MIB
    assert settings.max_non_split_rounding == 32 * MIB
    assert settings.large_segment == 40 * MIB
    assert settings.garbage_collection_threshold == 0.8
    assert settings.expandable_segments
    # 256 MiB is the eighth power of two from 1 MiB.
    assert list(settings.roundup_power2_divisions) == [1] * 9 + [2, 4] + [8] * 5
    everywhere = allocator_settings("roundup_power2_divisions:4")
    assert everywhere is not None
    assert list(everywhere.roundup_power2_divisions) == [4] * 16


def test_the_workspace_of_cublas() -> None:
    assert cublas_workspace("", "a100") == (2 * 4096 + 8 * 16) * 1024
    assert cublas_workspace("", "h200") == 32 * MIB
    assert cublas_workspace(":16:8", "h200") == 8 * 16 * 1024


def test_the_memory_report_has_it() -> None:
    report = MemoryReport.of_graph(_core.Graph.parse(GRAPH), device="a100")
    assert report.to_json()["reserved"]["reserved_bytes"] == 32 * MIB
    assert MemoryReport.of_graph(_core.Graph.parse(GRAPH), device="cpu").reserved is None


def test_a_device_that_is_too_small_is_named() -> None:
    reserved = Reserved(50 * MIB, 46 * MIB, 4 * MIB, 46 * MIB, 3, False, "")
    assert "runs out of memory" in str(reserved)
