"""The evaluation's training steps, as graph texts: nothing here needs PyTorch.

`paper`: as the MAGIS paper has them (no batch norm, dropout, embeddings, positions; ReLU, squared
loss, W += dW). `real`: as people train them. `authors`: the graphs that the public implementation
of the paper builds (bench/authors).
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import magis._core as core
from magis.errors import MagisError

GRAPHS = Path(__file__).parent / "graphs"
AUTHORS = Path(__file__).parents[2] / "authors" / "graphs"


@dataclass(frozen=True)
class Workload:
    title: str
    model: str  # in the zoo
    dtype: str
    real_optimizer: str  # in workloads/recapture.py
    authors: str | None  # file in bench/authors/graphs; None: they have none
    # What the real variant is captured for. GPT-Neo makes a tensor out of a number in each layer,
    # which a capture for a GPU that is not there cannot know; without dropout, and with attention
    # written out, its graphs for both devices are the same.
    device: str = "cuda"


WORKLOADS = {
    "resnet50": Workload("ResNet-50, 64", "resnet50", "float32", "momentum", "resnet50-b64"),
    "bert": Workload("BERT-base, 32 x 512", "bert", "float32", "adamw", "bert-base-b32-s512"),
    "vit": Workload("ViT-B/16, 64", "vit", "float32", "adamw", "vit-base-b64"),
    "unet": Workload("U-Net, 32", "unet", "float32", "momentum", "unet-b32"),
    "unetpp": Workload("U-Net++, 16", "unet++", "float32", "momentum", "unetpp-b16"),
    "gptneo": Workload(
        "GPT-Neo-1.3B, 32 x 512", "gpt-neo", "bfloat16", "adamw", "gptneo-b32-s512", "cpu"
    ),
    "btlm": Workload("BTLM-3B, 32 x 512", "btlm", "bfloat16", "adamw", None),
}
VARIANTS = ("paper", "real", "authors")


def names(variant: str) -> list[str]:
    """Of the workloads that there are in this variant."""
    return [
        name for name, workload in WORKLOADS.items() if variant != "authors" or workload.authors
    ]


def path_of(name: str, variant: str, graphs: Path = GRAPHS) -> Path:
    """Raises MagisError for a workload that there is none of."""
    workload = WORKLOADS.get(name)
    if workload is None:
        raise MagisError(f'no workload "{name}"; there are: {", ".join(WORKLOADS)}')
    if variant not in VARIANTS:
        raise MagisError(f'no variant "{variant}"; there are: {", ".join(VARIANTS)}')
    if variant != "authors":
        return graphs / f"{name}-{variant}.magis.gz"
    if workload.authors is None:
        raise MagisError(f"the authors' graphs have no {workload.title}")
    return AUTHORS / f"{workload.authors}.magis.gz"


def load(name: str, variant: str, graphs: Path = GRAPHS) -> core.Graph:
    """Raises MagisError that says how a missing or damaged graph is made again."""
    return read(path_of(name, variant, graphs))


def read(path: Path) -> core.Graph:
    again = "make it again: python bench/paper/workloads/recapture.py"
    try:
        text = gzip.decompress(path.read_bytes()).decode()
        return core.Graph.parse(text, path.name)
    except FileNotFoundError:
        raise MagisError(f"{path}: the graph is missing; {again}") from None
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise MagisError(f"{path}: the graph cannot be read ({error}); {again}") from None
    except core.UserError as error:
        raise MagisError(f"{path}: the graph does not parse; {again}\n{error}") from None
