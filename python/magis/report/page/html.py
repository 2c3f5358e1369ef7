"""The page: a template, its scripts, plotly.js and the data, in one file.

Data and library stand in it compressed and as base64, so that no name can end the script element
that holds it, and the page of a large step stays small. What a reader without scripts sees,
headline, facts and sentences, is written as HTML.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from magis.errors import MissingExtraError, PlanError
from magis.files import write_text
from magis.report.curve import MemoryCurve
from magis.report.drawing import Curve, drawing
from magis.report.text import printable

Json = dict[str, Any]

_SCRIPTS = ("model", "parts", "looks", "memory", "live", "engines", "tables", "search", "main")
_FIELD = re.compile(r"\{(\w+)\}")


def page_text(data: Json) -> str:
    """The whole page of `magis.report.page.data.report_data`'s object.

    Raises MissingExtraError if plotly, which brings plotly.js along, is not installed.
    """
    data = visible(data)
    library = _library()
    fields = {
        "title": html.escape(f"{data['title']}: {_SUBJECTS[data['subject']]}"),
        "style": _asset("page.css"),
        "summary": _summary(data),
        "drawing": _drawing(data),
        "decisions": _decisions(data),
        "footer": html.escape(f"magis {data['magis']}; times by the profile {data['device']}"),
        "data": _packed(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        "library": library,
        "script": "\n".join(_asset(f"{name}.js") for name in _SCRIPTS),
    }
    return _FIELD.sub(lambda field: fields[field[1]], _asset("page.html"))


def write_page(path: str | os.PathLike[str], data: Json) -> None:
    """Writes the page, or nothing. Raises PlanError if `path` cannot be written, and
    MissingExtraError.
    """
    text = page_text(data)
    target = Path(path)
    try:
        write_text(target, text)
    except OSError as error:
        raise PlanError(
            f"{target}: the page cannot be written ({error.strerror or error}); choose another path"
        ) from None


def read_data(page: str) -> Json:
    """The data of a page's text."""
    match = re.search(r'id="page-data">([^<]*)<', page)
    if match is None:
        raise PlanError("not a page that magis wrote")
    data: Json = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return data


def visible(value: Any) -> Any:
    """The same with every text printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [visible(item) for item in value]
    if isinstance(value, dict):
        return {key: visible(item) for key, item in value.items()}
    return value


_SUBJECTS = {"report": "where the memory goes", "diff": "two plans"}


def _summary(data: Json) -> str:
    lines = [
        f'<p class="headline{" bad" if "red" in style else ""}">{html.escape(line)}</p>'
        for line, style in data["headline"]
    ]
    rows = [
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in data["facts"]
    ]
    return "".join(lines) + (f'<table class="facts">{"".join(rows)}</table>' if rows else "")


def _drawing(data: Json) -> str:
    """What stands in for the figures until they are drawn."""
    curves = [
        Curve(run["label"], MemoryCurve(run["seconds"], run["persistent_bytes"], run["curve"]))
        for run in data["runs"]
    ]
    limits = [line["bytes"] for line in data["lines"] if line["name"] == "limit"]
    return drawing(curves, limits[0] if len(limits) == 1 else 0)


def _decisions(data: Json) -> str:
    rows = [f"<li>{html.escape(decision['text'])}</li>" for decision in data["decisions"]]
    return f"<ul>{''.join(rows)}</ul>"


def _asset(name: str) -> str:
    return resources.files("magis.report.page").joinpath("assets").joinpath(name).read_text("utf-8")


@cache
def _library() -> str:
    try:
        found = resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js")
        return _packed(found.read_text("utf-8"))
    except (ModuleNotFoundError, FileNotFoundError):
        raise MissingExtraError(
            "pages are drawn with plotly.js, which comes with plotly, and that is not installed: "
            "pip install 'magis[report]'"
        ) from None


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 6, mtime=0)).decode("ascii")
