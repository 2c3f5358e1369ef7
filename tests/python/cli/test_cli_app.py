"""What holds for every command: help, version, exit statuses, and how failures look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import SMALL, Magis, assert_user_error

from magis.cli import status

COMMANDS = ("capture", "optimize", "inspect", "report", "diff", "run", "zoo")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(magis: Magis, command: str) -> None:
    done = magis(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert "Examples" in done.out
    assert f"magis {command}" in done.out.partition("Examples")[2]
    assert "--json" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_help_lists_the_commands(magis: Magis) -> None:
    done = magis("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f" {command} " in done.out


def test_without_a_command_help_is_shown(magis: Magis) -> None:
    done = magis()
    assert (done.status, done.err) == (2, "")
    assert "Commands" in done.out


def test_version(magis: Magis) -> None:
    done = magis("--version")
    assert done.status == 0
    assert done.out.startswith("magis 0.")


def test_an_unknown_command(magis: Magis) -> None:
    assert_user_error(magis("optimise"), "No such command 'optimise'", "magis --help")


def test_the_zoo(magis: Magis) -> None:
    models = {model["name"]: model for model in magis("zoo", "--json").json["models"]}
    assert {"bert", "gpt-neo", "unet++", "mlp"} <= models.keys()
    assert models["bert"]["sizes"]["full"]["seq"] == 512
    shown = magis("zoo").out
    assert "bert       24.6 k, 2 x 16" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`magis inspect` has a bug."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("magis.cli.inspect.read_subjects", fail)


@pytest.mark.usefixtures("broken")
def test_a_bug_of_ours_asks_to_be_reported(magis: Magis, small: Path) -> None:
    done = magis("inspect", small)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("magis: internal error: ZeroDivisionError: division by zero\n")
    assert "please report it" in done.err
    assert "Traceback" not in done.err


@pytest.mark.usefixtures("broken")
def test_a_traceback_is_shown_on_demand(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGIS_DEBUG", "1")
    done = magis("inspect", small)
    assert done.status == 1
    assert "Traceback" in done.err
    assert 'raise ZeroDivisionError("division by zero")' in done.err


def test_too_little_memory_is_no_bug(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 7 bytes\nframe 0")

    monkeypatch.setattr("magis.cli.inspect.read_subjects", allocate)
    done = magis("inspect", small)
    assert_user_error(done, "has not enough memory for that: DefaultCPUAllocator: can't allocate")
    assert "frame 0" not in done.err


def _to(output: str, *arguments: str) -> tuple[int, str]:
    """Exit status and stderr of `magis` whose standard output is `output`, in shell syntax."""
    command = f'"$0" -m magis.cli "$@" {output}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, *arguments], stderr=subprocess.PIPE, text=True
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full")
def test_what_cannot_be_written_is_named(magis: Magis, small: Path) -> None:
    search = ("optimize", small, "--latency-limit", "1.1", "--state-budget", "1")
    for option in ("-o", "--emit"):
        done = magis(*search, option, "/dev/full")
        assert_user_error(done, "magis: error: /dev/full: No space left on device\n")
    code, said = _to(">/dev/full", "inspect", str(small))
    assert (code, said) == (2, "magis: error: standard output: No space left on device\n")
    code, said = _to(">/dev/full", "--help")
    assert (code, said) == (2, "magis: error: No space left on device\n")


def test_after_an_error_no_json_is_printed_and_help_says_so(magis: Magis, tmp_path: Path) -> None:
    assert_user_error(magis("inspect", tmp_path / "absent", "--json"), "no such file")
    for command in COMMANDS:
        lines = (line.strip("\u2502| ") for line in magis(command, "--help").out.splitlines())
        assert "nothing at all after an error." in " ".join(" ".join(lines).split())


def test_an_output_that_has_no_such_characters(magis_process: Magis, small: Path) -> None:
    small.write_text(SMALL.replace("net.layers.0.act", "net.\u00e9tage"), encoding="utf-8")
    done = magis_process("inspect", small, PYTHONIOENCODING="ascii")
    assert (done.status, done.err) == (0, "")
    assert r"net.\xe9tage" in done.out


def test_no_standard_output(small: Path) -> None:
    code, said = _to(">&-", "inspect", str(small))
    assert code == 2
    assert said == "magis: error: standard output is closed: there is nowhere to print the result\n"


def test_control_characters_of_files_are_shown_and_not_obeyed(magis: Magis, tmp_path: Path) -> None:
    path = tmp_path / "red\x1b[31m.magis"
    path.write_text("magis 1\ndevice cpu\n\x1b]0;title\x07\n")
    done = magis("inspect", path)
    assert_user_error(done, r"red\x1b[31m.magis:3:1: ")
    assert not set("\x1b\x07\r\x9b") & set(done.err)


# Turns the direction of writing, ends that, is a line end to some, takes no room.
UNSEEN = "\u202e\u2066\u2028\u200b"


# Lines that end before, in and after what is written out.
@pytest.mark.parametrize("depth", range(0, 80, 9))
def test_a_long_path_is_written_out_whole(depth: int, magis: Magis, tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * depth}{UNSEEN}.magis"
    path.write_text(SMALL)
    plan = tmp_path / f"{'y' * depth}{UNSEEN}.json"
    done = magis("optimize", path, "--latency-limit", "2", "--state-budget", "50", "-o", plan)
    spelled = UNSEEN.encode("unicode_escape").decode()
    assert f"{'y' * depth}{spelled}.json" in done.out.replace("\n", "")


def test_what_nobody_sees_is_written_out(magis: Magis, tmp_path: Path) -> None:
    text = SMALL.replace("net.layers", f"net{UNSEEN}.layers")
    text = text.replace("small.py", f"small{UNSEEN}.py").replace("bitwise", f"bitwise{UNSEEN}")
    path = tmp_path / f"small{UNSEEN}.magis"
    path.write_text(text)
    plan = tmp_path / f"plan{UNSEEN}.json"
    search = ("--latency-limit", "2", "--state-budget", "50", "-o", plan)
    for command in (
        ("inspect", path),
        ("inspect", path, "--explain"),
        ("optimize", path, *search, "--explain"),
        ("inspect", plan),
        ("diff", path, plan),
        ("report", plan, "-o", tmp_path / f"page{UNSEEN}.html"),
        ("export", plan, "--trace", tmp_path / f"trace{UNSEEN}.json"),
        ("inspect", tmp_path / f"none{UNSEEN}"),
    ):
        done = magis(*command)
        shown = done.out + done.err
        assert r"\u202e" in shown.replace("\n", ""), command
        assert not set(UNSEEN) & set(shown), command


def test_terminated_is_taken_back_like_interrupted(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("magis.cli.inspect.read_subjects", wait)
    monkeypatch.setattr("magis.cli.status._terminated", False)
    before = signal.getsignal(signal.SIGTERM)
    status.take_back_when_terminated()
    try:
        done = magis("inspect", small)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (done.status, done.out) == (143, "")
    assert done.err == "magis: interrupted; nothing was written\n"


def test_interrupted_before_anything_is_there(
    magis: Magis, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("magis.cli.inspect.read_subjects", interrupt)
    done = magis("inspect", small)
    assert (done.status, done.out) == (130, "")
    assert done.err == "magis: interrupted; nothing was written\n"


def test_a_reader_that_goes_away_is_no_error(small: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "magis.cli", "inspect", str(small)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
