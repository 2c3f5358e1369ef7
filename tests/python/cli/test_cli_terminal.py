"""Commands on a terminal: the search shows how it goes, and is quiet where nobody looks."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import chain

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")


def on_a_terminal(*arguments: str | Path, cwd: Path) -> str:
    """What a command prints on a terminal of 100 columns, stdout and stderr together."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "magis.cli", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, stdin=theirs, cwd=cwd, env=environment
    ) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            printed += piece
        assert process.wait(timeout=120) == 0
    os.close(ours)
    return printed.decode()


def test_a_search_shows_its_progress_and_a_drawing_has_blocks(tmp_path: Path) -> None:
    (tmp_path / "chain.magis").write_text(chain(300))
    asked = ("optimize", "chain.magis", "--latency-limit", "1.3", "--time-budget", "2")
    shown = on_a_terminal(*asked, "-o", "plan.json", cwd=tmp_path)
    line = r"(?:best|unmet) [\d.]+ MiB, bound [\d.]+ [KM]iB, .* time, [\d,]+ states/s, \d s left"
    assert re.search(line, shown)
    inspected = on_a_terminal("inspect", "plan.json", cwd=tmp_path)
    assert "█" in inspected
    assert "▲" in inspected


def test_piped_it_is_quiet_and_plain(tmp_path: Path) -> None:
    (tmp_path / "chain.magis").write_text(chain(50))
    command = [sys.executable, "-m", "magis.cli"]
    asked = ["optimize", "chain.magis", "--latency-limit", "1.3", "--time-budget", "1"]
    done = subprocess.run(
        [*command, *asked, "-o", "plan.json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert "states/s" not in done.stdout
    drawn = subprocess.run(
        [*command, "inspect", "plan.json"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert "Memory over a step" in drawn
    assert "#" in drawn
    assert drawn.isascii()
