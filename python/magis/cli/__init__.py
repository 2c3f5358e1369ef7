"""The command line: `magis capture`, `optimize`, `inspect`, `run`, `zoo`."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (default: the process's arguments) and returns its exit status."""
    from magis.cli.app import run
    from magis.cli.hook import belongs_to_us

    if arguments is None:
        belongs_to_us()
    return run(arguments)
