"""The process of `magis run`, started again under the allocator hook."""

import sys

_main = False


def belongs_to_us() -> None:
    """Called by the program's entry point: this process runs one command and nothing else."""
    global _main
    _main = True


def under_hook() -> None:
    """Starts this process again under the allocator hook, unless it has it or cannot have it.

    Without it memory is measured with PyTorch's profiler, which sees the same allocator. A process
    that is not ours (tests, notebooks) is never restarted.
    """
    if not _main:
        return
    from magis.measure import HookError, reexec_with_hook

    try:
        reexec_with_hook()
    except HookError as error:
        print(f"magis: warning: {error}; measuring with the profiler", file=sys.stderr)
