"""ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2015), bottleneck blocks.

The stride sits in the 3x3 convolution, as everywhere today.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from magis.zoo.mlp import classification_loss
from magis.zoo.workload import Request, Size, Workload, ZooEntry, squared_loss

EXPANSION = 4  # a block's output channels over those of its 3x3 convolution


@dataclass(frozen=True)
class ResNetConfig:
    width: int  # channels of the stem
    blocks: tuple[int, int, int, int]  # a stage
    classes: int


CONFIGS = {
    "tiny": ResNetConfig(width=8, blocks=(1, 1, 1, 1), classes=10),
    "small": ResNetConfig(width=32, blocks=(3, 4, 6, 3), classes=100),
    "full": ResNetConfig(width=64, blocks=(3, 4, 6, 3), classes=1000),
}

Norm = Callable[[int], nn.Module]


def no_norm(_channels: int) -> nn.Module:
    return nn.Identity()


class Bottleneck(nn.Module):
    """[N, inputs, H, W] -> [N, EXPANSION * inner, H / stride, W / stride]"""

    def __init__(self, inputs: int, inner: int, stride: int, norm: Norm) -> None:
        super().__init__()
        outputs = EXPANSION * inner
        self.reduce = nn.Conv2d(inputs, inner, 1, bias=False)
        self.norm1 = norm(inner)
        self.conv = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.norm2 = norm(inner)
        self.expand = nn.Conv2d(inner, outputs, 1, bias=False)
        self.norm3 = norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.reduce(x)))
        y = self.relu(self.norm2(self.conv(y)))
        y = self.norm3(self.expand(y))
        y += self.shortcut(x)
        out: Tensor = self.relu(y)
        return out


class ResNet(nn.Module):
    """[N, 3, H, W] -> [N, classes]"""

    def __init__(self, config: ResNetConfig, paper: bool = False) -> None:
        super().__init__()
        norm: Norm = no_norm if paper else nn.BatchNorm2d
        self.stem = nn.Conv2d(3, config.width, 7, 2, padding=3, bias=False)
        self.norm = norm(config.width)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        channels = config.width
        stages = []
        for stage, count in enumerate(config.blocks):
            inner = config.width * 2**stage
            blocks = []
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(channels, inner, stride, norm))
                channels = EXPANSION * inner
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, config.classes, bias=not paper)
        self._initialize(sum(config.blocks), paper)

    def _initialize(self, depth: int, paper: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if paper:
            # Nothing normalises the sums: shrink each residual branch, or every block doubles them.
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    module.expand.weight.data.mul_(depth**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.norm(self.stem(x))))
        x = self.average(self.stages(x))
        logits: Tensor = self.head(torch.flatten(x, 1))
        return logits


def build(request: Request) -> Workload:
    config = CONFIGS[request.size]
    model = ResNet(config, request.paper)
    x = torch.randn(request.batch, 3, request.image, request.image)
    if request.paper:
        return model, squared_loss, {"x": x, "target": torch.randn(request.batch, config.classes)}
    labels = torch.randint(0, config.classes, (request.batch,))
    return model, classification_loss, {"x": x, "labels": labels}


ENTRY = ZooEntry(
    name="resnet50",
    summary="ResNet-50, image classification",
    sizes={
        "tiny": Size(parameters=130_962, paper_parameters=128_536, batch=4, image=32),
        "small": Size(parameters=5_995_140, paper_parameters=5_968_480, batch=8, image=160),
        "full": Size(parameters=25_557_032, paper_parameters=25_502_912, batch=64, image=224),
    },
    options=("batch", "image", "dtype", "variant"),
    attention=(),
    builder=build,
)
