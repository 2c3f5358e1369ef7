"""Computes one cell and leaves its record: python worker.py TASK FOLDER GRAPHS (see crew.py)."""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

from cells import Cell, Record, Store, compute

import magis._core as core
from magis.errors import MagisError


def main() -> None:
    task, folder, graphs = sys.argv[1:]
    given = json.loads(task)
    cell = Cell(**given["cell"])
    start = time.monotonic()
    figures, failure = None, ""
    try:
        if cell.key(Path(graphs)) != given["key"]:
            raise MagisError(
                "the code or the graph has changed since the suite began: run it again"
            )
        figures = compute(cell, Path(graphs))
    except (MagisError, core.UserError) as error:
        failure = str(error)
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines() or [""]
        failure = f"{type(error).__name__}: {said[0]}"
    seconds = time.monotonic() - start
    Store(Path(folder)).add(Record(cell, given["key"], figures, failure, seconds))


if __name__ == "__main__":
    main()
