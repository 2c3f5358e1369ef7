"""Every block of Python and every command in the documentation runs."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from magis.cli.app import run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_there_are_pages() -> None:
    assert len(PAGES) > 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        kind, code = block.groups()
        line = text[: block.start()].count("\n") + 1
        if kind == "python":
            with warnings.catch_warnings():
                # The line in the page is the line in a traceback.
                exec(compile("\n" * line + code, str(page), "exec"), names)
        elif kind == "console":
            _run_commands(code, page, line)
        else:
            pytest.fail(f"{page.name}:{line}: a block of {kind or 'nothing'} runs nowhere")


def _run_commands(text: str, page: Path, line: int) -> None:
    for command in text.splitlines():
        assert command.startswith("$ magis "), f"{page.name}:{line}: {command}"
        status = run(shlex.split(command)[2:])
        assert status == 0, f"{page.name}:{line}: {command} gives {status}"


def test_the_site_builds(tmp_path: Path) -> None:
    import subprocess

    site = str(tmp_path / "site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    assert "promised" in (tmp_path / "site" / "reference" / "index.html").read_text()
