"""`magis capture`: a model's training step as a graph file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from magis.cli.files import check_writable
from magis.cli.options import Json, ModelName, device_profile, one_of
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner
from magis.cli.status import UsageError
from magis.cli.workload import Workload, ZooOptions, file_workload, is_file, zoo_workload
from magis.errors import ReplayError
from magis.files import write_text
from magis.report import MemoryReport
from magis.report.render import summary_view

if TYPE_CHECKING:
    import torch

    from magis import _core
    from magis.capture import Capture

_AUTOCAST = {"bfloat16": "bfloat16", "bf16": "bfloat16", "float16": "float16", "f16": "float16"}


def capture(
    name: ModelName,
    size: Annotated[
        str | None, typer.Option(metavar="tiny|small|full", help="Zoo: size; default tiny.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Zoo: samples in the batch.")] = None,
    seq: Annotated[int | None, typer.Option(help="Zoo: tokens a sample.")] = None,
    image: Annotated[int | None, typer.Option(help="Zoo: pixels a side.")] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="Zoo: of weights, float32 or bfloat16.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="real|paper", help="Zoo: the model, or the MAGIS paper's workload."),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(metavar="sdpa|eager", help="Zoo: fused attention, or written out.")
    ] = None,
    dropout: Annotated[float | None, typer.Option(help="Zoo: every dropout rate.")] = None,
    autocast: Annotated[
        str | None,
        typer.Option(metavar="bfloat16|float16", help="Run forward and loss under autocast."),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="sgd|adam|adamw",
            help="Put the update by this optimizer, with PyTorch's defaults, into the step.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda", help="The device that the step is to run on.")
    ] = "cpu",
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference from eager that is accepted; default none at all."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write the graph; default MODEL.magis."
        ),
    ] = None,
    json: Json = False,
) -> Outcome:
    """Capture a training step as a graph file.

    Nothing is downloaded: zoo models have random weights. The captured step is run once against
    eager PyTorch and refused if it differs. Full-size zoo models are captured without weights,
    so they fit anywhere, and are not compared.
    """
    options = ZooOptions(size, batch, seq, image, dtype, variant, dropout, attention)
    target = output or Path(f"{_stem(name)}.magis")
    check_writable(target, "--output")
    one_of("--device", device, ("cpu", "cuda"))
    if optimizer is not None:
        one_of("--optimizer", optimizer, ("sgd", "adam", "adamw"))
    if autocast is not None:
        one_of("--autocast", autocast, list(_AUTOCAST))
    with spinner(f"capturing {name}"):
        workload = _workload(name, options, device)
        update = _optimizer(workload, optimizer)
        captured = _captured(workload, device, autocast, update)
        graph, replayed = _checked(workload, captured, update, tolerance)
    write_text(target, graph.text())
    memory = MemoryReport.of_graph(graph, device=device_profile(None, graph.device))
    return _outcome(target, memory, replayed, json)


def _stem(name: str) -> str:
    return name.rpartition(":")[0].rpartition("/")[2].removesuffix(".py") if is_file(name) else name


def _workload(name: str, options: ZooOptions, device: str) -> Workload:
    if not is_file(name):
        return zoo_workload(name, options, device=_weights_device(options, device))
    if given := options.given():
        flags = ", ".join(f"--{option}" for option in given)
        raise UsageError(f"{flags}: for models of the zoo only; {name} decides for itself")
    return file_workload(name)


def _weights_device(options: ZooOptions, device: str) -> str:
    """Where the zoo makes weights: nowhere if they are too large to be tried, or cannot be."""
    import torch

    if options.size == "full" or (device == "cuda" and not torch.cuda.is_available()):
        return "meta"
    return device


def _optimizer(workload: Workload, name: str | None) -> torch.optim.Optimizer | None:
    if name is None:
        return None
    from magis.capture.optimizers import optimizer_named

    return optimizer_named(name, workload.model.parameters())


def _captured(
    workload: Workload,
    device: str,
    autocast: str | None,
    optimizer: torch.optim.Optimizer | None,
) -> Capture:
    import torch

    from magis.capture import capture as capture_step

    return capture_step(
        workload.model,
        workload.loss_fn,
        workload.batch,
        device=device,
        autocast=None if autocast is None else getattr(torch, _AUTOCAST[autocast]),
        optimizer=optimizer,
        meta=workload.meta | {"torch": torch.__version__},
    )


def _checked(
    workload: Workload,
    captured: Capture,
    optimizer: torch.optim.Optimizer | None,
    tolerance: float | None,
) -> tuple[_core.Graph, str]:
    """The graph to be written, and how it was compared with eager."""
    import torch

    from magis import _core
    from magis.cli.trial import Trial
    from magis.runtime.plan_file import OUTPUT_COUNT
    from magis.runtime.scratch import with_measured_scratch

    text = captured.text
    meta = {}
    places = {parameter.device.type for parameter in workload.model.parameters()}
    if places == {"cpu"} and captured.device.type == "cpu":
        text = with_measured_scratch(text)
        meta["threads"] = str(torch.get_num_threads())  # scratch depends on it
    graph = _core.Graph.parse(text, "captured graph")
    meta[OUTPUT_COUNT] = str(len(graph.outputs))
    if "meta" in places:
        replayed = "not replayed: captured without weights"
    elif places - {captured.device.type}:
        replayed = (
            f"not replayed: captured for {captured.device.type}, but the weights are not there"
        )
    else:
        plan = _core.Plan.program_order(graph)
        difference = Trial(workload, captured, plan, None, optimizer).difference(tolerance)
        if difference is not None:
            raise ReplayError(f"{difference}. On the command line: --tolerance 1e-6")
        replayed = (
            "bitwise equal to eager"
            if tolerance is None
            else f"equal to eager within {tolerance:g}"
        )
    meta["replay"] = replayed
    return _core.Graph.parse(_with_meta(text, meta), "captured graph"), replayed


def _with_meta(text: str, meta: dict[str, str]) -> str:
    """`text` with more lines in its header, after the first two (version and device)."""
    head = text.split("\n", 2)
    lines = [f'meta {key} "{value}"' for key, value in meta.items()]
    return "\n".join([*head[:2], *lines, *head[2:]])


def _outcome(target: Path, memory: MemoryReport, replayed: str, as_json: bool) -> Outcome:
    data = {
        "file": str(target),
        "meta": memory.meta,
        "operators": memory.operators,
        "opaque": memory.opaque,
        "peak_bytes": memory.peak_bytes,
        "persistent_bytes": memory.persistent_bytes,
        "seconds": memory.seconds,
        "device": memory.device,
        "replayed": replayed,
    }
    view = Group(
        summary_view(memory),
        Text(""),
        Text(f"Graph written to {target}; `magis inspect {target}` shows where its memory goes."),
    )
    return Outcome(data, view, as_json)
