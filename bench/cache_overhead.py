"""What looking up measured times costs a search, and look-ups among a million entries.

python bench/cache_overhead.py [--model bert] [--seconds 10]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch


def seconds_of(run: Callable[[], object], times: int) -> float:
    samples = []
    for _ in range(times):
        start = time.thread_time()
        run()
        samples.append(time.thread_time() - start)
    return median(samples)


def main() -> None:
    from magis import _core, zoo
    from magis.capture import capture

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bert")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    graph = _core.Graph.parse(capture(*zoo.build(options.model, size="small")).text)
    plan = _core.Plan.program_order(graph)

    others = [
        (f"aten.mm(%0, %1) : f32[{n},7] of f32[{n},{n}], f32[{n},7]", 1e-6)
        for n in range(1_000_000)
    ]
    start = time.perf_counter()
    times = _core.MeasuredTimes.of(
        others + [(call.key, call.seconds) for call in plan.calls("cpu")]
    )
    print(f"{len(times):,} entries handed to the core in {time.perf_counter() - start:.2f} s")

    def rows() -> list[tuple[str, float]]:
        return [(call.key, call.seconds) for call in plan.calls("cpu")]

    # Counting a plan makes one cost table: each operator's call is looked up once.
    without = seconds_of(lambda: plan.run_costs("cpu"), 50)

    def lookup_seconds(times: _core.MeasuredTimes) -> tuple[float, float]:
        """Of a call that was looked up before, and what spelling it adds the first time."""
        device = _core.DeviceProfile.named("cpu").with_times(times)
        count, spelled = times.lookups, times.spelled
        start = time.thread_time()
        plan.run_costs(device)
        first = time.thread_time() - start - without
        count, spelled = times.lookups - count, times.spelled - spelled
        again = seconds_of(lambda: plan.run_costs(device), 50) - without
        return again / count, (first - again) / max(1, spelled)

    again, _ = lookup_seconds(times)
    print(f"a call looked up: {again * 1e9:.0f} ns, {1 / again:,.0f} a second")

    # A search with as many entries as one machine has of a few models.
    fresh = [lookup_seconds(_core.MeasuredTimes.of(others[:1000] + rows())) for _ in range(9)]
    again, spelling = (median(seconds) for seconds in zip(*fresh, strict=True))
    print(
        f"the same among {1000 + len(rows()):,} entries: {again * 1e9:.0f} ns, the first time "
        f"{spelling * 1e9:.0f} ns more"
    )
    times = _core.MeasuredTimes.of(others[:1000] + rows())
    device = _core.DeviceProfile.named("cpu").with_times(times)
    baseline = plan.simulate(device).peak_bytes
    before = times.lookups, times.spelled
    result = _core.optimize(
        graph, device=device, memory_limit=int(0.6 * baseline), time_budget=options.seconds
    )
    count, spelled = times.lookups - before[0], times.spelled - before[1]
    share = (count * again + spelled * spelling) / result.cpu_seconds
    print(
        f"a search of {result.wall_seconds:.1f} s ({result.cpu_seconds:.1f} s of processor time) "
        f"looked up {count:,} times, {spelled:,} of them new: {share:.2%} of it"
    )


if __name__ == "__main__":
    main()
