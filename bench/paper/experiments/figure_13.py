"""Figure 13: the search as published, with one heuristic after another left out."""

import published
from cells import Cell

from experiments import charts
from experiments.bars import figure_of, limit_words
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap, percent

LIMITS = ("latency 1.1", "latency 1.05", "memory 0.8", "memory 0.4")
WAYS = ("random fission", "naive schedule rules", "L = 2", "magis-paper", "L = 8", "magis")


def _variants(settings: Settings) -> list[str]:
    if "bert" not in settings.workloads:
        return []
    known = [v for v in settings.variants if v != "authors"]
    return [v for v in known if v == "paper"] if settings.quick else known


def cell_of(settings: Settings, variant: str, way: str, limit: str) -> Cell:
    # Curves over time need some of it.
    seconds = settings.seconds * (1 if settings.quick else 6)
    profile = settings.profiles[0]
    return Cell("ablation", "bert", variant, profile, way, limit, seconds, settings.seed)


def limits(settings: Settings) -> tuple[str, ...]:
    return LIMITS[::3] if settings.quick else LIMITS


def cells(settings: Settings) -> list[Cell]:
    return [
        cell_of(settings, variant, way, limit)
        for variant in _variants(settings)
        for limit in limits(settings)
        for way in WAYS
    ]


def panels(settings: Settings, results: Results) -> list[Panel]:
    return [
        _panel(settings, results, variant, limit)
        for variant in _variants(settings)
        for limit in limits(settings)
    ]


def _panel(settings: Settings, results: Results, variant: str, limit: str) -> Panel:
    of_memory = limit.startswith("latency")
    traces, rows = [], []
    for position, way in enumerate(WAYS):
        cell = cell_of(settings, variant, way, limit)
        figures = results.figures(cell)
        paper = _paper(way, limit)
        if figures is None:
            rows.append([way, gap(results.reason(cell)), "", "", paper])
            continue
        points = [(t, memory if of_memory else time - 1) for t, memory, time, _ in figures["trace"]]
        more = {"line": {"color": charts.colour(way, position), "shape": "hv"}, "mode": "lines"}
        x, y = [p[0] for p in points], [p[1] for p in points]
        traces.append(charts.line(way, x, y, position, **more))
        traces += _marks(way, position, figures, of_memory)
        traces += _papers(way, position, limit, cell.seconds)
        value = percent(figure_of(figures, limit), 2)
        after = figures["met_after"]
        rows.append(
            [
                way,
                value if figures["met"] else gap(f"limit not met; nearest {value}"),
                "never" if after is None else f"{after:.2f} s",
                f"{figures['best_after']:.2f} s",
                paper,
            ]
        )
    axis = "peak over program order's" if of_memory else "additional time"
    chart = charts.chart(
        traces, "seconds of search", axis, yaxis={"tickformat": ".0%", "rangemode": "normal"}
    )
    head = ["search", "found", "within the limit after", "best after", "paper"]
    choices = {"variant": variant, "limit": limit_words(limit)}
    return Panel(choices, chart, Table(head, rows), _unlike(settings, results, variant, limit))


def _unlike(settings: Settings, results: Results, variant: str, limit: str) -> str:
    """Which ablations come out ahead of the search as published, as none should."""

    def figure(way: str) -> float | None:
        found = results.figures(cell_of(settings, variant, way, limit))
        if found is None:
            return None
        return figure_of(found, limit) if found["met"] else float("inf")

    whole = figure("magis-paper")
    ahead = []
    for way in WAYS[:5]:
        value = figure(way)
        if whole is not None and value is not None and value < whole and not _also(way, limit):
            ahead.append(way)
    if not ahead:
        return ""
    seconds = cell_of(settings, variant, "magis-paper", limit).seconds
    return (
        f"Ahead of the search as published, unlike in the paper: {', '.join(ahead)}. The paper"
        f" searches for 180 s, this took {seconds:g} s, in which a search among fewer candidates"
        " may be further; --seconds gives all of them more."
    )


def _also(way: str, limit: str) -> bool:
    """Whether the paper has that ablation ahead, too."""
    theirs = published.ABLATION.get(way, {}).get(limit)
    whole = published.ABLATION["magis-paper"][limit]
    return theirs is not None and whole is not None and theirs < whole


def _marks(
    way: str, position: int, figures: dict[str, object], of_memory: bool
) -> list[charts.Trace]:
    """As in the paper: a diamond where the limit is met first, a square at the best."""
    marks = []
    trace = figures["trace"]
    assert isinstance(trace, list)
    met = next((point for point in trace if point[3]), None)
    for point, symbol in ((met, "diamond"), (trace[-1], "square")):
        if point is not None:
            value = point[1] if of_memory else point[2] - 1
            marks.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": way,
                    "showlegend": False,
                    "x": [point[0]],
                    "y": [value],
                    "marker": {"symbol": symbol, "size": 9, "color": charts.colour(way, position)},
                }
            )
    return marks


def _papers(way: str, position: int, limit: str, seconds: float) -> list[charts.Trace]:
    """What the paper's search had come to, where ours ends."""
    value = published.ABLATION.get(way, {}).get(limit)
    if value is None:
        return []
    mark = charts.hollow(f"paper: {way}", [seconds], [value], "circle")
    mark["marker"]["color"] = charts.colour(way, position)
    return [mark | {"showlegend": False}]


def _paper(way: str, limit: str) -> str:
    if (way, limit) in published.NOT_MET:
        return "limit not met"
    value = published.ABLATION.get(way, {}).get(limit)
    return "" if value is None else percent(value)


EXPERIMENT = Experiment(
    figure="13",
    title="What each heuristic of the search is worth, on BERT",
    about="magis-paper is the search as published (L = 4). A diamond: the limit is met for the"
    " first time; a square: the best plan; hollow: what the paper's came to in 180 s. magis is"
    " this project's own search, for comparison.",
    cells=cells,
    panels=panels,
    default={"variant": "paper"},
)
