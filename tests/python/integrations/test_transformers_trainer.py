"""Hugging Face's Trainer trains with planned steps as it does without, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

from magis.errors import MagisError
from magis.integrations.transformers import MagisTrainer, PlannedSteps
from magis.measure import measure_peak

OPTIONS = {"memory_limit": 0.75, "time_budget": 1.0, "exact": True}


def network() -> Any:
    torch.manual_seed(0)
    return BertForMaskedLM(
        BertConfig(
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=128,
            vocab_size=100,
        )
    )


def samples(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)

    def tokens() -> torch.Tensor:
        return torch.randint(0, 100, (64,), generator=generator)

    return [{"input_ids": tokens(), "labels": tokens()} for _ in range(count)]


def trainer(cls: type, folder: Path, options: dict[str, Any] | None = None, **more: Any) -> Any:
    arguments: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "num_train_epochs": 1,
        "gradient_accumulation_steps": 2,
        "logging_steps": 1,
        "save_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "learning_rate": 1e-3,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    data = samples(72)  # nine batches: the last update has one alone
    extra = {"magis": options or OPTIONS} if issubclass(cls, PlannedSteps) else {}
    made = TrainingArguments(**{**arguments, **more})
    return cls(network(), made, train_dataset=data, eval_dataset=data[:8], **extra)


def outcome(trained: Any) -> dict[str, Any]:
    logged = ("loss", "eval_loss", "grad_norm", "learning_rate")
    history = [{k: v for k, v in e.items() if k in logged} for e in trained.state.log_history]
    return {"history": history, "weights": trained.model.state_dict()}


def assert_same(ours: Any, theirs: Any) -> None:
    found, expected = outcome(ours), outcome(theirs)
    assert found["history"] == expected["history"]
    for name, value in expected["weights"].items():
        assert torch.equal(found["weights"][name], value), name


@pytest.mark.parametrize(
    "more", [{}, {"bf16": True}, {"gradient_checkpointing": True}], ids=["plain", "bf16", "again"]
)
def test_training_with_evaluation(more: dict[str, Any], tmp_path: Path) -> None:
    theirs = trainer(Trainer, tmp_path / "theirs", **more)
    theirs.train()
    ours = trainer(MagisTrainer, tmp_path / "ours", **more)
    assert ours.magis_step is None
    ours.train()
    assert_same(ours, theirs)
    assert ours.magis_step.report.met


def test_resuming_from_the_others_checkpoint(tmp_path: Path) -> None:
    theirs = trainer(Trainer, tmp_path / "theirs")
    theirs.train()
    checkpoint = str(tmp_path / "theirs" / "checkpoint-2")
    ours = trainer(MagisTrainer, tmp_path / "ours")
    ours.train(resume_from_checkpoint=checkpoint)
    for name, value in theirs.model.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], value), name


def test_the_promise_is_kept(tmp_path: Path) -> None:
    ours = trainer(MagisTrainer, tmp_path)
    ours.train()
    report = ours.magis_step.report
    ours.model.zero_grad()
    batch = {name: torch.stack([s[name] for s in samples(8)]) for name in ("input_ids", "labels")}
    items = torch.tensor(512)
    ours.training_step(ours.model, dict(batch), items)
    ours.model.zero_grad()
    found = measure_peak(lambda: ours.training_step(ours.model, dict(batch), items))
    assert found.peak_bytes <= report.transient_peak_bytes
    assert report.promised_peak_bytes < 0.76 * report.baseline_peak_bytes


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    for name, words in [
        ("optimizer", r"steps the optimizer itself.* optimizer=optimizer\)"),
        ("clip_grad_norm", "max_grad_norm"),
        ("accumulate", "gradient_accumulation_steps"),
        ("grad_scale", "bf16=True"),
    ]:
        with pytest.raises(MagisError, match=words):
            trainer(MagisTrainer, tmp_path, {name: 2})
    compiled = trainer(MagisTrainer, tmp_path)
    compiled.args.torch_compile = True
    with pytest.raises(MagisError, match="torch_compile=True"):
        compiled.training_step(compiled.model, {}, None)


def test_another_model_is_planned_anew(tmp_path: Path) -> None:
    def trained(cls: type) -> Any:
        made = trainer(cls, tmp_path / cls.__name__, max_steps=2)
        made.model_init = network
        made.train()
        made.train()  # with a new model
        return made

    ours, theirs = trained(MagisTrainer), trained(Trainer)
    for name, value in theirs.model.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], value), name
