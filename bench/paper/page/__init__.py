"""One page that needs nothing else: Plotly, charts, tables and the results' JSON are in it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cells import Figures
from experiments import EXPERIMENTS, Experiment, Panel, Results, Settings, Table
from experiments.experiment import GAP
from planners import PLANNERS
from profiles import PROFILES
from verdicts import Verdict

from magis.errors import MagisError

HERE = Path(__file__).parent


def page(
    settings: Settings,
    figures: Sequence[str],
    results: Results,
    verdicts: Sequence[Verdict],
    data: Figures,
) -> str:
    charts: dict[str, Any] = {}
    sections = [_section(EXPERIMENTS[name], settings, results, charts) for name in figures]
    parts = [
        _head(figures, settings),
        _verdicts(verdicts),
        *sections,
        _planners(),
        _profiles(),
        _embedded("results", data),
        _embedded("charts", charts),
        f"<script>{_plotly()}</script>",
        f"<script>{(HERE / 'script.js').read_text()}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MagisError("the page needs the package plotly; run: pip install plotly") from error
    return str(get_plotlyjs())


def _embedded(name: str, data: Any) -> str:
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _head(figures: Sequence[str], settings: Settings) -> str:
    links = "".join(f'<a href="#figure-{name}">{_name(EXPERIMENTS[name])}</a>' for name in figures)
    links += '<a href="#planners">Planners</a><a href="#profiles">Devices</a>'
    style = (HERE / "style.css").read_text()
    budget = f"{settings.seconds:g} s a search of ours, {settings.peer_seconds:g} s of the others'"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The MAGIS paper's evaluation</title><style>{style}</style></head><body>
<header><div><h1>The MAGIS paper's evaluation</h1>
<p>Every figure of the paper's section 7 with this project's figures beside the paper's, which are
hollow markers. One core, {budget}. All planners are given the same graphs, device profile and
simulator; all but ours and PyTorch's own order are given the graph after the rewrites that save
time. Times are simulated but for the last figure, which was run.</p></div>
<button id="theme" type="button">light / dark</button></header>
<nav>{links}</nav>"""


def _name(experiment: Experiment) -> str:
    return f"Figure {experiment.figure}" if experiment.figure.isdigit() else experiment.title


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    words = {True: '<span class="yes">yes</span>', False: '<span class="no">no</span>', None: "?"}
    rows = "".join(
        f"<tr><td>{words[v.holds]}</td><td>{_unbroken(v.bar)}</td>"
        f"<td>{_unbroken(v.words)}</td></tr>"
        for v in verdicts
    )
    head = "<tr><th></th><th>bar</th><th>figures</th></tr>"
    table = f'<div class="scroll"><table class="wide">{head}{rows}</table></div>'
    return f"<h2>What it is held to</h2>{table}"


def _section(
    experiment: Experiment, settings: Settings, results: Results, charts: dict[str, Any]
) -> str:
    panels = experiment.panels(settings, results)
    shown = _first(panels, experiment.default)
    body = "".join(
        _panel(panel, f"chart-{experiment.figure}-{number}", charts)
        for number, panel in enumerate(panels)
    )
    name = _name(experiment)
    title = name if name == experiment.title else f"{name}. {experiment.title}"
    command = repeat_command(experiment.figure, settings)
    empty = "" if panels else '<p class="gap">Nothing of it was computed.</p>'
    return f"""<section class="figure" id="figure-{experiment.figure}">
<h2>{html.escape(title)}</h2><p>{html.escape(experiment.about)}</p>
{_choices(panels, shown)}{body}{empty}
<p class="repeat">To repeat: <code>{html.escape(command)}</code></p></section>"""


def repeat_command(figure: str, settings: Settings) -> str:
    quick = " --quick" if settings.quick else ""
    budgets = f" --seconds {settings.seconds:g} --peer-seconds {settings.peer_seconds:g}"
    seed = f" --seed {settings.seed}" if settings.seed else ""
    return f"python bench/paper/run.py{quick} --figures {figure}{budgets}{seed}"


def _first(panels: Sequence[Panel], default: dict[str, str]) -> Panel | None:
    def agreement(panel: Panel) -> int:
        return sum(panel.choices.get(name) == value for name, value in default.items())

    return max(panels, key=agreement) if panels else None


def _choices(panels: Sequence[Panel], shown: Panel | None) -> str:
    if shown is None or not shown.choices:
        return ""
    selects = []
    for name in shown.choices:
        values = list(dict.fromkeys(panel.choices[name] for panel in panels))
        options = "".join(
            f"<option{' selected' if value == shown.choices[name] else ''}>"
            f"{html.escape(value)}</option>"
            for value in values
        )
        selects.append(f'<label>{name} <select name="{name}">{options}</select></label>')
    return f'<div class="choices">{"".join(selects)}</div>'


def _panel(panel: Panel, identity: str, charts: dict[str, Any]) -> str:
    """Without JavaScript all are there, and their tables can be read."""
    choices = html.escape(json.dumps(panel.choices))
    chart = ""
    if panel.chart is not None:
        charts[identity] = panel.chart
        chart = f'<div class="chart" id="{identity}"></div>'
    note = f'<p class="note">{html.escape(panel.note)}</p>' if panel.note else ""
    return f'<div class="panel" data-choices="{choices}">{chart}{note}{_table(panel.table)}</div>'


def _table(table: Table, kind: str = "") -> str:
    head = "".join(f"<th>{html.escape(word)}</th>" for word in table.head)
    rows = "".join("<tr>" + "".join(_entry(word) for word in row) + "</tr>" for row in table.rows)
    return f'<div class="scroll"><table class="{kind}"><tr>{head}</tr>{rows}</table></div>'


SHOWN = 60  # letters of a reason; the rest is there to hover over


def _entry(word: str) -> str:
    if not word.startswith(GAP):
        return f"<td>{_unbroken(word)}</td>"
    first, _, more = word.partition(";")
    short = first[:SHOWN].rstrip()
    if more or short != first:
        short += " ...)"
    return f'<td class="gap" title="{html.escape(word)}">{_unbroken(short)}</td>'


def _unbroken(word: str) -> str:
    """No line ends between a figure and its per cent."""
    return html.escape(word).replace(" %", "&nbsp;%")


def _planners() -> str:
    rows = []
    for name in PLANNERS:
        planner = PLANNERS[name]
        rows.append([name, planner.published, planner.simplified])
    table = _table(Table(["planner", "published", "what is simplified here"], rows), "wide")
    return f'<section id="planners"><h2>Planners</h2>{table}</section>'


def _profiles() -> str:
    table = _table(Table(["profile", "what it is"], list(PROFILES.items())))
    return f'<section id="profiles"><h2>Devices</h2>{table}</section>'
