"""Ctrl-C in the middle of the evaluation, and going on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[3] / "bench" / "paper"


def command(out: Path) -> list[str]:
    """Sixteen cells of a second each, one at a time."""
    words = "--figures 9 10 --workloads unet resnet50 --variants paper --profiles rtx3090"
    words += " --planner magis magis-paper --seconds 1 --jobs 1 --quick"
    return [sys.executable, str(PAPER / "run.py"), *words.split(), "--out", str(out)]


def processes_with(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if word in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_what_is_done_when_broken_off_is_not_done_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(command(out), stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(list((out / "cells").glob("*.json"))) < 2:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped; the same command goes on from here" in said
    assert processes_with(str(out)) == []
    assert (out / "index.html").exists()
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}

    done = subprocess.run(
        [*command(out), "--draw-only"], capture_output=True, text=True, check=True
    )
    assert f"{len(before)} cells are there" in done.stderr
    done = subprocess.run(command(out), capture_output=True, text=True, check=True)
    assert f"{len(before)} cells are there" in done.stderr
    after = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}
    assert len(after) > len(before)
    assert before.items() <= after.items()
