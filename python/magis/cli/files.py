"""Reading graphs and plans; refusing what cannot be written before any work is done."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from magis.cli.status import UsageError
from magis.files import is_read_only


def read_text(path: Path, way: str = "`magis capture` makes graph files") -> str:
    """The whole file. Raises UsageError if there is none or it is not text.

    `way` is how to come by such a file.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; {way}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder, not a graph or a plan") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: not a text file; expected a graph (made by `magis capture`) "
            "or a plan (made by `magis optimize`)"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def check_writable(path: Path, option: str) -> None:
    """Raises UsageError unless `path` can be written later on; leaves everything as it was.

    Called before the long work begins. Permission bits are looked at even where the user may
    override them: a file marked read-only is meant to stay.
    """
    folder = path.resolve().parent
    if path.is_dir():
        raise UsageError(f"{option} {path}: is a folder; give the name of a file in it")
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}")
    for place in (path, folder):
        if is_read_only(place):
            what = "folder" if place is folder else "file"
            raise UsageError(f"{option} {path}: the {what} {place} is read-only; choose another")
    if path.exists() and not path.is_file():
        return  # a device or a pipe
    try:
        descriptor, probe = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}") from None
    os.close(descriptor)
    os.unlink(probe)


def check_distinct(paths: dict[str, Path | None]) -> None:
    """Raises UsageError if two of these (what each is -> where) are the same file."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or (path.exists() and not path.is_file()):
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise UsageError(f"{name} and {other} are both {path}; give them different names")
