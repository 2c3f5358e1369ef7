"""Makes the exact planners of the benchmarks, and the search of all schedules, importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
for folder in (TESTS.parents[1] / "bench" / "optima", TESTS / "bench"):
    sys.path.insert(0, str(folder))
