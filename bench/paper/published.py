"""Figures of the MAGIS paper (ASPLOS 2024, section 7): RTX 3090, 3 minutes a search, ratios of
PyTorch's memory and time. Read off its charts where it prints none."""

from __future__ import annotations

# By limit, in the order of WORKLOADS; an overhead is a ratio of time less 1.
ORDER = ("resnet50", "bert", "vit", "unet", "unetpp", "gptneo", "btlm")
MAGIS = {
    "latency 1.1": (0.511, 0.468, 0.374, 0.256, 0.129, 0.416, 0.263),
    "latency 1.05": (0.639, 0.699, 0.613, 0.498, 0.258, 0.641, 0.431),
    "memory 0.8": (0.031, 0.020, 0.046, 0.024, 0.020, 0.050, 0.031),
    "memory 0.4": (0.133, 0.149, 0.097, 0.061, 0.039, 0.098, 0.080),
}
# The best of the others there; None: none met the limit or fitted.
BEST_OTHER: dict[str, tuple[tuple[str, float] | None, ...]] = {
    "latency 1.1": (
        ("DTR", 0.595),
        ("DTR", 0.768),
        ("POFO", 0.752),
        ("DTR", 0.700),
        ("DTR", 0.700),
        ("XLA", 0.706),
        None,
    ),
    "memory 0.4": (
        ("POFO", 0.324),
        ("DTR", 0.235),
        ("DTR", 0.213),
        ("DTR", 0.720),
        None,
        ("POFO", 0.397),
        ("POFO", 0.420),
    ),
}
# Figure 11: (memory, overhead).
CURVES = {
    "resnet50": ((0.20, 0.23), (0.32, 0.15), (0.51, 0.075), (0.64, 0.03)),
    "bert": ((0.175, 0.21), (0.30, 0.15), (0.47, 0.09), (0.70, 0.05), (0.80, 0.02)),
    "unet": ((0.05, 0.30), (0.08, 0.20), (0.14, 0.13), (0.26, 0.065), (0.50, 0.03)),
    "gptneo": ((0.23, 0.58), (0.26, 0.25), (0.31, 0.155), (0.42, 0.10), (0.64, 0.06)),
}
# Figure 13, BERT; None: the limit was not met. No figures are known of naive schedule rules.
ABLATION: dict[str, dict[str, float | None]] = {
    "random fission": {
        "latency 1.1": 0.859,
        "latency 1.05": 0.957,
        "memory 0.8": 0.114,
        "memory 0.4": 0.273,
    },
    "L = 2": {
        "latency 1.1": 0.559,
        "latency 1.05": 0.753,
        "memory 0.8": 0.020,
        "memory 0.4": 0.148,
    },
    "magis-paper": {
        "latency 1.1": 0.482,
        "latency 1.05": 0.700,
        "memory 0.8": 0.020,
        "memory 0.4": 0.149,
    },
    "L = 8": {
        "latency 1.1": 0.585,
        "latency 1.05": 0.669,
        "memory 0.8": 0.017,
        "memory 0.4": 0.193,
    },
}
# Its random fission did not reach 40 % of the memory.
NOT_MET = (("random fission", "memory 0.4"),)
# Figure 14.
SCHEDULING = {"mean": 10.0, "least": 4.0, "most": 30.0, "equal": 94, "of": 100}
# Figure 15: ViT, one minute.
PHASES = {
    "seconds": {"transform": 2.52, "schedule": 3.70, "simulate": 8.71, "hash": 44.82},
    "generated": 7148,
    "repeated": 6224,
    "evaluated": 924,
}


def magis(workload: str, limit: str) -> float | None:
    """A ratio of memory, or an overhead."""
    return MAGIS[limit][ORDER.index(workload)] if limit in MAGIS else None


def best_other(workload: str, limit: str) -> tuple[str, float] | None:
    return BEST_OTHER[limit][ORDER.index(workload)] if limit in BEST_OTHER else None


# The public implementation on the authors' graphs (60 s on two cores, under `reference` and with 2
# Gflop more a product): a ratio of memory, or an overhead. None of its figures met U-Net's 40 %.
PUBLIC: dict[str, dict[str, dict[str, float]]] = {
    "reference": {
        "latency 1.1": {
            "bert": 0.129,
            "vit": 0.216,
            "resnet50": 0.315,
            "unet": 0.707,
            "unetpp": 0.558,
            "gptneo": 0.687,
        },
        "memory 0.8": {"bert": 0.002, "vit": 0.003, "resnet50": 0.386, "unet": 0.315},
        "memory 0.4": {"bert": 0.017, "vit": 0.026, "resnet50": 0.187},
    },
    "reference-h2": {"latency 1.1": {"bert": 0.637}, "memory 0.4": {"bert": 0.140}},
}
# What it counts before it changes anything: GB and milliseconds.
PUBLIC_BASELINES = {
    "bert": (15.29, 600),
    "vit": (9.61, 406),
    "resnet50": (3.54, 123),
    "unet": (11.63, 585),
    "unetpp": (12.36, 533),
    "gptneo": (70.5, 6532),
}
