"""LightningModules with a planned step.

from magis.integrations.lightning import PlannedModule

class Network(PlannedModule):
    magis_options = {"memory_limit": "8GiB"}

    def loss(self, batch):
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from lightning.pytorch import LightningModule

from magis.errors import MagisError
from magis.integrations.options import check_options

if TYPE_CHECKING:
    from magis import Step

_OF_THE_TRAINER = {
    "clip_grad_norm": "Trainer(gradient_clip_val=...)",
    "accumulate": "Trainer(accumulate_grad_batches=...)",
    "grad_scale": 'Trainer(precision="bf16-mixed"), which needs no scaling,',
}


class PlannedModule(LightningModule):
    """A LightningModule whose training step is planned: write `loss(batch)` in place of
    `training_step`.

    The rest is Lightning's, in automatic optimization: optimizers, schedules, clipping, gradient
    accumulation, evaluation, checkpoints. `loss` must not log; the loss itself is logged as
    "train_loss", and `on_train_batch_end` sees it. The plan is made at the first training step, and
    again for batches of another shape.
    """

    magis_options: ClassVar[Mapping[str, Any]] = {}
    """Keyword arguments for magis.optimize: not those that say what the trainer does itself."""

    _magis_step: Step | None = None

    @property
    def magis_step(self) -> Step | None:
        """The planned step, with its report; None before the first training step."""
        return self._magis_step

    def loss(self, batch: Any) -> torch.Tensor:
        """The loss of a batch: a scalar."""
        raise NotImplementedError("a PlannedModule needs a method loss(batch)")

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self._magis_step is None:
            self._magis_step = self._planned(batch)
        microbatches = float(self.trainer.accumulate_grad_batches)
        if batch_idx % self.trainer.accumulate_grad_batches == 0:  # as Lightning decides it
            self.zero_grad()
        _, loss = self._magis_step(batch, microbatches)
        self.log("train_loss", loss)
        found: torch.Tensor = loss
        return found

    def _planned(self, batch: Any) -> Step:
        import magis

        trainer = self.trainer
        check_options(self.magis_options, "magis_options", _OF_THE_TRAINER)
        if trainer.world_size > 1:
            raise MagisError("a planned step cannot be trained by several processes of Lightning")
        if getattr(trainer.precision_plugin, "scaler", None) is not None:
            raise MagisError(
                "a planned step cannot be trained in 16-mixed precision, which scales the loss; "
                "bf16-mixed needs no scaling"
            )
        if not self.automatic_optimization:
            raise MagisError("in manual optimization call magis.optimize yourself")

        def loss_fn(
            module: PlannedModule, batch: Any, microbatches: float
        ) -> tuple[torch.Tensor, torch.Tensor]:
            with trainer.precision_plugin.train_step_context():
                loss = module.loss(batch)
            return loss / microbatches, loss

        example = (batch, float(trainer.accumulate_grad_batches))
        return magis.optimize(self, loss_fn, example, **self.magis_options)

    # ---- what the step has done already

    def backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """Nothing: gradients came with the loss."""

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        """Nothing here, between loss and backward: it would take the gradients away."""

    def __getstate__(self) -> dict[str, Any]:
        """For copies: each plans its own step."""
        return {**self.__dict__, "_magis_step": None}
