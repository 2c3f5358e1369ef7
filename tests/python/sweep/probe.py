"""Puts models through `magis.optimize`, each in a process of its own, and says how it went.

    python probe.py OUT.json [--seconds 60] [--only eager] FAMILY/NAME ...

A model trains two steps with different data and seeds, once in eager and once planned. Outcomes:
"equal" (bit for bit: results, gradients with their strides, buffers, generator), "refused" (with
the reason), "wrong" (with what differs), "crash" (with the end of the traceback), "timeout", and
"no eager" where eager itself fails. Seconds are those of the processor: a busy machine takes
longer, and says the same.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from magis.capture.records import opened
from magis.errors import CaptureError, MagisError

sys.path.insert(0, str(Path(__file__).parent))

# Times the seconds that a model may take of the processor.
_MOST_WAITING = 20


def build(name: str) -> tuple[nn.Module, Any, list[Any]]:
    family, _, model = name.partition("/")
    if family == "transformers":
        import tiny_transformers

        return tiny_transformers.build(model)
    if family == "packages":
        import tiny_packages

        return tiny_packages.build(model)
    import handwritten
    import users_losses  # noqa: F401  more cases of the same list
    import users_models  # noqa: F401

    return handwritten.build(model)


def _step(run: Callable[[], Any], model: nn.Module, batch: Any, seed: int) -> dict[str, Any]:
    """Everything that one step leaves behind."""
    torch.manual_seed(seed)
    random.seed(seed)
    for parameter in model.parameters():
        parameter.grad = None
    result = run()
    left: dict[str, Any] = {}
    for path, leaf in pytree.tree_flatten_with_path(opened(result))[0]:
        left[f"result{pytree.keystr(path)}"] = leaf
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        left[f"gradient {name}"] = None if grad is None else grad.clone()
        left[f"strides {name}"] = None if grad is None else _strides(grad)
    for name, buffer in model.named_buffers():
        left[f"buffer {name}"] = buffer.clone()
    left["generator"] = torch.get_rng_state()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=1e-2)
    return left


def _strides(grad: torch.Tensor) -> list[int]:
    return [s for n, s in zip(grad.shape, grad.stride(), strict=True) if n > 1]


def _difference(eager: dict[str, Any], planned: dict[str, Any]) -> str | None:
    if eager.keys() != planned.keys():
        return f"keys {sorted(eager.keys() ^ planned.keys())[:3]}"
    for key, before in eager.items():
        after = planned[key]
        if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
            if before is not after and before != after and before == before:
                return f"{key}: {str(after)[:80]}, eager {str(before)[:80]}"
            continue
        if before.shape != after.shape or before.dtype != after.dtype:
            return f"{key}: {after.dtype} {list(after.shape)}, eager {before.dtype} {before.shape}"
        same = torch.equal(before, after) or bool(
            torch.equal(before.isnan(), after.isnan())
            and torch.equal(before.nan_to_num(), after.nan_to_num())
        )
        if not same:
            far = (before.double() - after.double()).abs().max()
            return f"{key} differs by up to {far:.3g}"
    return None


def _eager(model: nn.Module, loss_fn: Any, batch: Any) -> Any:
    arguments = ((), batch) if isinstance(batch, dict) else (batch, {})
    result = loss_fn(model, *arguments[0], **arguments[1])
    pytree.tree_leaves(result)[0].backward()
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, opened(result))


def _eager_steps(model: nn.Module, loss_fn: Any, batches: list[Any]) -> list[dict[str, Any]]:
    return [
        _step(lambda b=batch: _eager(model, loss_fn, b), model, batch, 11 + i)  # type: ignore[misc]
        for i, batch in enumerate(batches)
    ]


def examine(name: str, only_eager: bool) -> dict[str, Any]:
    import magis

    torch.set_num_threads(1)
    start = time.process_time()
    try:
        model, loss_fn, batches = build(name)
        twin = copy.deepcopy(model)
        expected = _eager_steps(twin, loss_fn, copy.deepcopy(batches))
    except Exception as error:
        return {"outcome": "no eager", "why": f"{type(error).__name__}: {error}"[:300]}
    if only_eager:
        return {"outcome": "eager", "seconds": round(time.process_time() - start, 1)}
    again = _eager_steps(copy.deepcopy(model), loss_fn, copy.deepcopy(batches))
    noise = next(filter(None, map(_difference, expected, again)), None)
    if noise:
        return {"outcome": "no eager", "why": f"not the same twice: {noise}"}
    start = time.process_time()
    found = _planned(magis, model, loss_fn, batches, expected)
    return {**found, "seconds": round(time.process_time() - start, 1)}


def _planned(
    magis: Any, model: nn.Module, loss_fn: Any, batches: list[Any], expected: list[dict[str, Any]]
) -> dict[str, Any]:
    step = None
    try:
        random.seed(5)
        torch.manual_seed(5)
        step = magis.optimize(
            model, loss_fn, batches[0], time_budget=0.05, exact=True, verify="off", threads=1
        )
        for i, batch in enumerate(batches):
            keywords = isinstance(batch, dict)
            run = (lambda b=batch: step(**b)) if keywords else (lambda b=batch: step(*b))
            difference = _difference(expected[i], _step(run, model, batch, 11 + i))
            if difference:
                return {"outcome": "wrong", "why": f"step {i + 1}: {difference}"}
    except MagisError as error:
        kind = "refused" if isinstance(error, CaptureError) else "crash"
        return {"outcome": kind, "why": f"{type(error).__name__}: {error}"[:700]}
    except Exception:
        return {"outcome": "crash", "why": traceback.format_exc()[-1500:]}
    facts = getattr(step, "facts", None)
    return {"outcome": "equal", **({"facts": facts} if facts else {})}


def in_a_child(name: str, seconds: float, only_eager: bool) -> dict[str, Any]:
    """Forks, so that the libraries are imported once."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "outcome.json")
        child = os.fork()
        if child == 0:
            warnings.simplefilter("ignore")
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            try:
                outcome = examine(name, only_eager)
            except BaseException:
                outcome = {"outcome": "crash", "why": traceback.format_exc()[-1500:]}
            place.write_text(json.dumps(outcome))
            os._exit(0)
        end = time.monotonic() + _MOST_WAITING * seconds
        while _processor_seconds(child) < seconds and time.monotonic() < end:
            if os.waitpid(child, os.WNOHANG)[0]:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"outcome": "timeout", "seconds": seconds}
        if not place.exists():
            return {"outcome": "crash", "why": "the process ended without a word"}
        return dict(json.loads(place.read_text()))


def _processor_seconds(process: int) -> float:
    """That it has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only-eager", action="store_true")
    parser.add_argument("--missing", action="store_true", help="leave out names known in OUT")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    names = options.names
    if names[0] == "@all":
        import tiny_transformers

        names = [f"transformers/{n}" for n in tiny_transformers.candidates()]
    elif names[0].startswith("@"):
        names = Path(names[0][1:]).read_text().split()
    import transformers  # noqa: F401

    import magis  # noqa: F401  before the forks

    for name in names:
        if options.missing and name in found:
            continue
        found[name] = in_a_child(name, options.seconds, options.only_eager)
        print(name, found[name]["outcome"], str(found[name].get("why", ""))[:160], flush=True)
        part = options.out.with_suffix(".part")
        part.write_text(json.dumps(found, indent=1))
        part.replace(options.out)


if __name__ == "__main__":
    main()
