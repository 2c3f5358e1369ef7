"""Results on disk: a folder with one file a cell, so that what is done is kept whatever happens."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cells.cell import Cell, Figures
from magis.files import write_text


@dataclass(frozen=True)
class Record:
    """What became of a cell: figures, or in words why there are none."""

    cell: Cell
    key: str
    figures: Figures | None
    failure: str = ""
    seconds: float = 0.0  # that computing took

    def as_json(self) -> Figures:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Figures) -> Record:
        """Raises KeyError, TypeError or ValueError for anything that as_json does not write."""
        fields = dict(data)
        cell = Cell(**fields.pop("cell"))
        record = cls(cell=cell, **fields)
        if (record.figures is None) == (record.failure == ""):
            raise ValueError("neither figures nor a reason, or both")
        return record


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[Path] = []  # files that were passed over

    def path_of(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def find(self, key: str) -> Record | None:
        """None: not there, or damaged, which is computed again and written over."""
        path = self.path_of(key)
        try:
            record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
            if record.key != key:
                raise ValueError("the file is another cell's")
            return record
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.damaged.append(path)
            return None

    def add(self, record: Record) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.path_of(record.key), json.dumps(record.as_json(), indent=1) + "\n")
