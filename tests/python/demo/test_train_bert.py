"""The demo: its text, its four ways to train, its verdict, and one whole run."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from magis.demo import methods, text, train_bert
from magis.demo.text import IGNORED, MASK_TOKEN, Batch
from magis.demo.trial import Trial, run
from magis.zoo.huggingface import model_loss

NO_BUDGET = methods.Budget(memory_limit=0)


def batches(count: int, seed: int = 0) -> list[Batch]:
    return list(text.masked_batches(text.standard_library(), count, 8, 32, seed))


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad for parameter in model.parameters()]


@pytest.fixture(scope="module")
def eager() -> tuple[Batch, list[torch.Tensor]]:
    """A batch whose parts hide different numbers of tokens, and the whole batch's gradients."""
    batch = batches(1)[0]
    batch["labels"][:2] = IGNORED
    batch["labels"][0, 0] = 65
    model = methods.bert(dropout=0.0, seed=0)
    methods.plain_step(model, batch)
    return batch, gradients(model)


def test_text_is_real_hidden_in_part_and_always_the_same() -> None:
    first, second = batches(2)
    assert all(torch.equal(first[key], again) for key, again in batches(2)[0].items())
    assert not torch.equal(first["input_ids"], second["input_ids"])
    assert not torch.equal(first["input_ids"], batches(2, seed=1)[0]["input_ids"])
    hidden = first["labels"] != IGNORED
    assert 0.08 < hidden.float().mean() < 0.25
    assert torch.equal(hidden, first["input_ids"] == MASK_TOKEN)
    whole = torch.where(hidden, first["labels"], first["input_ids"])
    library = text.standard_library().numpy().tobytes()
    for row in whole:
        assert bytes(row.tolist()) in library


def test_text_does_not_touch_the_generator_of_training() -> None:
    before = torch.get_rng_state()
    batches(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_accumulation_weighs_parts_by_their_labels(
    eager: tuple[Batch, list[torch.Tensor]],
) -> None:
    batch, expected = eager
    model = methods.bert(dropout=0.0, seed=0)
    loss = methods.step_in_parts(model, batch)
    torch.testing.assert_close(loss, model_loss(model, **batch).detach())
    for actual, wanted in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(actual, wanted, atol=1e-6, rtol=1e-4)


def test_checkpointing_computes_the_same_and_is_on(
    eager: tuple[Batch, list[torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, expected = eager
    model = methods.bert(dropout=0.0, seed=0)
    way = methods.checkpointing(model, batch, budget=NO_BUDGET)
    layers = [0]
    for layer in model.bert.encoder.layer:
        layer.attention.register_forward_hook(lambda *_: layers.append(1))
    way.step(batch)
    assert sum(layers) == 12, "each of the six layers runs forward twice"
    assert all(map(torch.equal, gradients(model), expected))


def test_methods_have_random_states_of_their_own() -> None:
    steps = batches(2)
    pair = [
        methods.make("eager", dropout=0.1, seed=0, batch=steps[0], budget=NO_BUDGET) for _ in "ab"
    ]
    first, second = run(pair, steps, on_round=lambda done: None)
    assert first.losses == second.losses
    assert second.gradient_differences == [0.0] * 2
    assert len(set(first.losses)) == 2
    assert first.losses[0] != model_loss(methods.bert(0.1, seed=1), **steps[0]).item()


@dataclass
class Promise:
    """Stands for magis's report in verdicts."""

    transient_peak_bytes: int = 100

    def to_json(self) -> dict[str, Any]:
        return {"transient_peak_bytes": self.transient_peak_bytes}


def trials(peaks: list[int], losses: list[float]) -> list[Trial]:
    eager = Trial("eager", None, [900, 900, 900], [1.0] * 3, [3.0, 2.0, 1.0], [0.0] * 3)
    return [eager, Trial("magis", Promise(), peaks, [1.0] * 3, losses, [0.0] * 3)]


@pytest.mark.parametrize(
    ("peaks", "losses", "lines"),
    [
        ([100, 100, 100], [3.0, 2.0, 1.0], []),
        (
            [100, 101, 102],
            [3.0, 2.0, 1.0],
            ["step 2: promised a peak of 100 bytes, measured 101"],
        ),
        ([100, 100, 99], [3.0, 2.0, 1.0], ["step 3: promised a peak of 100 bytes, measured 99"]),
        ([100, 100, 100], [3.0, 2.5, 1.5], ["step 2: loss 2.5, but eager's is 2.0"]),
    ],
)
def test_verdict(peaks: list[int], losses: list[float], lines: list[str]) -> None:
    assert train_bert.failures(trials(peaks, losses)) == lines


def test_a_broken_promise_is_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        train_bert.trial, "run", lambda *_: trials([100, 101, 100], [3.0, 2.0, 1.0])
    )
    assert train_bert.main(["--steps", "3", "--methods", "eager", "--dropout", "0"]) == 1
    assert "FAILED with dropout 0: step 2: promised" in capsys.readouterr().err


def test_figures_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "build" / "run.json"
    train_bert.check_target(target)
    train_bert.write_json(target, {"a": 1})
    with pytest.raises(TypeError):
        train_bert.write_json(target, {"a": object()})
    assert json.loads(target.read_text()) == {"a": 1}
    assert os.listdir(target.parent) == ["run.json"]


def test_an_unwritable_target_is_said_before_training_with_exit_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_training(*_: object) -> None:
        raise AssertionError("training started")

    monkeypatch.setattr(train_bert, "train", no_training)
    (tmp_path / "file").touch()
    assert train_bert.main(["--json", str(tmp_path / "file" / "run.json")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_whole_run_keeps_its_promises(tmp_path: Path) -> None:
    figures = tmp_path / "run.json"
    command = [sys.executable, "-m", "magis.demo.train_bert", "--steps", "2", "--time-budget", "3"]
    done = subprocess.run(
        [*command, "--json", str(figures)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(figures.read_text())
    assert [one["dropout"] for one in written["runs"]] == [0.0, 0.1]
    for one in written["runs"]:
        by_name = {method["method"]: method for method in one["methods"]}
        assert list(by_name) == ["eager", "checkpointing", "accumulation", "magis"]
        magis, eager = by_name["magis"], by_name["eager"]
        assert magis["losses"] == pytest.approx(eager["losses"], rel=1e-5)
        assert magis["gradient_difference"] < 1e-4
        assert magis["report"]["met"]
        limit = 40_000_000 if one["dropout"] == 0.0 else 49_000_000
        assert one["persistent_bytes"] + limit == one["memory_limit"]
        for title in ("eager", "HF checkpointing", "accumulation (4)", "magis.optimize"):
            assert title in done.stdout
        if written["measured_by"] == "allocator hook":
            assert magis["peak_bytes"] == magis["promised_peak_bytes"] <= limit
            assert by_name["checkpointing"]["peak_bytes"] < 0.4 * eager["peak_bytes"]
