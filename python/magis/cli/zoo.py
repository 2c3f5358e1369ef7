"""`magis zoo`: the models that magis can be tried on."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli.options import Json
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner


def zoo(json: Json = False) -> Outcome:
    """List the models that can be captured by name.

    They have random weights: nothing is downloaded.
    """
    with spinner("loading the zoo"):
        from magis.zoo import describe
    models = describe()
    return Outcome({"models": models}, _view(models), json)


def _view(models: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("model", no_wrap=True)
    sizes = list(models[0]["sizes"])
    for size in sizes:
        table.add_column(size, no_wrap=True)
    for model in models:
        table.add_row(model["name"], *(_size_text(model["sizes"][size]) for size in sizes))
    notes = Table.grid(padding=(0, 3))
    notes.add_column(no_wrap=True)
    notes.add_column(overflow="fold")
    for model in models:
        options = " ".join(f"--{option}" for option in model["options"])
        notes.add_row(model["name"], Text.assemble(model["summary"] + "\n", (options, "dim")))
    return Group(
        Text("Parameters and batch in each size; --batch, --seq and --image change the batch."),
        Text(""),
        table,
        Text(""),
        notes,
        Text(""),
        Text("Try: magis capture bert --size small -o bert.magis"),
    )


def _size_text(size: dict[str, Any]) -> str:
    """ "110 M, 32 x 512": parameters, then samples x tokens, or samples x pixels a side."""
    count, length = size["parameters"], size["seq"] or size["image"]
    for scale, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= scale:
            parameters = f"{count / scale:.3g}{unit}"
            break
    else:
        parameters = str(count)
    return f"{parameters}, {size['batch']}" + (f" x {length}" if length else "")
