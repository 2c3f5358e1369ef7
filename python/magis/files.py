"""Writing results so that a failure leaves no half-written file."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Writes the whole of `text`, or nothing: to a temporary file beside it, then renamed over it.

    A symbolic link keeps pointing where it does; an existing file keeps its permissions; a device
    or a pipe is written to. Raises OSError, also for a file that is marked read-only but could be
    replaced: it is meant to stay. The error's `filename` is `path`.
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    try:
        _write(path, content)
    except OSError as error:
        error.filename = str(path)  # not the temporary file, and none at all for a full disk
        raise


def _write(path: Path, content: bytes) -> None:
    target = path.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if is_read_only(target):
        raise PermissionError(errno.EACCES, "the file is read-only", str(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else default_mode(0o666)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def is_read_only(path: Path) -> bool:
    """Whether its permission bits let nobody write to it, this user's privileges aside."""
    return path.exists() and not stat.S_IMODE(path.stat().st_mode) & 0o222


def default_mode(wanted: int) -> int:
    """Permission bits of a new file or folder: those wanted, less what the user's mask takes."""
    mask = os.umask(0o022)
    os.umask(mask)
    return wanted & ~mask
