"""Where an operator comes from: the module that ran it and the line of the user's code.

The recorder is a dispatch mode above the tracer. After each operator it stamps the nodes that the
tracer has added. A backward operator gets the site of its forward operator, found by autograd's
sequence number.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture import operators
from magis.capture.fakes import TrueFakeTensorMode
from magis.capture.ir import Site
from magis.capture.reads import Reader, is_mask, shaped_by_data
from magis.capture.written_layouts import lay_out_written
from magis.errors import CaptureError
from magis.functional_forms import run_functionally, writes_unseen, written

_aten = torch.ops.aten
STAMP = "magis_site"
NOWHERE = Site("", "")

_TORCH = os.path.dirname(torch.__file__) + os.sep
_MAGIS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_COMMAND_LINE = os.path.join(_MAGIS, "cli") + os.sep  # what calls it is nothing of the user's
_ZOO = os.path.join(_MAGIS, "zoo") + os.sep  # its models are shown like a user's own
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = tuple(
    {sysconfig.get_paths()["purelib"] + os.sep, sysconfig.get_paths()["platlib"] + os.sep}
)

# Checks of data that return nothing; a captured step computes what it computes without asking.
CHECKS = frozenset(
    {
        _aten._assert_async.default,
        _aten._assert_async.msg,
        _aten._linalg_check_errors.default,
    }
)

_WRITES_THROUGH_INDEX = frozenset(
    {
        _aten.index_put.default,
        _aten.index_put_.default,
        _aten._index_put_impl_.default,
        _aten._unsafe_index_put.default,
    }
)
_INDEXING = frozenset(
    {
        _aten.index.Tensor,
        _aten._unsafe_index.Tensor,
        *_WRITES_THROUGH_INDEX,
    }
)


class ModulePaths:
    """The dotted path of each module of a model; a module that is registered twice keeps its first
    path.
    """

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}

    def get(self, module: object) -> str | None:
        return self._paths.get(id(module))


class SiteRecorder(internals.TorchDispatchMode):  # type: ignore[misc]
    """Stamps traced nodes with (site, is backward), and turns away what cannot be traced
    faithfully.
    """

    def __init__(self, paths: ModulePaths, reader: Reader, fake_mode: TrueFakeTensorMode) -> None:
        super().__init__()
        self.reader = reader
        self._fake_mode = fake_mode
        self.backward = False
        self.outside: dict[int, torch.Tensor] = {}  # real tensors that operators read, by id
        # Called with the path of each module whose forward has ended.
        self.on_leave: Callable[[str], None] = lambda _path: None
        self._paths = paths
        self._modules: list[str] = []
        self._positions: dict[torch.fx.Node, torch.Tensor] = {}  # of a mask's true elements
        # Of forward operators, by the sequence number of their autograd node.
        self._site_of: dict[int, Site] = {}

    @contextlib.contextmanager
    def following_modules(self) -> Iterator[None]:
        """Keeps track of the module that runs."""

        def enter(module: nn.Module, _args: object) -> None:
            inherited = self._modules[-1] if self._modules else ""
            path = self._paths.get(module)
            self._modules.append(inherited if path is None else path)

        def leave(_module: nn.Module, _args: object, _result: object) -> None:
            if self._modules:
                self.on_leave(self._modules[-1])
                self._modules.pop()

        hooks = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func.namespace == "prim":  # questions about a tensor, such as for its device
            return func(*args, **kwargs)
        if func in CHECKS:
            return None
        site = self.site_here()
        for tensor in _outside_tensors(args, kwargs):
            self.outside[id(tensor)] = tensor
            is_written = any(tensor is target for target in written(func, args, kwargs))
            _check_outside_tensor(tensor, is_written, site)
        if func is _aten._local_scalar_dense.default:
            return self.reader.number(args[0], site)
        if func is _aten.equal.default:
            return self._equal(args[0], args[1], site)
        if func in _WRITES_THROUGH_INDEX and _is_masked_fill(*args[1:]):
            result = _fill_masked(func, *args[:3])
            self._stamp(site)
            return result
        if func in _INDEXING and any(map(is_mask, args[1])):
            args = (args[0], self._without_masks(args[1], site), *args[2:])
        lay_out_written(func, _tensors(args, kwargs))
        if func is _aten.bernoulli_.float:
            result = _bernoulli_in_memory_order(site, *args, **kwargs)
        elif func is _aten.mkldnn_rnn_layer.default:
            result = operators.rnn_layer(*args, **kwargs)
        elif writes_unseen(func):
            result = run_functionally(func, args, kwargs, place(site))
        elif shaped_by_data(func, kwargs):
            result = self._shaped_by_data(func, args, kwargs, site)
        else:
            result = func(*args, **kwargs)
        self._stamp(site)
        return result

    def _equal(self, a: torch.Tensor, b: torch.Tensor, site: Site) -> bool:
        """torch.equal, which returns a Python truth value."""
        if a.shape != b.shape:
            return False
        all_equal = _aten.all.default(_aten.eq.Tensor(a, b))
        self._stamp(site)
        return bool(self.reader.number(all_equal, site))

    def _without_masks(
        self, indices: Sequence[torch.Tensor | None], site: Site
    ) -> list[torch.Tensor | None]:
        """Indices with the positions of true elements in place of masks, as kernels do it."""
        plain: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or not is_mask(index):
                plain.append(index)
                continue
            node = internals.traced_node(index)
            found = None if node is None else self._positions.get(node)
            if found is None:
                found = self._shaped_by_data(_aten.nonzero.default, (index,), {}, site)
                if node is not None:
                    self._positions[node] = found
            plain += [_aten.select.int(found, 1, dim) for dim in range(index.dim())]
        return plain

    def _shaped_by_data(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], site: Site
    ) -> Any:
        self._fake_mode.promised = self.reader.shapes(func, args, kwargs, site)
        try:
            result = func(*args, **kwargs)
        finally:
            self._fake_mode.promised = None
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            self.reader.guard_shape(tensor, site)
        return result

    def site_here(self) -> Site:
        """Of the operator that runs, or of the code that asks."""
        node = internals.current_autograd_node()
        if node is not None:
            site = self._site_of.get(internals.node_sequence_number(node), NOWHERE)
        elif self.backward:
            return NOWHERE
        else:
            module = self._modules[-1] if self._modules else ""
            site = Site(module, source_of(sys._getframe(2)))
        # The first operator seen after a node was made is the one that it differentiates.
        self._site_of.setdefault(internals.forward_sequence_number(), site)
        return site

    def _stamp(self, site: Site) -> None:
        for node in reversed(internals.traced_graph().nodes):
            if STAMP in node.meta or node.op == "placeholder":
                break
            node.meta[STAMP] = (site, self.backward)


def source_of(frame: FrameType | None) -> str:
    """ "file.py:12" of the innermost frame that belongs neither to PyTorch, magis nor the standard
    library.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_COMMAND_LINE):
        if is_user_file(frame.f_code.co_filename):
            return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_user_files: dict[str, bool] = {}


