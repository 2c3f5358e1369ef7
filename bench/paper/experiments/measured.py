"""Small versions that really run on this CPU: promised against measured."""

from collections.abc import Mapping

from cells import Cell

from experiments import charts
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap, percent

MODELS = {"bert6": "BERT, 6 layers", "resnet18": "ResNet-18-like", "unet16": "U-Net, width 16"}
WITHIN_MEMORY, WITHIN_TIME = 0.02, 0.05  # that measured ratios may differ from promised ones


def _cell(settings: Settings, model: str) -> Cell:
    # Measuring operators takes longer than any search.
    extent, seconds = ("quick", 15.0) if settings.quick else ("full", 240.0)
    return Cell("measured", model, extent, seconds=seconds)


def cells(settings: Settings) -> list[Cell]:
    return [_cell(settings, model) for model in MODELS]


def panels(settings: Settings, results: Results) -> list[Panel]:
    found = []
    for model, title in MODELS.items():
        cell = _cell(settings, model)
        figures = results.figures(cell)
        choices = {"model": title}
        if figures is None:
            table = Table(["way"], [[gap(results.reason(cell))]])
            found.append(Panel(choices, None, table))
            continue
        traces, rows = [], []
        promised = [way for way in figures["ways"] if way["promised_time"] is not None]
        x, y = [w["promised_memory"] for w in promised], [w["promised_time"] for w in promised]
        traces.append(charts.hollow("promised", x, y, "circle"))
        for ours, name in ((True, "magis"), (False, "others")):
            ways = [w for w in figures["ways"] if w["way"].startswith("magis") == ours]
            points = [w["memory"] for w in ways], [w["time"] for w in ways]
            text = {"mode": "markers+text", "text": [w["way"] for w in ways]}
            trace = charts.line(name, *points, position=1, **text, textposition="top center")
            traces.append(trace)
        for way in figures["ways"]:
            rows.append(_row(way))
        chart = charts.chart(
            traces,
            "peak over eager's",
            "time over eager's",
            xaxis={"tickformat": ".0%"},
            yaxis={"rangemode": "normal"},
        )
        head = ["way", "memory", "promised", "time", "promised", "as promised"]
        found.append(Panel(choices, chart, Table(head, rows), figures["words"]))
    return found


def _row(way: dict[str, float | str | None]) -> list[str]:
    memory, time = way["memory"], way["time"]
    promised_memory, promised_time = way["promised_memory"], way["promised_time"]
    assert isinstance(memory, float)
    assert isinstance(time, float)
    row = [str(way["way"]), percent(memory)]
    if not isinstance(promised_memory, float) or not isinstance(promised_time, float):
        return [*row, "", f"{time:.3f}", "", ""]
    kept = "yes" if as_promised(way) else "no"
    return [*row, percent(promised_memory), f"{time:.3f}", f"{promised_time:.3f}", kept]


def as_promised(way: Mapping[str, object]) -> bool:
    def difference(of: str) -> float:
        measured, promised = way[of], way[f"promised_{of}"]
        assert isinstance(measured, float)
        assert isinstance(promised, float)
        return abs(measured - promised)

    return difference("memory") <= WITHIN_MEMORY and difference("time") <= WITHIN_TIME


EXPERIMENT = Experiment(
    figure="cpu",
    title="Really run, on this CPU",
    about="Small versions of three networks, the peak as the allocator saw it and the step's time,"
    " both over eager's. Hollow: what was promised before the step ran. Needs PyTorch.",
    cells=cells,
    panels=panels,
)
