"""Hugging Face's Trainer with a planned step.

    from magis.integrations.transformers import MagisTrainer

    trainer = MagisTrainer(model, args, train_dataset=..., magis={"memory_limit": "8GiB"})
    trainer.train()

Or, for a Trainer of one's own: `class MyTrainer(PlannedSteps, Seq2SeqTrainer)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import Trainer

from magis.errors import MagisError
from magis.integrations.options import check_options

if TYPE_CHECKING:
    from magis import Step


class PlannedSteps:
    """Put before a Trainer class: forward, loss and backward of its training steps are planned.

    Everything else is the Trainer's: data, optimizer, clipping, schedules, gradient accumulation,
    evaluation, checkpoints. The loss is that of the Trainer's `compute_loss`. The plan is made at
    the first training step, and again for batches of another shape: pad to few lengths.

    magis: keyword arguments for magis.optimize. Raises MagisError for what a planned step cannot
    do: several processes or GPUs, fp16 loss scaling, torch_compile, an optimizer inside the step.
    """

    def __init__(self, *args: Any, magis: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._magis_options = dict(magis or {})
        self._magis_step: Step | None = None
        self._magis_model: nn.Module | None = None  # that it is of
        check_options(self._magis_options, "magis={...}", _OF_THE_TRAINER)

    @property
    def magis_step(self) -> Step | None:
        """The planned step, with its report; None before the first training step."""
        return self._magis_step

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        trainer: Any = self
        if model is not self._magis_model:  # the first step, or the Trainer has a new model
            self._check(trainer)
            self._magis_model, self._magis_step = model, None
        model.train()
        if hasattr(trainer.optimizer, "train") and callable(trainer.optimizer.train):
            trainer.optimizer.train()
        batch = dict(trainer._prepare_inputs(inputs))
        batch[_ITEMS] = _number(num_items_in_batch)
        batch[_MICROBATCHES] = float(trainer.current_gradient_accumulation_steps)
        if self._magis_step is None:
            self._magis_step = self._planned(model, batch)
        loss: torch.Tensor = self._magis_step(**batch)
        return loss

    def _planned(self, model: nn.Module, batch: dict[str, Any]) -> Step:
        import magis

        trainer: Any = self

        def loss_fn(model: nn.Module, **inputs: Any) -> torch.Tensor:
            items, microbatches = inputs.pop(_ITEMS), inputs.pop(_MICROBATCHES)
            with trainer.compute_loss_context_manager():
                loss: torch.Tensor = trainer.compute_loss(model, inputs, num_items_in_batch=items)
            return loss if _is_scaled(trainer, items) else loss / microbatches

        return magis.optimize(model, loss_fn, batch, **self._magis_options)

    @staticmethod
    def _check(trainer: Any) -> None:
        obstacle = None
        if trainer.accelerator.num_processes > 1 or trainer.is_fsdp_enabled:
            obstacle = f"{trainer.accelerator.distributed_type}"
        elif trainer.is_deepspeed_enabled:
            obstacle = "DeepSpeed"
        elif trainer.args.n_gpu > 1:
            obstacle = f"{trainer.args.n_gpu} GPUs in one process (set CUDA_VISIBLE_DEVICES)"
        elif trainer.accelerator.scaler is not None:
            obstacle = "fp16 with a loss scaler (bf16=True needs none)"
        elif trainer.args.torch_compile:
            obstacle = "torch_compile=True"
        if obstacle is not None:
            raise MagisError(f"a planned step cannot be trained with {obstacle} by the Trainer")


class MagisTrainer(PlannedSteps, Trainer):  # type: ignore[misc]  # Trainer has no types
    """transformers.Trainer with planned steps."""


_OF_THE_TRAINER = {
    "clip_grad_norm": "TrainingArguments(max_grad_norm=...)",
    "accumulate": "TrainingArguments(gradient_accumulation_steps=...)",
    "grad_scale": "TrainingArguments(bf16=True), which needs no scaling,",
}

# Beside the batch's own names.
_ITEMS = "magis_items_in_batch"
_MICROBATCHES = "magis_microbatches"


def _number(items: Any) -> Any:
    """Numbers that vary are floats; tensors stay as they are."""
    return float(items) if isinstance(items, int) else items


def _is_scaled(trainer: Any, items: Any) -> bool:
    """Whether the loss takes account of gradient accumulation already (as Trainer.training_step
    decides).
    """
    told = getattr(trainer, "loss_is_scaled_for_ga", None)
    if told is not None:
        return bool(told)
    by_model = trainer.model_accepts_loss_kwargs and items is not None
    return bool(by_model or trainer.compute_loss_func is not None)