def is_user_file(path: str) -> bool:
    known = _user_files.get(path)
    if known is None:
        installed = path.startswith(_INSTALLED)
        known = path.startswith(_ZOO) or not (
            path.startswith((_TORCH, _MAGIS, "<frozen"))
            or (path.startswith(_STANDARD_LIBRARY) and not installed)
        )
        _user_files[path] = known
    return known


def short_path(path: str) -> str:
    """Relative to site-packages or the working directory; else the file's name."""
    for root in (*_INSTALLED, os.getcwd() + os.sep):
        if path.startswith(root):
            return path[len(root) :]
    return os.path.basename(path)


def _bernoulli_in_memory_order(
    site: Site,
    target: torch.Tensor,
    p: float = 0.5,
    *,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    if generator is not None:
        raise CaptureError(
            f"{place(site)}: draws from a generator of its own; use the default generator"
        )
    device: dict[str, Any] = {} if target.device.type == "cpu" else {"device": target.device}
    drawn = operators.bernoulli(
        list(target.shape), list(target.stride()), p, dtype=target.dtype, **device
    )
    result: torch.Tensor = _aten.copy_.default(target, drawn)
    return result


def _is_masked_fill(
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    _unsafe: bool = False,
) -> bool:
    """Whether `x[mask] = number`, for which the positions do not matter."""
    return len(indices) == 1 and is_mask(indices[0]) and values.numel() == 1 and not accumulate


def _fill_masked(
    func: OpOverload,
    target: torch.Tensor,
    indices: Sequence[torch.Tensor],
    values: torch.Tensor,
) -> torch.Tensor:
    mask = indices[0]
    if mask.dtype is not torch.bool:
        mask = _aten.ne.Scalar(mask, 0)
    for _ in range(target.dim() - mask.dim()):
        mask = _aten.unsqueeze.default(mask, -1)
    filled = _aten.where.self(mask, _aten.reshape.default(values, []), target)
    result: torch.Tensor = filled
    if func._schema.is_mutable:
        result = _aten.copy_.default(target, filled)
    return result


def _outside_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Real tensors that the step closes over, among an operator's arguments."""
    for tensor in _tensors(args, kwargs):
        if not isinstance(tensor, internals.FunctionalTensor):
            yield tensor


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def _check_outside_tensor(tensor: torch.Tensor, written: bool, site: Site) -> None:
    """They become constants of the graph, which some must not."""
    what = f"a tensor {tuple(tensor.shape)} that is neither a parameter, a buffer nor in the batch"
    if tensor.requires_grad:
        raise CaptureError(
            f"{place(site)}: the step uses {what}, yet it requires a gradient. Make it a parameter"
            " of the model that you pass (wrap several modules in one)."
        )
    if written:
        raise CaptureError(
            f"{place(site)}: the step writes in place to {what}. Register it with register_buffer."
        )


def place(site: Site) -> str:
    """For messages: module 'encoder.layer.0' (net.py:12)."""
    module = f"module {site.module!r}" if site.module else "the step"
    return f"{module} ({site.source})" if site.source else module
