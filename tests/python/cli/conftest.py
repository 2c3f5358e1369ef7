"""Running commands, in this process and in their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import SMALL, Finished, Magis

from magis.cli import main


@pytest.fixture
def magis(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Magis:
    """Runs `magis <arguments>` in this process, as for a pipe 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str | Path) -> Finished:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(status, captured.out, captured.err)

    return run


@pytest.fixture
def magis_process(tmp_path: Path) -> Magis:
    """Runs `magis <arguments>` in a process of its own, in `tmp_path`."""

    def run(*arguments: str | Path, **environment: str) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", "magis.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"} | environment,
            timeout=300,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file that holds the graph SMALL."""
    path = tmp_path / "small.magis"
    path.write_text(SMALL)
    return path
