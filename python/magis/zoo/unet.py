"""U-Net (Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation").

Padded convolutions with batch norm, as it is built today, so that the output has the input's size.
The `paper` variant upsamples bilinearly and concatenates without a convolution between, as the
MAGIS paper's workload does.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from magis.zoo.workload import Request, Size, Workload, ZooEntry, need_multiple, squared_loss

LEVELS = 5  # resolutions, the first at full size


@dataclass(frozen=True)
class UNetConfig:
    width: int  # channels at full resolution; they double at every level
    classes: int = 2


CONFIGS = {
    "tiny": UNetConfig(width=4),
    "small": UNetConfig(width=16),
    "full": UNetConfig(width=64),
}


def conv_block(inputs: int, outputs: int, paper: bool, convolutions: int = 2) -> nn.Sequential:
    """3x3 convolutions, each with batch norm (not in `paper`) and ReLU; keeps height and width."""
    layers: list[nn.Module] = []
    for index in range(convolutions):
        channels = inputs if index == 0 else outputs
        layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
        if not paper:
            layers.append(nn.BatchNorm2d(outputs))
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


def initialize(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")


def bilinear() -> nn.Module:
    return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)


class UNet(nn.Module):
    """[N, inputs, H, W] -> [N, classes, H, W]; H and W multiples of 16"""

    def __init__(self, inputs: int, width: int, classes: int, paper: bool = False) -> None:
        super().__init__()
        channels = [width * 2**level for level in range(LEVELS)]
        self.pool = nn.MaxPool2d(2)
        self.encoder = nn.ModuleList(
            conv_block(channels[level - 1] if level else inputs, channels[level], paper)
            for level in range(LEVELS)
        )
        self.up = nn.ModuleList()
        self.decoder = nn.ModuleList()
        for level in reversed(range(LEVELS - 1)):
            if paper:
                self.up.append(bilinear())
                joined = channels[level] + channels[level + 1]
            else:
                self.up.append(nn.ConvTranspose2d(channels[level + 1], channels[level], 2, 2))
                joined = 2 * channels[level]
            self.decoder.append(conv_block(joined, channels[level], paper))
        self.head = nn.Conv2d(width, classes, 1, bias=not paper)
        initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for level, block in enumerate(self.encoder):
            x = block(self.pool(x) if level else x)
            skips.append(x)
        skips.pop()  # the bottom is `x` itself
        for up, block in zip(self.up, self.decoder, strict=True):
            x = block(torch.cat([skips.pop(), up(x)], dim=1))
        logits: Tensor = self.head(x)
        return logits


def segmentation_loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of every pixel; labels [N, H, W]."""
    return F.cross_entropy(model(x), labels)


def image_batch(request: Request, classes: int) -> dict[str, Tensor]:
    """RGB images and a class a pixel; in `paper`, one channel in and one out."""
    size = (request.image, request.image)
    if request.paper:
        return {
            "x": torch.randn(request.batch, 1, *size),
            "target": torch.randn(request.batch, 1, *size),
        }
    labels = torch.randint(0, classes, (request.batch, *size))
    return {"x": torch.randn(request.batch, 3, *size), "labels": labels}


def build(request: Request) -> Workload:
    need_multiple("image", request.image, 2 ** (LEVELS - 1))
    config = CONFIGS[request.size]
    batch = image_batch(request, config.classes)
    if request.paper:
        return UNet(1, config.width, 1, paper=True), squared_loss, batch
    return UNet(3, config.width, config.classes), segmentation_loss, batch


ENTRY = ZooEntry(
    name="unet",
    summary="U-Net, image segmentation",
    sizes={
        "tiny": Size(parameters=122_098, paper_parameters=122_584, batch=2, image=32),
        "small": Size(parameters=1_942_594, paper_parameters=1_960_864, batch=4, image=128),
        "full": Size(parameters=31_037_698, paper_parameters=31_371_904, batch=32, image=256),
    },
    options=("batch", "image", "dtype", "variant"),
    attention=(),
    builder=build,
)
