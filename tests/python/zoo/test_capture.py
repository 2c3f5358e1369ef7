"""Every model of the zoo becomes graph text that computes what the model computes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from magis import zoo
from magis.capture import capture
from magis.verify import evaluate, inputs_from
from magis.verify.text import parse

EVERY = [(name, variant) for name in zoo.names() for variant in ("real", "paper")]
PROGRAM = Path(__file__).with_name("capture_full.py")


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_captured_steps_equal_eager(name: str, variant: str) -> None:
    model, loss_fn, batch = zoo.build(name, variant=variant)
    before = {path: buffer.clone() for path, buffer in model.named_buffers()}
    captured = capture(model, loss_fn, batch)

    inputs = inputs_from(captured.text, model, batch)
    values = evaluate(captured.text, inputs, dtype=None, seed=3)
    outputs = {
        (output.kind, output.path): value
        for output, value in zip(parse(captured.text).outputs, values, strict=True)
    }

    torch.manual_seed(3)
    loss = loss_fn(model, **batch)
    loss.backward()
    expected = {("loss", ""): loss.detach()}
    expected |= {("grad", path): weight.grad for path, weight in model.named_parameters()}
    expected |= {
        ("buffer", path): buffer
        for path, buffer in model.named_buffers()
        if not torch.equal(buffer, before[path])
    }
    assert outputs.keys() == expected.keys()
    assert not captured.as_if_compiled
    for key, value in expected.items():
        torch.testing.assert_close(outputs[key], value, atol=0.0, rtol=0.0, msg=str(key))


@pytest.mark.long
@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_full_size_is_captured_in_15_seconds_and_a_gigabyte(name: str, variant: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), name, variant], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    took = json.loads(done.stdout)
    assert took["resident_bytes"] < 1e9
    assert took["cpu_seconds"] < 15
    assert took["lines"] > 50
