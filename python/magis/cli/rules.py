"""Which changes the search may make: `--rules`, `--no-rule`, and the list of rewrite rules."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli.search import Rules
from magis.cli.status import UsageError

if TYPE_CHECKING:
    from magis import _core

REWRITE, RECOMPUTE, SWAP, FISSION = KINDS = ("taso", "remat", "swap", "fission")
ALL_KINDS = ",".join(KINDS)


def kinds_of(text: str) -> set[str]:
    """The kinds named in a list with commas."""
    kinds = {kind.strip() for kind in text.split(",") if kind.strip()}
    if unknown := sorted(kinds - set(KINDS)):
        raise UsageError(f"--rules: {unknown[0]!r} is none of {', '.join(KINDS)}")
    return kinds


def choose_rules(kinds: str, without: Sequence[str], *, fission: bool) -> Rules:
    """What `--rules`, `--no-rule` and `--fission` ask for."""
    from magis import _core

    known = [rule for rule, *_ in _core.rewrite_rules()]
    for name in without:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise UsageError(f"--no-rule: there is no rule {name!r}{hint}")
    allowed = kinds_of(kinds)
    return Rules(
        fission=fission and FISSION in allowed,
        recompute=RECOMPUTE in allowed,
        rewrite=REWRITE in allowed,
        without_rules=tuple(without),
    )


def rules_view(rows: Sequence[dict[str, object]]) -> RenderableType:
    """Rewrite rules, see `rule_rows`: those that match, then the others."""
    matching = Table(box=None, pad_edge=False, expand=False)
    for title in ("matches", "applied", "saves"):
        matching.add_column(title, justify="right", no_wrap=True)
    matching.add_column("rule", overflow="fold")
    others = Table.grid(padding=(0, 2))
    for row in rows:
        note = "" if row["exact"] else "; rounds otherwise"
        words = f"{row['rule']}: {row['description']}{note}"
        if row["matches"] or row["applied"]:
            matching.add_row(
                *(str(row[key] or "") for key in ("matches", "applied", "saves")), Text(words)
            )
        else:
            others.add_row(Text(words))
    if not matching.row_count:
        return Group(Text("No rewrite rule matches. There are:"), others)
    return Group(matching, Text(""), Text("Rules that do not match here"), others)


def rule_rows(
    graph: _core.Graph, plan: _core.Plan | None, profile: _core.Device
) -> list[dict[str, object]]:
    """Every rewrite rule: `rule`, `description`, whether it gives the same bits (`exact`) or is
    kept away from 16-bit dtypes (`wide`); in how many places it `matches`, by how many seconds a
    step is shorter where it alone is applied (`saved_seconds`, None for a graph in parts), and how
    often it was `applied`: in the plan, or without one by itself.
    """
    from magis import _core
    from magis.report.text import seconds_text

    in_plan = dict(graph.rewrites)
    effects = (
        {} if graph.loop_count else {e[0]: e for e in _core.rule_effects(graph, device=profile)}
    )
    rows = []
    for rule, description, exact, wide in _core.rewrite_rules():
        _, matches, applied, saved, _ = effects.get(rule, (rule, 0, 0, 0.0, 0))
        rows.append(
            {
                "rule": rule,
                "description": description,
                "exact": exact,
                "wide": wide,
                "matches": None if graph.loop_count else matches,
                "applied": in_plan.get(rule, 0) if plan is not None else applied,
                "saved_seconds": None if graph.loop_count else saved,
                "saves": seconds_text(saved) if saved else "",
            }
        )
    return rows
