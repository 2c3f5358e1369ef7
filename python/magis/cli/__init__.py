"""The command line: `magis capture`, `optimize`, `inspect`, `run`, `zoo`."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (default: the process's arguments) and returns its exit status."""
    from magis.cli.app import run
    from magis.cli.hook import belongs_to_us
    from magis.cli.status import take_back_when_terminated

    if arguments is None:
        belongs_to_us()
        take_back_when_terminated()
    return run(arguments)
