"""One model trained by several processes: what DistributedDataParallel does around a step.

Each process runs the step on its own batch, and averages gradients with the others while the
backward pass goes on (`averaging.py`). The first plan is made by one process for all, where all
have the same graph. A process that fails takes part in what the others wait for, so that they all
hear of it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms import Join
from torch.nn.parallel import DistributedDataParallel

from magis import _torch_internals as internals
from magis.errors import MagisError, ReplicaError
from magis.runtime.averaging import Averaging, shares_of, together
from magis.runtime.replica_join import Joining


class Replicas:
    """The processes that a DistributedDataParallel connects. Raises MagisError for a wrapper whose
    ways a planned step cannot follow.
    """

    def __init__(self, wrapper: DistributedDataParallel, *, averages: bool) -> None:
        """averages: the step has gradients."""
        self._wrapper = wrapper
        self._group = wrapper.process_group
        for what, way_out in internals.unlike_plain_replicas(wrapper):
            raise MagisError(
                f"the DistributedDataParallel has {what}, which a planned step would pass over: "
                f"{way_out}"
            )
        self.count = dist.get_world_size(self._group)
        self.rank = dist.get_rank(self._group)
        self.averaging: Averaging | None = None  # of the step that runs; None: it averages nothing
        self._averages = averages
        self._shares = shares_of(self.count, self._trained().values())
        self._order: list[str] = []  # in which gradients are averaged, agreed on by all
        self._told = False  # while planning: all know of a failure
        self._joining = self._new_joining()

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self._wrapper.module
        return module

    @property
    def averaged(self) -> frozenset[str]:
        """Parameters whose gradients are averaged."""
        return frozenset(self._trained())

    # ---- a step

    @contextlib.contextmanager
    def step(self, *, updates: bool) -> Iterator[None]:
        """Around a step: buffers come from the first process, unless the last step was under
        `no_sync()`; gradients are averaged in it or at its end, unless it is under `no_sync()`.

        updates: the optimizer is in the step. Raises ReplicaError, in all processes but the one
        that failed, if one did, or if one cannot be reached.
        """
        self._check_modes(updates)
        averages = self._averages and self._wrapper.require_backward_grad_sync
        if averages:
            self.averaging = self._new_averaging()
        try:
            with together(self.count, "beginning the step"):
                source = self._joining.begin(averages)
            self._broadcast_buffers(source)
            yield
            if self.averaging is not None:
                self._average_rest(self.averaging)
        except Exception as error:
            if self.averaging is not None and not _is_known(error):
                self._tell(self.averaging, error)
            raise
        finally:
            self.averaging = None

    def _tell(self, averaging: Averaging, error: Exception) -> None:
        """Ends a step that failed here for the others, who wait for gradients."""
        try:
            averaging.abandon()
            self._conclude([], error)
        except ReplicaError as lost:
            warnings.warn(f"the other processes could not be told: {lost}", stacklevel=2)

    def _check_modes(self, updates: bool) -> None:
        if internals.in_join(self._wrapper):
            raise MagisError(
                "DistributedDataParallel.join() takes part in its own all-reduces, not in those of "
                "a planned step: use step.join() in its place"
            )
        if updates and not self._wrapper.require_backward_grad_sync:
            raise MagisError(
                "under no_sync() gradients wait for a later step, but with the optimizer in the "
                "step each is used up in it: leave no_sync() out, or plan without optimizer="
            )

    def _new_averaging(self) -> Averaging:
        return Averaging(self._group, self._order, self._trained(), self._shares)

    def _broadcast_buffers(self, source: int) -> None:
        self._broadcast(internals.buffers_to_broadcast(self._wrapper), source)

    def _broadcast(self, tensors: list[torch.Tensor], source: int) -> None:
        with together(self.count, "broadcasting buffers"), torch.no_grad():
            sender = dist.get_global_rank(self._group, source)
            running = [
                dist.broadcast(tensor, src=sender, group=self._group, async_op=True)
                for tensor in tensors
            ]
            for work in running:
                work.wait()

    def _average_rest(self, averaging: Averaging) -> None:
        """Gradients that some process has and none counted on are averaged last. One that this
        process has not, and another has, comes to be.
        """
        absent = averaging.finish()
        trained = self._trained()
        present = [p.requires_grad and p.grad is not None for p in trained.values()]
        anywhere = self._conclude(present, None)
        late = []
        for (path, parameter), found in zip(trained.items(), anywhere, strict=True):
            if not found:
                continue
            if parameter.grad is None:
                zeros = torch.zeros_like(parameter, requires_grad=False)
                parameter.grad = absent.get(path, zeros)
            if path not in self._order:
                late.append(parameter.grad)
        averaging.average(late)

    def _conclude(self, present: list[bool], error: Exception | None) -> list[bool]:
        """The end of a step, for all processes: which gradients are anywhere. Raises ReplicaError
        if another process failed.
        """
        trained = list(self._trained().values())
        device = trained[0].device if trained else torch.device("cpu")
        flags = [error is not None, *(present or [False] * len(trained))]
        status = torch.tensor(flags, dtype=torch.uint8, device=device)
        with together(self.count, "ending the step"):
            dist.all_reduce(status, op=dist.ReduceOp.MAX, group=self._group)
        failed, *anywhere = status.tolist()
        if failed:
            self._exchange(None, error, "in this step; its gradients are of no use")
        return [bool(flag) for flag in anywhere]

    # ---- unequally many batches

    def join(self) -> Join:
        """Around steps of which some processes have fewer."""
        return Join([self._joining])

    def shadow(self, source: int, syncs: bool) -> None:
        """Takes part in a step of the others."""
        self._broadcast_buffers(source)
        internals.note_sync(self._wrapper, syncs)
        if not syncs:
            return
        averaging = self._new_averaging()
        averaging.abandon()
        trained = self._trained()
        anywhere = self._conclude([], None)
        late = [path for path, found in zip(trained, anywhere, strict=True) if found]
        averaging.average(
            [torch.zeros_like(trained[path]) for path in late if path not in self._order]
        )

    def end_join(self, source: int) -> None:
        """That process's model becomes everybody's, and steps are as before."""
        self._broadcast([*self.module.parameters(), *self.module.buffers()], source)
        self._joining = self._new_joining()

    def _new_joining(self) -> Joining:
        device = next((p.device for p in self.module.parameters()), torch.device("cpu"))
        return Joining(self, device, self._group)

    def _trained(self) -> dict[str, nn.Parameter]:
        """What may have gradients, in all processes alike: some may be frozen for a while, and not
        in all at a time.
        """
        ignored = internals.ignored_parameters(self._wrapper)
        return {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if name not in ignored and (parameter.is_floating_point() or parameter.is_complex())
        }

    # ---- planning

    @contextlib.contextmanager
    def planning(self, *, updates: bool) -> Iterator[list[str]]:
        """Around making the first plan: all processes succeed, or all raise. The list is for the
        parameters that have gradients, in the order in which they become final; with the optimizer
        in the step (`updates`) that has to be everybody's.
        """
        self._told = False
        order: list[str] = []
        try:
            yield order
            orders = self._exchange(order, None, "at planning the step")
        except ReplicaError:
            raise
        except Exception as error:
            if not self._told:
                self._exchange(None, error, "at planning the step")
            raise
        if updates and any(other != order for other in orders):
            raise MagisError(_unlike_updates(orders))
        agreed = dict.fromkeys(path for other in orders for path in other)
        trained = self._trained()
        self._order = [path for path in agreed if path in trained]

    def check_order(self, order: list[str]) -> None:
        """With the optimizer in the step: raises MagisError if a later plan averages otherwise."""
        if order != self._order:
            raise MagisError(
                f"{_unlike_updates([self._order, order])}. Where all processes have changed alike "
                "(frozen a layer), call magis.optimize again"
            )

    def planner(self, group: str, memory_bytes: int | None, seconds: float) -> int | None:
        """Who plans for all, the slowest of those with the lowest limit on memory: processes, which
        must all ask, that are asked for plans of one `group`, and take `seconds` without a plan.
        None if they are not asked for the same.
        """
        asked = self._exchange((group, memory_bytes, seconds), None, "at planning the step")
        if len({(other, limit is None) for other, limit, _ in asked}) > 1:
            return None
        return min(range(self.count), key=lambda rank: (asked[rank][1] or 0, -asked[rank][2]))

    def made_by(self, planner: int, make: Callable[[], str]) -> str:
        """What `make` gives that process, in all of them. Its error is everybody's."""
        box: list[Any] = [None, None]
        error: Exception | None = None
        if self.rank == planner:
            try:
                box[0] = make()
            except Exception as failed:
                error = failed
                box[1] = _words(failed)
        with together(self.count, "planning the step"):
            source = dist.get_global_rank(self._group, planner)
            dist.broadcast_object_list(box, src=source, group=self._group)
        if error is not None:
            self._told = True
            raise error
        if box[1] is not None:
            raise ReplicaError(f"process {planner} failed at planning the step: {box[1]}")
        made: str = box[0]
        return made

    def _exchange(self, mine: Any, error: Exception | None, when: str) -> list[Any]:
        """What every process has. Raises ReplicaError in all that have no error if another has."""
        found: list[Any] = [None] * self.count
        with together(self.count, "exchanging what they plan or how they failed"):
            words = None if error is None else _words(error)
            dist.all_gather_object(found, (mine, words), group=self._group)
        for rank, (_, words) in enumerate(found):
            if error is None and words is not None:
                raise ReplicaError(f"process {rank} failed {when}: {words}")
        return [value for value, _ in found]


def unwrapped(model: nn.Module, *, averages: bool) -> tuple[nn.Module, Replicas | None]:
    """The model that is to be planned, and the processes that train it together, if several do.
    averages: the step has gradients.
    """
    if not isinstance(model, DistributedDataParallel):
        return model, None
    replicas = Replicas(model, averages=averages)
    return replicas.module, replicas


def planning_together(
    replicas: Replicas | None, *, updates: bool
) -> contextlib.AbstractContextManager[list[str]]:
    """As `Replicas.planning`, where there are several processes."""
    return contextlib.nullcontext([]) if replicas is None else replicas.planning(updates=updates)


def _is_known(error: BaseException | None) -> bool:
    """Whether the error is about other processes, which then fail too."""
    return isinstance(error, ReplicaError) or (
        error is not None and isinstance(error.__cause__, ReplicaError)
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _unlike_updates(orders: list[list[str]]) -> str:
    everywhere = set.intersection(*map(set, orders))
    some = [path for order in orders for path in order if path not in everywhere]
    which = f"{some[0]} has one in some only" if some else "they come in another order"
    return (
        "with the optimizer in the step all processes must have the same gradients, and here "
        f"{which}: leave optimizer= out, and call optimizer.step() after the step"
    )
