"""Makes the modules of the benchmarks importable."""

import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench"
for folder in ("paper", "optima"):
    sys.path.insert(0, str(BENCH / folder))
