"""The performance cache: several processes, damage, other versions, no room."""

from __future__ import annotations

import multiprocessing
import sqlite3
import warnings
from pathlib import Path

import pytest

from magis.errors import MagisError
from magis.timing import cache as cache_module
from magis.timing.cache import PerformanceCache, cache_folder
from magis.timing.entries import Entry, Fit, entry_from
from magis.timing.exchange import export_text, import_text
from magis.timing.machine import Machine

HERE = Machine("a processor", "AVX2", "torch 2", 1)
THERE = Machine("a processor", "AVX2", "torch 2", 2)
ENTRY = Entry(0.25, 0.01, 7, 4096, 2300.0)
FAILED = Entry(0.0, 0.0, 0, 0, failure="RuntimeError: no")


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_what_is_stored_is_there_for_the_next_process(tmp_path: Path) -> None:
    PerformanceCache(tmp_path).store(HERE, {"a": ENTRY, "b": FAILED})
    cache = PerformanceCache(tmp_path)
    assert cache.entries(HERE) == {"a": ENTRY, "b": FAILED}
    assert cache.entries(THERE) == {}
    assert cache.machines() == [(HERE, 1, 1)]


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(tmp_path / "given"))
    assert cache_folder() == tmp_path / "given"
    monkeypatch.delenv("MAGIS_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "magis"


def test_clearing_one_machine_or_all(tmp_path: Path) -> None:
    cache = PerformanceCache(tmp_path)
    cache.store(HERE, {"a": ENTRY})
    cache.store(THERE, {"a": ENTRY, "b": ENTRY})
    cache.store_fits(THERE, {"aten.mm": Fit(1.5, 1.1, 10), "aten.bmm": Fit(-1.0, 1.0, 3)})
    assert cache.fits(THERE) == {"aten.mm": Fit(1.5, 1.1, 10)}
    assert cache.clear(THERE) == 2
    assert cache.fits(THERE) == {}
    assert cache.entries(HERE) == {"a": ENTRY}
    assert cache.clear() == 1


def _store_many(folder: Path, first: int) -> None:
    cache = PerformanceCache(folder)
    for number in range(first, first + 50):
        cache.store(HERE, {f"call {number}": ENTRY})
    assert cache.is_kept


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_store_many, args=(tmp_path, 50 * number)) for number in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(PerformanceCache(tmp_path).entries(HERE)) == 150


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside_and_built_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "performance.sqlite3"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="was set aside as performance.sqlite3.set-aside"):
        cache = PerformanceCache(tmp_path)
    cache.store(HERE, {"a": ENTRY})
    assert PerformanceCache(tmp_path).entries(HERE) == {"a": ENTRY}
    assert (tmp_path / "performance.sqlite3.set-aside").read_bytes() == content


def test_damage_found_while_reading_is_never_a_time(tmp_path: Path) -> None:
    cache = PerformanceCache(tmp_path)
    cache.store(HERE, {f"call {number}": ENTRY for number in range(2000)})
    cache.close()
    path = tmp_path / "performance.sqlite3"
    data = bytearray(path.read_bytes())
    for place in range(3 * 4096, len(data), 4096):  # the head of every later page
        data[place : place + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.warns(UserWarning, match=r"performance\.sqlite3"):
        found = PerformanceCache(tmp_path).entries(HERE)
    assert set(found.values()) <= {ENTRY}
    assert PerformanceCache(tmp_path).is_kept


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    cache = PerformanceCache(tmp_path)
    cache.store(HERE, {"a": ENTRY, "b": ENTRY})
    cache.close()
    with sqlite3.connect(tmp_path / "performance.sqlite3") as connection:
        connection.execute("UPDATE time SET seconds = 0.125 WHERE call = 'a'")
    connection.close()
    with pytest.warns(UserWarning, match="1 damaged rows"):
        assert PerformanceCache(tmp_path).entries(HERE) == {"b": ENTRY}


def test_another_version_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "VERSION", 99)
    PerformanceCache(tmp_path).store(HERE, {"a": ENTRY})
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="another version"):
        cache = PerformanceCache(tmp_path)
    assert cache.entries(HERE) == {}
    assert cache.is_kept


def test_a_locked_file_is_waited_for_then_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_PATIENCE_SECONDS", 0.05)
    cache = PerformanceCache(tmp_path)
    cache.store(HERE, {"a": ENTRY})
    other = sqlite3.connect(tmp_path / "performance.sqlite3")
    other.execute("BEGIN IMMEDIATE")
    with pytest.warns(UserWarning, match="is left out of this run .*locked"):
        cache.store(HERE, {"b": ENTRY})
    assert not cache.is_kept
    assert cache.entries(HERE) == {"b": ENTRY}  # in this process
    other.rollback()
    other.close()
    assert PerformanceCache(tmp_path).entries(HERE) == {"a": ENTRY}


def test_without_room_times_stay_in_memory(tmp_path: Path) -> None:
    cache = PerformanceCache(tmp_path)
    cache.store(HERE, {"a": ENTRY})
    assert cache._connection is not None
    pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
    cache._connection.execute(f"PRAGMA max_page_count = {pages}")
    many = {f"call {number}": ENTRY for number in range(2000)}
    with pytest.warns(UserWarning, match="full"):
        cache.store(HERE, many)
    assert cache.entries(HERE) == many
    assert PerformanceCache(tmp_path).entries(HERE) == {"a": ENTRY}  # all or none


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="MAGIS_CACHE_DIR"):
        cache = PerformanceCache(tmp_path / "file" / "folder")
    cache.store(HERE, {"a": ENTRY})
    assert cache.entries(HERE) == {"a": ENTRY}
    assert cache.machines() == []
    assert cache.clear() == 0


def test_export_and_import(tmp_path: Path) -> None:
    cache = PerformanceCache(tmp_path / "one")
    cache.store(HERE, {"a": ENTRY, "b": FAILED})
    cache.store(THERE, {"a": ENTRY})
    text = export_text(cache)
    other = PerformanceCache(tmp_path / "other")
    better = Entry(0.5, 0.0, 100, 0)
    other.store(HERE, {"a": better})
    assert import_text(other, text, "times") == (2, 1)
    assert other.entries(HERE) == {"a": better, "b": FAILED}
    assert import_text(other, text, "times") == (0, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "times:1"),
        ('{"magis": "plan"}', "was not written by `magis cache export`"),
        ('{"magis": "performance cache", "format": 2}', "format 2, this magis reads 1"),
        ('{"magis": "performance cache", "format": 1}\n[]', "times:2"),
        ('{"magis": "performance cache", "format": 1}\n{"device": 3}', "times:2: device is 3"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MagisError, match=message):
        import_text(PerformanceCache(tmp_path), text, "times")


@pytest.mark.parametrize("field", ["seconds", "spread", "samples", "workspace", "clock", "failure"])
def test_a_row_with_a_wrong_field_is_no_entry(field: str) -> None:
    for wrong in (float("nan"), -1, None):
        with pytest.raises(MagisError, match=field):
            entry_from({**vars(ENTRY), field: wrong})
