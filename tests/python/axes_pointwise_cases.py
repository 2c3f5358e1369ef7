"""Calls of elementwise operators, made from their schemas."""

from __future__ import annotations

from collections.abc import Callable

import torch
from axes_support import Case
from torch import Tensor

SHAPE = (3, 4, 5)
# What the operands' shapes are in turn: alike, broadcast, of fewer dimensions.
SHAPES = [[SHAPE], [SHAPE, (4, 1)], [(1, 4, 1), SHAPE, (5,)], [SHAPE, ()]]


def words(text: str) -> list[str]:
    return text.split()


FLOATS = words(
    """
add.Tensor mul.Tensor add.Scalar sub.Tensor sub.Scalar div.Tensor div.Scalar remainder.Scalar
remainder.Tensor fmod.Scalar fmod.Tensor addcmul addcdiv lerp.Scalar lerp.Tensor xlogy.Tensor atan2
hypot copysign.Tensor nextafter abs neg reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log10
log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh erf erfc erfinv floor ceil trunc frac
round sign sgn sinc lgamma digamma nan_to_num conj_physical clamp_min clamp_min.Tensor clamp_max
clamp_max.Tensor mul.Scalar pow.Tensor_Scalar floor_divide pow.Tensor_Tensor maximum minimum fmax
fmin logaddexp logaddexp2 rsub.Tensor rsub.Scalar pow.Scalar remainder.Scalar_Tensor
xlogy.Scalar_Self xlogy.Scalar_Other copysign.Scalar heaviside ldexp.Tensor signbit angle complex
polar i0 special_i0e special_i1 special_i1e special_erfcx special_log_ndtr special_ndtri
special_entr special_xlog1py special_zeta igamma igammac deg2rad rad2deg
relu gelu silu mish sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu logit
gelu_backward silu_backward sigmoid_backward tanh_backward
hardsigmoid_backward softshrink_backward hardshrink_backward logit_backward softplus
softshrink hardshrink mish_backward hardswish_backward celu selu relu6
threshold_backward eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor eq.Scalar ne.Scalar
lt.Scalar le.Scalar gt.Scalar ge.Scalar logical_and logical_or logical_xor logical_not isnan isinf
isfinite isposinf isneginf isclose
"""
)

INTEGERS = words(
    """
bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor bitwise_and.Scalar bitwise_or.Scalar
bitwise_xor.Scalar bitwise_not bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar
bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar __lshift__.Scalar __rshift__.Scalar
__and__.Tensor __or__.Tensor bitwise_and.Scalar_Tensor bitwise_or.Scalar_Tensor
bitwise_xor.Scalar_Tensor
"""
)

# Operands of one shape, or the kernel refuses.
ALIKE = {"gelu_backward", "silu_backward", "mish_backward", "hardswish_backward"}

generator = torch.Generator().manual_seed(11)


def floats(*shape: int) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25


