"""Tensors in the text language's terms: dtypes, recorded types, constants."""

from __future__ import annotations

import base64

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.document import Input, Type

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}


def constant(declared: Input) -> Tensor:
    """The tensor whose data a `const` holds."""
    recorded = declared.type
    if recorded is None:
        raise PlanError(f"line {declared.line}: const %{declared.name} has no type")
    try:
        data = bytearray(base64.b64decode(declared.path, validate=True))
    except ValueError as error:
        raise PlanError(f"line {declared.line}: const %{declared.name}: {error}") from None
    dtype = DTYPES[recorded.dtype]
    elements = torch.Size(recorded.shape).numel()
    if len(data) != elements * dtype.itemsize:
        message = f"holds {len(data)} bytes, its type {recorded} needs {elements * dtype.itemsize}"
        raise PlanError(f"line {declared.line}: const %{declared.name} {message}")
    result = torch.empty_strided(recorded.shape, recorded.strides, dtype=dtype)
    if elements:
        result.copy_(torch.frombuffer(data, dtype=dtype).view(recorded.shape))
    return result


def describe(value: Tensor) -> Type:
    """A tensor's type in the text language's terms."""
    word = next(word for word, dtype in DTYPES.items() if dtype == value.dtype)
    storage = value.untyped_storage().nbytes()
    return Type(word, tuple(value.shape), tuple(value.stride()), value.storage_offset(), storage)


def check_type(value: Tensor, recorded: Type, where: str, *, layout: bool) -> None:
    """Raises PlanError unless dtype and shape (with `layout`: strides and offset too) are as
    recorded."""
    actual = describe(value)
    same = (actual.dtype, actual.shape) == (recorded.dtype, recorded.shape)
    if same and layout and 0 not in recorded.shape:
        same = (actual.strides, actual.offset) == (recorded.strides, recorded.offset)
    if not same:
        raise PlanError(f"{where} is recorded as {recorded}, it is {actual}")
