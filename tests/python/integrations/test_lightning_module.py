"""Lightning trains a planned module as it trains a plain one."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from magis.errors import CaptureError, MagisError
from magis.integrations.lightning import PlannedModule

warnings.filterwarnings("ignore", module="lightning")


class Layers(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.1), nn.BatchNorm1d(64), nn.Linear(64, 4)
        )

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class Plain(Layers):
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss


class Planned(Layers, PlannedModule):
    magis_options: ClassVar = {"latency_limit": 1.2, "time_budget": 0.2, "exact": True}

    loss = Layers.loss


def trained(module: LightningModule, folder: Path, epochs: int, **options: Any) -> Trainer:
    torch.manual_seed(1)
    x, y = torch.randn(80, 8), torch.randint(0, 4, (80,))
    data = DataLoader(TensorDataset(x, y), batch_size=16)
    resumed = options.pop("resume", None)
    made = Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )
    torch.manual_seed(2)
    made.fit(module, data, data, ckpt_path=resumed)
    return made


def assert_same(ours: LightningModule, theirs: LightningModule) -> None:
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate_grad_batches": 2},
        {"gradient_clip_val": 0.1},
        {"precision": "bf16-mixed"},
    ],
    ids=str,
)
def test_training_is_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs = Planned(), Plain()
    found = trained(ours, tmp_path / "ours", 2, **options)
    expected = trained(theirs, tmp_path / "theirs", 2, **options)
    assert_same(ours, theirs)
    assert found.callback_metrics.keys() == expected.callback_metrics.keys()
    for name, value in expected.callback_metrics.items():
        assert torch.equal(found.callback_metrics[name], value), name
    assert ours.magis_step is not None
    assert ours.magis_step.report.met


@pytest.mark.filterwarnings("ignore")
def test_resuming_from_the_others_checkpoint(tmp_path: Path) -> None:
    half, whole, ours = Plain(), Plain(), Planned()
    checkpoint = tmp_path / "half.ckpt"
    trained(half, tmp_path / "half", 1).save_checkpoint(checkpoint)
    trained(whole, tmp_path / "whole", 2, resume=str(checkpoint))
    trained(ours, tmp_path / "ours", 2, resume=str(checkpoint))
    assert_same(ours, whole)


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    class Manual(Planned):
        automatic_optimization = False

    with pytest.raises(MagisError, match="in manual optimization"):
        trained(Manual(), tmp_path, 1)

    for name, words in [
        ("optimizer", r"steps the optimizer itself.*leave optimizer out of magis_options"),
        ("clip_grad_norm", "gradient_clip_val"),
        ("accumulate", "accumulate_grad_batches"),
        ("grad_scale", "bf16-mixed"),
    ]:
        wrong = type("Wrong", (Planned,), {"magis_options": {name: 2}})
        with pytest.raises(MagisError, match=words):
            trained(wrong(), tmp_path, 1)

    class Without(PlannedModule):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

    with pytest.raises(CaptureError, match="needs a method loss"):
        trained(Without(), tmp_path, 1)


@pytest.mark.filterwarnings("ignore")
def test_hooks_of_the_module_and_copies(tmp_path: Path) -> None:
    class Hooked(Planned):
        def on_before_optimizer_step(self, optimizer: Any) -> None:
            pass  # without super(), as is usual

    ours, theirs = Hooked(), Plain()
    trained(ours, tmp_path / "ours", 2)
    trained(theirs, tmp_path / "theirs", 2)
    assert_same(ours, theirs)
    copied = copy.deepcopy(ours)
    assert copied.magis_step is None
    assert ours.magis_step is not None
