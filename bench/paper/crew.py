"""Cells in processes of their own, a few at a time: what hangs or dies takes no other with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cells import Cell, Record, Store

WORKER = Path(__file__).resolve().parent / "worker.py"
PAUSE = 0.05  # seconds between looks at the workers
# A planner may take longer than its budget (PyTorch's own traces a model first), not for ever.
PATIENCE, GRACE = 4.0, 120.0


@dataclass(frozen=True)
class Job:
    cell: Cell
    key: str


@dataclass
class Worker:
    job: Job
    process: subprocess.Popen[bytes]
    errors: Path
    started: float

    @classmethod
    def start(cls, job: Job, store: Store, graphs: Path, errors: Path) -> Worker:
        task = {"cell": asdict(job.cell), "key": job.key}
        places = (store.folder.resolve(), graphs.resolve())
        command = [sys.executable, str(WORKER), json.dumps(task), *map(str, places)]
        with errors.open("wb") as file:
            # In a session of its own, as Ctrl-C is the suite's to handle, and where PyTorch may
            # leave what it likes to leave behind.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=errors.parent,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                start_new_session=True,
            )
        return cls(job, process, errors, time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def overdue(self) -> bool:
        return self.seconds > PATIENCE * self.job.cell.seconds + GRACE

    def stop(self) -> None:
        """With all that it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def record(self, store: Store) -> Record:
        """What it left; a reason where it left nothing."""
        found = store.find(self.job.key)
        if found is not None:
            return found
        said = self.errors.read_text(errors="replace").strip().splitlines()
        code = self.process.returncode
        ended = f"signal {-code}" if code < 0 else f"exit status {code}"
        reason = f"the process ended with {ended}" + (f": {said[-1]}" if said else "")
        return Record(self.job.cell, self.job.key, None, reason, self.seconds)


@contextmanager
def stopping(running: list[Worker]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in running:
            worker.stop()


def work_off(
    jobs: list[Job],
    store: Store,
    graphs: Path,
    at_once: int,
    watch: Callable[[list[Cell], Record | None], None],
) -> list[Record]:
    """All records, in the order in which cells are done. `watch` is told which cells run, and of
    each that is done. KeyboardInterrupt leaves what is done in the store, and no process behind.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    waiting = list(reversed(jobs))
    running: list[Worker] = []
    done: list[Record] = []
    with tempfile.TemporaryDirectory() as scratch, stopping(running):
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop()
                errors = Path(scratch) / job.key
                running.append(Worker.start(job, store, graphs, errors))
                watch([worker.job.cell for worker in running], None)
            time.sleep(PAUSE)
            for worker in [w for w in running if w.process.poll() is not None or w.overdue]:
                if worker.process.poll() is None:
                    worker.stop()
                    reason = f"stopped after {worker.seconds:.0f} s"
                    record = Record(worker.job.cell, worker.job.key, None, reason, worker.seconds)
                else:
                    record = worker.record(store)
                if record.failure:
                    store.add(record)
                running.remove(worker)
                done.append(record)
                watch([other.job.cell for other in running], record)
    return done