def signed(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def integers(*shape: int, end: int = 5) -> Tensor:
    return torch.randint(0, end, shape, generator=generator)


def call_from_schema(name: str, shapes: list[tuple[int, ...]], make: Callable[..., Tensor]) -> Case:
    operator, *overload = name.split(".")
    packet = getattr(torch.ops.aten, operator)
    schema = getattr(packet, overload[0] if overload else "default")._schema
    args: list[object] = []
    tensors = 0
    for argument in schema.arguments:
        if argument.kwarg_only or argument.has_default_value():
            break
        kind = str(argument.type)
        if kind == "Tensor":
            args.append(make(*shapes[tensors % len(shapes)]))
            tensors += 1
        else:
            args.append(2 if make is integers else 0.3)
    return Case(f"aten.{name}", args)


def from_schemas() -> list[Case]:
    cases = []
    for names, make in ((FLOATS, signed), (INTEGERS, integers)):
        for name in names:
            shapes = SHAPES[:1] if name in ALIKE or name.endswith("_backward") else SHAPES
            operands = len(
                [a for a in call_from_schema(name, SHAPES[0], make).args if isinstance(a, Tensor)]
            )
            for choice in shapes if operands > 1 else SHAPES[:1]:
                cases.append(call_from_schema(name, choice, make))
    return cases


def written_out() -> list[Case]:
    a, b, c = signed(*SHAPE), signed(*SHAPE), floats(*SHAPE)
    calls: list[tuple[str, list[object], dict[str, object]]] = [
        ("div.Tensor_mode", [a, c], {"rounding_mode": "floor"}),
        ("div.Scalar_mode", [a, 0.3], {"rounding_mode": "trunc"}),
        ("round.decimals", [a], {"decimals": 2}),
        ("clamp", [a, -0.5, 0.5], {}),
        ("clamp.Tensor", [a, signed(4, 1), floats(5)], {}),
        ("polygamma", [1, c], {}),
        ("threshold", [a, 0.1, 0.2], {}),
        ("hardtanh_backward", [a, b, -0.5, 0.5], {}),
        ("leaky_relu_backward", [a, b, 0.1, False], {}),
        ("elu_backward", [a, 1.0, 1.0, 1.0, False, b], {}),
        ("softplus_backward", [a, b, 1.0, 20.0], {}),
        ("rrelu_with_noise_backward", [a, b, c, 0.1, 0.3, True, False], {}),
        ("_prelu_kernel", [a, signed(1, 4, 1)], {}),
        ("_prelu_kernel_backward", [a, b, signed(1, 4, 1)], {}),
        ("log_sigmoid_forward", [a], {}),
        ("log_sigmoid_backward", [a, b, c], {}),
        ("masked_fill.Scalar", [a, signed(4, 1) > 0, 2.0], {}),
        ("masked_fill.Tensor", [a, b > 0, torch.tensor(2.0, dtype=torch.float64)], {}),
        ("where.self", [signed(4, 1) > 0, a, signed(5)], {}),
        ("where.ScalarSelf", [a > 0, 1.0, b], {}),
        ("where.ScalarOther", [a > 0, b, 1.0], {}),
        ("where.Scalar", [a > 0, 1.0, 2.0], {}),
        ("isin.Tensor_Scalar", [integers(*SHAPE), 3], {}),
        ("clone", [a], {}),
        ("_to_copy", [a], {"dtype": torch.float32}),
        ("lift_fresh_copy", [a], {}),
        ("alias_copy", [a], {}),
        ("copy", [a, signed(4, 1)], {}),
        ("_conj_physical", [torch.complex(a, b)], {}),
        ("native_dropout_backward", [a, b > 0, 2.0], {}),
        ("fill.Scalar", [a, 2.0], {}),
        ("fill.Tensor", [a, torch.tensor(2.0, dtype=torch.float64)], {}),
        ("zero", [a], {}),
        ("full_like", [a, 2.0], {}),
        ("ones_like", [a], {}),
        ("zeros_like", [a], {}),
    ]
    return [Case(f"aten.{name}", args, kwargs) for name, args, kwargs in calls]


def drawn() -> list[Case]:
    """Random or undefined: shapes count, and values only where the draw is certain."""
    a, c = signed(*SHAPE), floats(*SHAPE)
    counts = integers(*SHAPE).to(torch.float64)
    shapes = [*SHAPE]
    calls: list[tuple[str, list[object], dict[str, object], bool]] = [
        ("aten.native_dropout", [a, 0.0, True], {}, True),
        ("aten.native_dropout", [a, 0.5, True], {}, False),
        ("aten.bernoulli", [c / 2], {}, False),
        ("aten.bernoulli.p", [a, 1.0], {}, True),
        ("aten.bernoulli.Tensor", [a, torch.ones(4, 1, dtype=torch.float64)], {}, True),
        ("aten.rand_like", [a], {}, False),
        ("aten.randn_like", [a], {}, False),
        ("aten.randint_like", [a, 1], {}, True),
        ("aten.randint_like.low_dtype", [a, 3, 4], {}, True),
        ("aten.rand", [shapes], {}, False),
        ("aten.randn", [shapes], {}, False),
        ("aten.randint", [1, shapes], {}, True),
        ("aten.randint.low", [3, 4, shapes], {}, True),
        ("aten.normal.float_float", [0.0, 1.0, shapes], {}, False),
        ("aten.normal.Tensor_Tensor", [a, floats(4, 1)], {}, False),
        ("aten.normal.Tensor_float", [a, 1.0], {}, False),
        ("aten.normal.float_Tensor", [0.0, c], {}, False),
        ("aten.normal_functional", [a], {}, False),
        ("aten.uniform", [a], {}, False),
        ("aten.exponential", [a], {}, False),
        ("aten.log_normal", [a], {}, False),
        ("aten.geometric", [a, 0.5], {}, False),
        ("aten.cauchy", [a], {}, False),
        ("aten.random", [a], {}, False),
        ("aten.random.from", [a, 3, 4], {}, True),
        ("aten.random.to", [a, 1], {}, True),
        ("aten.poisson", [a.abs()], {}, False),
        ("aten.binomial", [counts, floats(*SHAPE) / 2], {}, False),
        ("aten._standard_gamma", [c], {}, False),
        ("aten._sample_dirichlet", [c], {}, False),
        ("aten.rrelu_with_noise_functional", [a, c, 0.1, 0.3, True], {}, False),
        ("aten.multinomial", [c[0], 2], {}, False),
        ("aten.multinomial", [c[0, 0], 2], {}, False),
        ("aten.randperm", [5], {}, False),
        ("magis.bernoulli", [shapes, [20, 5, 1], 1.0], {"dtype": torch.float32}, True),
        ("aten.empty_like", [a], {}, False),
        ("aten.empty.memory_format", [shapes], {}, False),
        ("aten.new_empty", [a, shapes], {}, False),
    ]
    return [Case(name, args, kwargs, compared) for name, args, kwargs, compared in calls]


def factories() -> list[Case]:
    a = signed(2, 2)
    shapes = [*SHAPE]
    calls: list[tuple[str, list[object]]] = [
        ("full", [shapes, 2.0]),
        ("ones", [shapes]),
        ("zeros", [shapes]),
        ("new_full", [a, shapes, 2.0]),
        ("new_ones", [a, shapes]),
        ("new_zeros", [a, shapes]),
        ("scalar_tensor", [2.0]),
        ("arange", [5]),
        ("arange.start", [1, 5]),
        ("arange.start_step", [1, 5, 2]),
        ("linspace", [0.0, 1.0, 5]),
        ("logspace", [0.0, 1.0, 5]),
        ("eye", [4]),
        ("eye.m", [4, 3]),
        ("tril_indices", [3, 3]),
        ("triu_indices", [3, 3]),
        ("hann_window", [5]),
        ("hann_window.periodic", [5, True]),
        ("hamming_window", [5]),
        ("hamming_window.periodic", [5, True]),
        ("blackman_window", [5]),
        ("kaiser_window", [5]),
    ]
    return [Case(f"aten.{name}", args) for name, args in calls]


def pointwise_cases() -> list[Case]:
    return [*from_schemas(), *written_out(), *drawn(), *factories()]
