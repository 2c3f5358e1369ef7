"""Makes the helpers beside this file importable from every test, e.g. `hooked`; keeps the user's
performance cache out of the tests.
"""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_performance_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(tmp_path / "magis-cache"))
