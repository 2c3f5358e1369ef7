"""Writing whole files or nothing, and refusing what cannot be written before any work is done."""

import os
import stat
from pathlib import Path

import pytest

from magis.cli.files import check_distinct, check_writable, read_text
from magis.cli.status import UsageError
from magis.files import write_text


def test_writes_the_text_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    write_text(target, "one\n")
    write_text(target, "two\n")
    assert target.read_text() == "two\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o755)
    write_text(tmp_path / "new", "other")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left") as error:
        write_text(target, "new")
    assert error.value.filename == str(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_read_only_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.write_text("kept")
    target.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        write_text(target, "new")
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "new")
    assert target.read_text() == "kept"


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    check_writable(Path("/dev/null"), "--output")
    write_text(Path("/dev/null"), "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    read_only = tmp_path / "kept"
    read_only.write_text("kept")
    read_only.chmod(0o444)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    for path, message in (
        (read_only, f"--emit {read_only}: the file {read_only} is read-only; choose another"),
        (closed / "x", f"--emit {closed / 'x'}: the folder {closed} is read-only; choose another"),
        (closed, f"--emit {closed}: is a folder; give the name of a file in it"),
        (
            tmp_path / "absent" / "x",
            f"--emit {tmp_path / 'absent' / 'x'}: there is no folder {tmp_path / 'absent'}",
        ),
    ):
        with pytest.raises(UsageError) as error:
            check_writable(path, "--emit")
        assert str(error.value) == message


def test_checking_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "plan.json", "--output")
    assert list(tmp_path.iterdir()) == []


def test_one_file_for_two_purposes(tmp_path: Path) -> None:
    check_distinct({"the input": tmp_path / "a", "--output": tmp_path / "b", "--emit": None})
    check_distinct({"--output": Path("/dev/null"), "--emit": Path("/dev/null")})
    with pytest.raises(UsageError, match="--output and the input are both"):
        check_distinct({"the input": tmp_path / "a", "--output": tmp_path / "x" / ".." / "a"})


def test_reading_what_is_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    for path, message in (
        (tmp_path / "absent", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "picture", "not a text file"),
    ):
        with pytest.raises(UsageError, match=message):
            read_text(path)
