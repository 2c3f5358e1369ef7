"""The transformer of the MAGIS paper's workloads: `paper` variants of language models and ViT.

Pre-norm blocks without dropout, biases, learned norms, positions or a mask; ReLU. The input is
[N, T, C], not tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from magis.zoo.workload import Request, Workload, need_multiple, squared_loss


@dataclass(frozen=True)
class TransformerShape:
    width: int
    layers: int
    heads: int
    inner: int
    gated: bool = False  # the inner layer is a product, as in SwiGLU
    key_value_heads: int | None = None  # fewer than heads: each is shared by a group


@dataclass(frozen=True)
class PatchShape:
    """How an image becomes [N, T, C], and what is read off at the end."""

    patch: int
    classes: int


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[N, T, heads * h] -> [N, heads, T, h]"""
    n, t, width = x.shape
    return x.view(n, t, heads, width // heads).transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, attention: str) -> Tensor:
    """softmax(q k^T / sqrt(h)) v, for [N, H, T, h].

    `eager` keeps the [N, H, T, T] matrix, as the paper counts it; `sdpa` does not.
    """
    if attention == "sdpa":
        return F.scaled_dot_product_attention(q, k, v)
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return torch.matmul(torch.softmax(scores, dim=-1), v)


class Attention(nn.Module):
    def __init__(self, shape: TransformerShape, attention: str) -> None:
        super().__init__()
        self.heads = shape.heads
        self.key_value_heads = shape.key_value_heads or shape.heads
        self.attention = attention
        shared = shape.width // shape.heads * self.key_value_heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, shared, bias=False)
        self.value = nn.Linear(shape.width, shared, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        group = self.heads // self.key_value_heads
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(x), self.key_value_heads)
        v = split_heads(self.value(x), self.key_value_heads)
        if group > 1:
            k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
        mixed = attend(q, k, v, self.attention).transpose(1, 2).flatten(2)
        out: Tensor = self.out(mixed)
        return out


class FeedForward(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.grow = nn.Linear(shape.width, shape.inner, bias=False)
        self.gate = nn.Linear(shape.width, shape.inner, bias=False) if shape.gated else None
        self.shrink = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.grow(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        out: Tensor = self.shrink(inner)
        return out


class Block(nn.Module):
    def __init__(self, shape: TransformerShape, attention: str) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width, elementwise_affine=False)
        self.attention = Attention(shape, attention)
        self.norm2 = nn.LayerNorm(shape.width, elementwise_affine=False)
        self.feed_forward = FeedForward(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.feed_forward(self.norm2(x))
        return out


class PaperTransformer(nn.Module):
    """[N, T, C] -> [N, T, C]"""

    def __init__(self, shape: TransformerShape, attention: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(shape, attention) for _ in range(shape.layers))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class PaperVisionTransformer(nn.Module):
    """[N, 3, H, W] -> [N, patches, classes]"""

    def __init__(self, shape: TransformerShape, patches: PatchShape, attention: str) -> None:
        super().__init__()
        self.patch = patches.patch
        self.embed = nn.Linear(3 * patches.patch**2, shape.width, bias=False)
        self.transformer = PaperTransformer(shape, attention)
        self.head = nn.Linear(shape.width, patches.classes, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        n, channels, height, width = images.shape
        p = self.patch
        cut = images.view(n, channels, height // p, p, width // p, p).permute(0, 2, 4, 1, 3, 5)
        patches = cut.reshape(n, (height // p) * (width // p), channels * p * p)
        out: Tensor = self.head(self.transformer(self.embed(patches)))
        return out


def build_language(request: Request, shape: TransformerShape) -> Workload:
    """[batch, seq, width] in, the same out, squared loss."""
    model = PaperTransformer(shape, request.attention)
    x = torch.randn(request.batch, request.seq, shape.width)
    return model, squared_loss, {"x": x, "target": torch.randn_like(x)}


def build_vision(request: Request, shape: TransformerShape, patches: PatchShape) -> Workload:
    """[batch, 3, image, image] in, a class score for every patch out, squared loss."""
    need_multiple("image", request.image, patches.patch)
    count = (request.image // patches.patch) ** 2
    x = torch.randn(request.batch, 3, request.image, request.image)
    target = torch.randn(request.batch, count, patches.classes)
    model = PaperVisionTransformer(shape, patches, request.attention)
    return model, squared_loss, {"x": x, "target": target}
