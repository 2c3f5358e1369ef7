"""A residual multilayer perceptron: the smallest network with norms, activations and dropout."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from magis.zoo.workload import Request, Size, Workload, ZooEntry, squared_loss


@dataclass(frozen=True)
class MlpConfig:
    width: int
    inner: int
    layers: int
    classes: int


CONFIGS = {
    "tiny": MlpConfig(width=32, inner=64, layers=2, classes=10),
    "small": MlpConfig(width=512, inner=2048, layers=6, classes=10),
    "full": MlpConfig(width=2048, inner=8192, layers=8, classes=1000),
}


class Block(nn.Module):
    def __init__(self, config: MlpConfig, dropout: float, paper: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width, elementwise_affine=not paper)
        self.grow = nn.Linear(config.width, config.inner, bias=not paper)
        self.activation = nn.ReLU() if paper else nn.GELU()
        self.dropout = nn.Identity() if paper else nn.Dropout(dropout)
        self.shrink = nn.Linear(config.inner, config.width, bias=not paper)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.dropout(self.activation(self.grow(self.norm(x))))
        out: Tensor = x + self.shrink(inner)
        return out


class Mlp(nn.Module):
    """[batch, width] -> [batch, classes]"""

    def __init__(self, config: MlpConfig, dropout: float = 0.1, paper: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config, dropout, paper) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.classes, bias=not paper)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        return logits


def classification_loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(x), labels)


def build(request: Request) -> Workload:
    config = CONFIGS[request.size]
    dropout = 0.1 if request.dropout is None else request.dropout
    model = Mlp(config, dropout, request.paper)
    x = torch.randn(request.batch, config.width)
    if request.paper:
        return model, squared_loss, {"x": x, "target": torch.randn(request.batch, config.classes)}
    labels = torch.randint(0, config.classes, (request.batch,))
    return model, classification_loss, {"x": x, "labels": labels}


ENTRY = ZooEntry(
    name="mlp",
    summary="residual multilayer perceptron",
    sizes={
        "tiny": Size(parameters=8_842, paper_parameters=8_512, batch=8),
        "small": Size(parameters=12_609_546, paper_parameters=12_588_032, batch=512),
        "full": Size(parameters=270_599_144, paper_parameters=270_483_456, batch=1024),
    },
    options=("batch", "dtype", "variant", "dropout"),
    attention=(),
    builder=build,
)
