"""Exit statuses, and how each kind of failure ends a command."""

import os
import signal
import sys
import traceback
from types import FrameType

from magis.errors import MagisError
from magis.report.text import printable

OK = 0
FAILED = 1  # a bug of ours, or a plan that did not do what it promised
USER_ERROR = 2
LIMIT_NOT_MET = 3
INTERRUPTED = 130
TERMINATED = 143

# How PyTorch says so, on CPU and on CUDA.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "CUDA out of memory",
    "Storage size calculation overflowed",
)


# Our own messages may have lines.
LAYOUT = "\n\t"


class UsageError(MagisError):
    """What was typed cannot be done; the message names the argument and the way out."""


_terminated = False


def take_back_when_terminated() -> None:
    """From now on SIGTERM ends a command as Ctrl-C does: temporary files go."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        global _terminated
        _terminated = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def report_failure(error: BaseException) -> int:
    """Says on stderr what went wrong, in one message, and returns the exit status.

    Tracebacks, of what we did not expect and of the user's own code, appear only with
    MAGIS_DEBUG=1.
    """
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        print("magis: interrupted; nothing was written", file=sys.stderr)
        return TERMINATED if _terminated else INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone (`magis inspect x | head`): nobody to tell, and nothing
        # more to flush.
        _discard_output()
        return OK
    if isinstance(error, OSError):
        _give_up_unwritable_output()
    debug = os.environ.get("MAGIS_DEBUG", "") not in ("", "0")
    message = _user_message(error)
    if message is not None:
        if debug and error.__cause__ is not None:  # the user's own code failed: show where
            traceback.print_exception(error.__cause__)
        if message:  # empty: only help was asked for, and it has been shown
            print(f"magis: error: {printable(message, keep=LAYOUT)}", file=sys.stderr)
        return USER_ERROR
    if debug:
        traceback.print_exception(error)
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    print(
        f"magis: internal error: {printable(summary)}\n"
        "This is a bug in magis; please report it with the command and the file. "
        "MAGIS_DEBUG=1 shows where it happened.",
        file=sys.stderr,
    )
    return FAILED


def _give_up_unwritable_output() -> None:
    """Drops what stdout still holds if it cannot be written: the end of the process would try it
    again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _user_message(error: BaseException) -> str | None:
    """The complete message if `error` is something that the user can mend."""
    if isinstance(error, MagisError):
        return str(error)
    if hasattr(error, "format_message"):  # the argument parser's own errors
        message = str(error.format_message()).rstrip(".")
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        return message and message + hint
    if isinstance(error, OSError) and error.errno is not None:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError) or any(word in str(error) for word in _OUT_OF_MEMORY):
        first_line = str(error).partition("\n")[0]
        return f"this machine has not enough memory for that: {first_line or 'out of memory'}"
    return None
