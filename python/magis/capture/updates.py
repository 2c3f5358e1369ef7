"""Puts an optimizer's updates into a captured step: what `optimizer.step()` would have done after
`backward()`, operator by operator in its order, in place of the gradients that the step returns.

Parameters and state are written in place. The core lets a write wait for everything that reads the
old value, and a gradient dies with its last reader.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from magis._torch_internals import OpOverload
from magis.capture.builder import Builder
from magis.capture.ir import Output, Site, Value
from magis.capture.operators import begin_average, end_average
from magis.capture.optimizers import OptimizerForm, OptimizerView, Update, setting, step_of
from magis.errors import CaptureError

_aten = torch.ops.aten

# Bytes of gradients whose averaging has begun when the one before them is waited for.
_BEGUN_LATER = 1 << 20


def add_updates(builder: Builder, view: OptimizerView) -> tuple[OptimizerForm, tuple[str, ...]]:
    """Replaces gradients among the graph's outputs by updates of their parameters, and lists what
    is written: `output param`, `output state` name inputs then. Returns what it took for granted,
    and whose gradients are averaged over several processes before, in that order.
    """
    updates = Updates(builder, view)
    updates.add()
    return updates.form, tuple(updates.averaged)


class Updates:
    def __init__(self, builder: Builder, view: OptimizerView) -> None:
        self.builder = builder
        self.graph = builder.graph
        self.view = view
        self.form = view.form({o.path for o in self.graph.outputs if o.kind == "grad"})
        self.inputs = {item.path: item.value for item in self.graph.inputs if item.kind == "param"}
        self.scalars: dict[str, Value] = {}
        self.averaged: list[str] = []

    def add(self) -> None:
        self._refuse_double_writes()
        gradients = {o.path: o.value for o in self.graph.outputs if o.kind == "grad"}
        mine = self.form.updates
        updated = {update.path for update in mine}
        with self.builder.at(Site("", "DistributedDataParallel"), True):
            gradients |= self._averages({u.path: gradients[u.path] for u in mine})
        if self.form.clip_grad_norm is not None and mine:
            with self.builder.at(Site("", "clip_grad_norm"), True):
                gradients |= self._clipped({u.path: gradients[u.path] for u in mine})
        self.graph.outputs = [
            o for o in self.graph.outputs if o.kind != "grad" or o.path not in updated
        ]
        for update in mine:
            site = Site(update.path.rpartition(".")[0], f"optimizer {self.form.name}")
            with self.builder.at(site, True):
                self._update(update, gradients[update.path])

    def _refuse_double_writes(self) -> None:
        updated = {update.path for update in self.form.updates}
        for output in self.graph.outputs:
            source = output.value.root.input
            if output.kind in ("loss", "aux") and source is not None and source.path in updated:
                raise CaptureError(
                    f"the step returns the parameter {source.path} itself, which the optimizer"
                    " updates before that comes back: return a copy of it (.clone())"
                )
            if output.kind == "param" and output.path in updated:
                raise CaptureError(
                    f"the step itself writes to the parameter {output.path}, which the optimizer"
                    " updates as well. Leave it out of the optimizer, or the optimizer out of"
                    " the step."
                )

    # ---- the language of updates

    def _scalar(self, name: str, expression: str) -> Value:
        """A runtime scalar: an input, one for each expression. `name` is for the reader."""
        if expression not in self.scalars:
            self.scalars[expression] = self.builder.input("scalar", expression, name, None)
        return self.scalars[expression]

    def _write(self, operator: OpOverload, target: Value, *args: object, **kwargs: object) -> None:
        self.builder.run(operator, (target, *args), dict(kwargs), [None])

    def _state(self, update: Update, name: str) -> Value:
        path = f"{update.path}.{name}"
        fake = self.builder.fake_like(self.view.state(update.path, name))
        value = self.builder.input("state", path, path, fake)
        self.graph.outputs.append(Output("state", path, value))
        return value

    # ---- rules, as torch.optim's loops over single tensors have them

    def _update(self, update: Update, gradient: Value) -> None:
        group = self.form.groups[update.group]
        parameter = self.inputs[update.path]
        self.graph.outputs.append(Output("param", update.path, parameter))
        if group.fused:
            self._fused(update, parameter, gradient)
            return
        if group.decay == "coupled":
            decay = self._scalar("weight_decay", setting(update.group, "weight_decay"))
            gradient = self.builder.run_one(
                _aten.add.Tensor, (gradient, parameter), {"alpha": decay}
            )
        if group.rule == "sgd":
            self._sgd(update, parameter, gradient)
        else:
            self._adam(update, parameter, gradient)

    def _sgd(self, update: Update, parameter: Value, gradient: Value) -> None:
        group = self.form.groups[update.group]
        if group.momentum:
            momentum = self._scalar("momentum", setting(update.group, "momentum"))
            buffer = self._state(update, "momentum_buffer")
            self._write(_aten.mul_.Tensor, buffer, momentum)
            self._write(_aten.add_.Tensor, buffer, gradient)
            if group.nesterov:
                gradient = self.builder.run_one(
                    _aten.add.Tensor, (gradient, buffer), {"alpha": momentum}
                )
            else:
                gradient = buffer
        rate = self._scalar("minus_lr", f"neg({setting(update.group, 'lr')})")
        self._write(_aten.add_.Tensor, parameter, gradient, alpha=rate)

    def _adam(self, update: Update, parameter: Value, gradient: Value) -> None:
        rate, decay, epsilon, beta1, beta2 = (
            setting(update.group, name) for name in ("lr", "weight_decay", "eps", "beta1", "beta2")
        )
        step = step_of(update.cohort)
        if self.form.groups[update.group].decay == "decoupled":
            kept = self._scalar("decay", f"sub(1.0, mul({rate}, {decay}))")
            self._write(_aten.mul_.Tensor, parameter, kept)
        mean, square = self._state(update, "exp_avg"), self._state(update, "exp_avg_sq")
        to_mean = self._scalar("one_minus_beta1", f"sub(1.0, {beta1})")
        self._write(_aten.lerp_.Scalar, mean, gradient, to_mean)
        self._write(_aten.mul_.Tensor, square, self._scalar("beta2", beta2))
        to_square = self._scalar("one_minus_beta2", f"sub(1.0, {beta2})")
        self._write(_aten.addcmul_.default, square, gradient, gradient, value=to_square)
        correction = self._scalar("correction2", f"pow(sub(1.0, pow({beta2}, {step})), 0.5)")
        size = self._scalar("minus_size", f"neg(truediv({rate}, sub(1.0, pow({beta1}, {step}))))")
        root = self.builder.run_one(_aten.sqrt.default, (square,))
        scaled = self.builder.run_one(_aten.div.Scalar, (root, correction))
        bounded = self.builder.run_one(_aten.add.Scalar, (scaled, self._scalar("eps", epsilon)))
        self._write(_aten.addcdiv_.default, parameter, mean, bounded, value=size)

    def _fused(self, update: Update, parameter: Value, gradient: Value) -> None:
        """By PyTorch's kernels that update lists of parameters: lists of one, so that each gradient
        is used where it is complete.
        """
        group = self.form.groups[update.group]

        def scalars(*names: str) -> dict[str, Value]:
            return {name: self._scalar(name, setting(update.group, name)) for name in names}

        if group.rule == "sgd":
            buffers = [self._state(update, name) for name in group.state]
            flags = {"nesterov": group.nesterov, "maximize": False, "is_first_step": False}
            numbers = scalars("weight_decay", "momentum", "lr")
            self.builder.run(
                _aten._fused_sgd_.default,
                ([parameter], [gradient], buffers),
                {**numbers, "dampening": 0.0, **flags},
                [None],
            )
            return
        step = self._state(update, "step")
        self._write(_aten.add_.Scalar, step, 1)
        mean, square = (self._state(update, name) for name in group.state)
        decoupled = group.decay == "decoupled"
        self.builder.run(
            _aten._fused_adamw_.default if decoupled else _aten._fused_adam_.default,
            ([parameter], [gradient], [mean], [square], [], [step]),
            {
                **scalars("lr", "beta1", "beta2", "weight_decay", "eps"),
                "amsgrad": False,
                "maximize": False,
            },
            [None],
        )

    def _averages(self, gradients: dict[str, Value]) -> dict[str, Value]:
        """Over all processes, where several train the model. Averaging begins as soon as a gradient
        is complete, in the order of the backward pass, and is waited for when others of some size
        have begun after it: so it goes on beside the backward pass, and few gradients are there at
        a time.
        """
        made = {
            result: number
            for number, statement in enumerate(self.graph.statements)
            for result in statement.results
        }
        self.averaged = [path for path in gradients if path in self.view.averaged]
        self.averaged.sort(key=lambda path: made[gradients[path].root])
        begun: dict[str, Value] = {}  # not waited for yet
        averages: dict[str, Value] = {}
        for path in self.averaged:
            begun[path] = self.builder.run_one(begin_average, (gradients[path],))
            later = sum(map(_bytes, begun.values()))
            for first, value in list(begun.items()):
                later -= _bytes(value)
                if later < _BEGUN_LATER and path != self.averaged[-1]:
                    break
                others = [] if first == path else [begun[path]]
                averages[first] = self.builder.run_one(end_average, (value, others))
                del begun[first]
        return averages

    def _clipped(self, gradients: dict[str, Value]) -> dict[str, Value]:
        """Scaled as torch.nn.utils.clip_grad_norm_ scales them: all at once, so that every gradient
        is there until the norm of all is known.
        """
        norms = [self._norm(gradient) for gradient in _by_dtype(gradients.values())]
        stacked = self.builder.run_one(_aten.stack.default, (norms,))
        total = self._norm(stacked)
        padded = self.builder.run_one(_aten.add.Scalar, (total, 1e-6))
        inverse = self.builder.run_one(_aten.reciprocal.default, (padded,))
        wanted = self.builder.run_one(_aten.mul.Scalar, (inverse, self.form.clip_grad_norm))
        factor = self.builder.run_one(_aten.clamp.default, (wanted, None, 1.0))
        return {
            path: self.builder.run_one(_aten.mul.Tensor, (gradient, factor))
            for path, gradient in gradients.items()
        }

    def _norm(self, value: Value) -> Value:
        return self.builder.run_one(_aten.linalg_vector_norm.default, (value,))


def _bytes(value: Value) -> int:
    assert value.fake is not None
    return int(value.fake.numel() * value.fake.dtype.itemsize)


def _by_dtype(values: Iterable[Value]) -> list[Value]:
    """Those of one dtype together, in the order in which dtypes first appear."""
    groups: dict[torch.dtype, list[Value]] = {}
    for value in values:
        assert value.fake is not None
        groups.setdefault(value.fake.dtype, []).append(value)
    return [value for group in groups.values() for value in group]
