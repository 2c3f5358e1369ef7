"""U-Net++ (Zhou et al., "UNet++: A Nested U-Net Architecture for Medical Image Segmentation").

Node (i, j) lies at resolution i and reads every node left of it in its row and the upsampled node
(i + 1, j - 1). Upsampling is bilinear; deep supervision puts a head on each of the top row's last
four nodes. The `paper` variant has one convolution a node, twice the channels and one head, as the
MAGIS paper's workload does.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from magis.zoo.unet import LEVELS, bilinear, conv_block, image_batch, initialize
from magis.zoo.workload import Request, Size, Workload, ZooEntry, need_multiple, squared_loss


@dataclass(frozen=True)
class NestedConfig:
    width: int  # channels at full resolution; they double at every level
    paper_width: int
    classes: int = 2


CONFIGS = {
    "tiny": NestedConfig(width=4, paper_width=8),
    "small": NestedConfig(width=16, paper_width=32),
    "full": NestedConfig(width=32, paper_width=64),
}


def node_name(level: int, column: int) -> str:
    return f"x{level}_{column}"


class UNetPlusPlus(nn.Module):
    """[N, inputs, H, W] -> a list of [N, classes, H, W], one a head; H and W multiples of 16"""

    def __init__(self, inputs: int, width: int, classes: int, paper: bool = False) -> None:
        super().__init__()
        channels = [width * 2**level for level in range(LEVELS)]
        convolutions = 1 if paper else 2
        self.pool = nn.MaxPool2d(2)
        self.up = bilinear()
        self.nodes = nn.ModuleDict()
        for column in range(LEVELS):
            for level in range(LEVELS - column):
                if column:
                    joined = column * channels[level] + channels[level + 1]
                else:
                    joined = channels[level - 1] if level else inputs
                block = conv_block(joined, channels[level], paper, convolutions)
                self.nodes[node_name(level, column)] = block
        heads = 1 if paper else LEVELS - 1
        self.heads = nn.ModuleList(
            nn.Conv2d(width, classes, 1, bias=not paper) for _ in range(heads)
        )
        initialize(self)

    def forward(self, x: Tensor) -> list[Tensor]:
        rows: list[list[Tensor]] = []
        for level in range(LEVELS):
            backbone = self.nodes[node_name(level, 0)]
            rows.append([backbone(self.pool(rows[-1][0]) if level else x)])
            # The new backbone node completes one diagonal, from the level above up to the top row.
            for column in range(1, level + 1):
                row = level - column
                below = self.up(rows[row + 1][column - 1])
                joined = torch.cat([*rows[row], below], dim=1)
                rows[row].append(self.nodes[node_name(row, column)](joined))
        last = rows[0][-len(self.heads) :]
        return [head(features) for head, features in zip(self.heads, last, strict=True)]


def deep_supervision_loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Mean over the heads of every pixel's cross-entropy; labels [N, H, W]."""
    losses = [F.cross_entropy(logits, labels) for logits in model(x)]
    return torch.stack(losses).mean()


def nested_squared_loss(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    return squared_loss(lambda images: model(images)[-1], x, target)


def build(request: Request) -> Workload:
    need_multiple("image", request.image, 2 ** (LEVELS - 1))
    config = CONFIGS[request.size]
    batch = image_batch(request, config.classes)
    if request.paper:
        return UNetPlusPlus(1, config.paper_width, 1, paper=True), nested_squared_loss, batch
    return UNetPlusPlus(3, config.width, config.classes), deep_supervision_loss, batch


ENTRY = ZooEntry(
    name="unet++",
    summary="U-Net++ with deep supervision, image segmentation",
    sizes={
        "tiny": Size(parameters=144_052, paper_parameters=311_120, batch=2, image=32),
        "small": Size(parameters=2_292_088, paper_parameters=4_976_960, batch=4, image=96),
        "full": Size(parameters=9_159_912, paper_parameters=19_907_200, batch=16, image=256),
    },
    options=("batch", "image", "dtype", "variant"),
    attention=(),
    builder=build,
)
