"""The commands, their help, and how a command's result or failure becomes an exit status."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from magis import __version__
from magis.cli import cache, plans, status
from magis.cli.capture import capture
from magis.cli.check import check
from magis.cli.diff import diff
from magis.cli.export import export
from magis.cli.inspect import inspect as inspect_file
from magis.cli.optimize import optimize
from magis.cli.outcome import Outcome
from magis.cli.profile import profile
from magis.cli.report import report as report_page
from magis.cli.run import run as run_plan
from magis.cli.zoo import zoo

app = typer.Typer(
    name="magis",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Command = tuple[str, Callable[..., Outcome], str]  # name, function, examples

_COMMANDS: list[_Command] = [
    (
        "capture",
        capture,
        """
        magis capture bert --size full --batch 32 -o bert.magis
        magis capture gpt2 --size small --optimizer adamw -o gpt2.magis
        magis capture train.py:make -o mine.magis
        """,
    ),
    (
        "check",
        check,
        """
        magis check bert
        magis check train.py:make
        magis check train.py:make --json
        """,
    ),
    (
        "optimize",
        optimize,
        """
        magis optimize bert.magis --memory-limit 40% -o plan.json --emit step.py
        magis optimize bert.magis --memory-limit 8GiB --device a100 --time-budget 60 -o plan.json
        magis optimize bert.magis --memory-limit auto --device rtx3090 --explain
        magis optimize bert.magis --latency-limit 1.1 --json
        magis optimize bert.magis --memory-limit 40% --measure 30
        magis optimize bert.magis --frontier -o frontier
        magis optimize frontier --memory-limit 40% -o plan.json
        """,
    ),
    (
        "inspect",
        inspect_file,
        """
        magis inspect bert.magis
        magis inspect bert.magis --device rtx3090
        magis inspect plan.json --explain
        magis inspect plan.json --json
        """,
    ),
    (
        "report",
        report_page,
        """
        magis report plan.json -o report.html
        magis report plan.json --frontier frontier -o report.html
        magis report bert.magis
        """,
    ),
    (
        "diff",
        diff,
        """
        magis diff fast.json small.json
        magis diff bert.magis plan.json -o diff.html
        """,
    ),
    (
        "export",
        export,
        """
        magis export plan.json --snapshot plan.pickle --trace plan.trace.json
        magis export bert.magis --device a100 --snapshot bert.pickle
        """,
    ),
    (
        "run",
        run_plan,
        """
        magis run plan.json
        magis run plan.json --model train.py:make
        """,
    ),
    (
        "profile",
        profile,
        """
        magis profile bert.magis --budget 60
        magis profile bert --size small --batch 16
        """,
    ),
    (
        "zoo",
        zoo,
        """
        magis zoo
        magis zoo --json
        """,
    ),
]


def _examples(text: str) -> str:
    """A help epilogue that keeps its lines."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return "\n\n".join(["Examples:", *(f"  {line}" for line in lines)])


def _paragraphs(function: Callable[..., Outcome]) -> str:
    """The docstring with a line per paragraph: the terminal's width decides where lines break."""
    text = inspect.cleandoc(function.__doc__ or "")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))


for _name, _function, _text in _COMMANDS:
    app.command(_name, help=_paragraphs(_function), epilog=_examples(_text))(_function)

_CACHE: list[_Command] = [
    ("list", cache.list_cache, "magis cache list --json"),
    ("clear", cache.clear, "magis cache clear --others"),
    ("export", cache.export, "magis cache export times.jsonl"),
    ("import", cache.import_file, "magis cache import times.jsonl"),
]
_PLANS: list[_Command] = [
    ("list", plans.list_plans, "magis plans list --json"),
    ("show", plans.show, "magis plans show 1a2b3c"),
    ("remove", plans.remove, "magis plans remove --all"),
    ("export", plans.export, "magis plans export 1a2b3c bert.json"),
    ("import", plans.import_file, "magis plans import bert.json"),
]


def _add_group(name: str, commands: list[_Command], text: str) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=text)
    for command, function, examples in commands:
        group.command(command, help=_paragraphs(function), epilog=_examples(examples))(function)
    app.add_typer(group, name=name)


_add_group(
    "cache",
    _CACHE,
    "Look after the times that were measured (MAGIS_CACHE_DIR says where they are kept).",
)
_add_group(
    "plans",
    _PLANS,
    "Look after the plans that are kept for the next start (in MAGIS_CACHE_DIR, too).",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"magis {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Make a PyTorch training step fit: the same step as plain PyTorch code, with a peak memory
    promised to the byte.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    try:
        outcome = app(
            args=None if arguments is None else list(arguments),
            prog_name="magis",
            standalone_mode=False,
        )
        if isinstance(outcome, Outcome):
            return outcome.show()
        if outcome == status.INTERRUPTED:
            raise KeyboardInterrupt
        return outcome if isinstance(outcome, int) else status.OK
    except (Exception, KeyboardInterrupt) as error:
        return status.report_failure(error)
