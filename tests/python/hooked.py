"""Runs pieces of test code in one process under the allocator hook.

Importing torch takes seconds, and a process cannot get the hook later; so one worker serves all
tests of a session. Each piece runs in a namespace of its own, on one thread unless it says
otherwise, with `torch`, `measure` and `hook` at hand. What it prints comes back; an exception fails
the test with the worker's traceback. Each measurement collects garbage first; what is there before
a piece starts, all of PyTorch, is frozen meanwhile, or that would take most of the time.
"""

import atexit
import functools
import json
import subprocess
import sys
import textwrap

from magis import measure

_WORKER = """
import contextlib, gc, io, json, sys, traceback
import torch
from magis import measure
from magis.measure import hook
torch.set_num_threads(1)
torch.ones(8) @ torch.ones(8)
answers = sys.stdout
for line in sys.stdin:
    printed, error = io.StringIO(), None
    gc.freeze()
    try:
        with contextlib.redirect_stdout(printed):
            exec(json.loads(line), {"torch": torch, "measure": measure, "hook": hook})
    except BaseException:
        error = traceback.format_exc()
    gc.unfreeze()
    gc.collect()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)
    print(json.dumps([printed.getvalue(), error]), file=answers, flush=True)
"""


@functools.cache
def _worker() -> subprocess.Popen[str]:
    env = measure.environment()
    env["PYTHONPATH"] = ":".join(entry for entry in sys.path if entry)
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    atexit.register(worker.kill)
    return worker


def under_hook(code: str) -> str:
    """What `code` (dedented) prints in the worker, stripped."""
    worker = _worker()
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
    worker.stdin.flush()
    answer = worker.stdout.readline()
    assert answer, f"the worker ended with {worker.wait()} while it ran:\n{code}"
    printed, error = json.loads(answer)
    assert error is None, f"under the hook:\n{error}"
    return str(printed).strip()
