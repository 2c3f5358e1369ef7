"""The times of one machine: from the cache to the core, and from measuring to both."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from magis import _core
from magis.timing.cache import PerformanceCache
from magis.timing.calibration import calibrate
from magis.timing.entries import Entry, Fit
from magis.timing.machine import Machine, machine_of
from magis.timing.measuring import Measured, Progress, measure, most_valuable_first


class Times:
    """What this process knows of the calls on `device`. Calls that fail are noted, and modelled."""

    def __init__(self, device: torch.device, cache: PerformanceCache | None = None) -> None:
        self.device = device
        self.machine: Machine = machine_of(device)
        self._cache = cache or PerformanceCache()
        self._entries: dict[str, Entry] = self._cache.entries(self.machine)
        self._fits: dict[str, Fit] = self._cache.fits(self.machine)

    def measured_calls(self) -> set[str]:
        """All that have a time."""
        return {key for key, entry in self._entries.items() if not entry.failure}

    def failure(self, key: str) -> str:
        """Why the call cannot be run alone; empty if it can, or was not tried."""
        entry = self._entries.get(key)
        return entry.failure if entry else ""

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def profile(self, name: str) -> _core.DeviceProfile:
        """The profile of that name with all times that are known now; what has none is modelled,
        with the model fitted to those times.
        """
        rows = [(key, e.seconds) for key, e in self._entries.items() if not e.failure]
        fits = {name: (fit.scale, fit.exponent) for name, fit in self._fits.items()}
        profile = _core.DeviceProfile.named(name).with_calibration(fits)
        return profile.with_times(_core.MeasuredTimes.of(rows))

    def lacking(self, calls: Iterable[_core.CallCount]) -> list[str]:
        """Calls that can be measured and are not yet, the most valuable first."""
        return [c.key for c in most_valuable_first(calls) if c.key not in self._entries]

    def measure(
        self, keys: list[str], budget: float, free_bytes: int, progress: Progress | None = None
    ) -> Measured:
        """Measures calls in this order while the budget of seconds lasts, and keeps the times."""
        found = measure(keys, self.device, budget, free_bytes=free_bytes, progress=progress)
        self._entries.update(found.entries)
        if found.entries:
            self._cache.store(self.machine, found.entries)
        return found

    def calibrate(self, profile: str) -> None:
        """Fits the profile's model to all times that are known now, and keeps the fit."""
        self._fits = calibrate(self._entries, profile)
        self._cache.store_fits(self.machine, self._fits)
