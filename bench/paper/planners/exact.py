"""The exact planners of bench/optima, which this package builds on."""

from __future__ import annotations

import sys
from pathlib import Path

_OPTIMA = str(Path(__file__).parents[2] / "optima")
if _OPTIMA not in sys.path:
    sys.path.append(_OPTIMA)

from checkmate import Checkmate, Instance, Solution  # noqa: E402
from rotor import Rotor, Stage  # noqa: E402

__all__ = ["Checkmate", "Instance", "Rotor", "Solution", "Stage"]
