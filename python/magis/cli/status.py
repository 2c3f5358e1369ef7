"""Exit statuses, and how each kind of failure ends a command."""

import os
import sys
import traceback

from magis.errors import MagisError

OK = 0
FAILED = 1  # a bug of ours, or a plan that did not do what it promised
USER_ERROR = 2
LIMIT_NOT_MET = 3
INTERRUPTED = 130

# How PyTorch says so, on CPU and on CUDA.
_OUT_OF_MEMORY = ("can't allocate memory", "CUDA out of memory")


class UsageError(MagisError):
    """What was typed cannot be done; the message names the argument and the way out."""


def report_failure(error: BaseException) -> int:
    """Says on stderr what went wrong, in one message, and returns the exit status.

    Tracebacks, of what we did not expect and of the user's own code, appear only with
    MAGIS_DEBUG=1.
    """
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        print("magis: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone (`magis inspect x | head`): nobody to tell, and nothing
        # more to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    debug = os.environ.get("MAGIS_DEBUG", "") not in ("", "0")
    message = _user_message(error)
    if message is not None:
        if debug and error.__cause__ is not None:  # the user's own code failed: show where
            traceback.print_exception(error.__cause__)
        if message:  # empty: only help was asked for, and it has been shown
            print(f"magis: error: {message}", file=sys.stderr)
        return USER_ERROR
    if debug:
        traceback.print_exception(error)
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    print(
        f"magis: internal error: {summary}\n"
        "This is a bug in magis; please report it with the command and the file. "
        "MAGIS_DEBUG=1 shows where it happened.",
        file=sys.stderr,
    )
    return FAILED


def _user_message(error: BaseException) -> str | None:
    """The complete message if `error` is something that the user can mend."""
    if isinstance(error, MagisError):
        return str(error)
    if hasattr(error, "format_message"):  # the argument parser's own errors
        message = str(error.format_message()).rstrip(".")
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        return message and message + hint
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError) or any(word in str(error) for word in _OUT_OF_MEMORY):
        first_line = str(error).partition("\n")[0]
        return f"this machine has not enough memory for that: {first_line or 'out of memory'}"
    return None
