"""BTLM-3B (Dey et al., "BTLM-3B-8K: 7B Parameter Performance in a 3B Parameter Model", 2023).

GPT-2's blocks with ALiBi in place of learned positions, SwiGLU, and the constant scales of maximal
update parametrisation (muP) on embeddings, attention scores and logits. Input and output embeddings
are one tensor.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from magis.zoo import paper_transformer
from magis.zoo.paper_transformer import TransformerShape, split_heads
from magis.zoo.workload import Request, Size, Workload, ZooEntry, random_tokens

EMBEDDING_SCALE = 14.6
LOGIT_SCALE = 0.222
INITIAL_DEVIATION = 0.073
IGNORED = -100  # cross-entropy's label for "no target"


@dataclass(frozen=True)
class BtlmConfig:
    vocabulary: int
    width: int
    layers: int
    heads: int  # a power of two
    inner: int


CONFIGS = {
    "tiny": BtlmConfig(vocabulary=128, width=32, layers=2, heads=4, inner=85),
    "small": BtlmConfig(vocabulary=8192, width=256, layers=6, heads=4, inner=682),
    "full": BtlmConfig(vocabulary=50257, width=2560, layers=32, heads=32, inner=6826),
}


def alibi_slopes(heads: int) -> Tensor:
    """Slopes [heads] of the penalty on distance: 2^(-8/H), 2^(-16/H), ..., 2^-8.

    Source: Press et al., "Train Short, Test Long", 2022; for a power of two of heads.
    """
    return torch.tensor([2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)])


def causal_alibi_bias(slopes: Tensor, seq: int) -> Tensor:
    """[heads, seq, seq]: -slope * distance to earlier tokens, -inf for later ones."""
    position = torch.arange(seq, device=slopes.device)
    ahead = position[None, :] - position[:, None]
    penalty = slopes[:, None, None] * ahead
    return penalty.masked_fill(ahead > 0, float("-inf"))


class Attention(nn.Module):
    def __init__(self, config: BtlmConfig, dropout: float, attention: str) -> None:
        super().__init__()
        self.heads = config.heads
        self.scale = config.heads / config.width  # 1 / h, not 1 / sqrt(h): muP
        self.dropout = dropout
        self.attention = attention
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.out_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        if self.attention == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v, bias, dropout, scale=self.scale)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale + bias
            weights = F.dropout(torch.softmax(scores, dim=-1), dropout, self.training)
            mixed = torch.matmul(weights, v)
        out: Tensor = self.out_dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        return out


class SwiGlu(nn.Module):
    def __init__(self, config: BtlmConfig, dropout: float) -> None:
        super().__init__()
        self.grow = nn.Linear(config.width, config.inner)
        self.gate = nn.Linear(config.width, config.inner)
        self.shrink = nn.Linear(config.inner, config.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.grow(x) * F.silu(self.gate(x))
        out: Tensor = self.dropout(self.shrink(inner))
        return out


class Block(nn.Module):
    def __init__(self, config: BtlmConfig, dropout: float, attention: str) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config, dropout, attention)
        self.norm2 = nn.LayerNorm(config.width)
        self.feed_forward = SwiGlu(config, dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), bias)
        out: Tensor = x + self.feed_forward(self.norm2(x))
        return out


class Btlm(nn.Module):
    """Token ids [N, T] -> logits [N, T, vocabulary]"""

    slopes: Tensor

    def __init__(self, config: BtlmConfig, dropout: float = 0.0, attention: str = "sdpa") -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.embed_dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(config, dropout, attention) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("slopes", alibi_slopes(config.heads), persistent=False)
        self._initialize(config)

    def _initialize(self, config: BtlmConfig) -> None:
        # muP: hidden weights shrink with the width, counted from the 256 that were tuned.
        hidden = INITIAL_DEVIATION * (256 / config.width) ** 0.5
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.head:
                nn.init.normal_(module.weight, std=hidden)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, Block):
                for last in (module.attention.out, module.feed_forward.shrink):
                    nn.init.normal_(last.weight, std=hidden / (2 * config.layers) ** 0.5)
        nn.init.normal_(self.embed.weight, std=INITIAL_DEVIATION)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_dropout(self.embed(tokens) * EMBEDDING_SCALE)
        bias = causal_alibi_bias(self.slopes, tokens.shape[1])
        for block in self.blocks:
            x = block(x, bias)
        logits: Tensor = self.head(self.norm(x)) * LOGIT_SCALE
        return logits


def next_token_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Cross-entropy of every token given those before it."""
    logits = model(tokens)
    # Shifting the labels, not the logits, spares a copy of the largest tensor of the step.
    labels = F.pad(tokens[:, 1:], (0, 1), value=IGNORED)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def build(request: Request) -> Workload:
    config = CONFIGS[request.size]
    if request.paper:
        shape = TransformerShape(
            config.width, config.layers, config.heads, config.inner, gated=True
        )
        return paper_transformer.build_language(request, shape)
    model = Btlm(config, request.dropout or 0.0, request.attention)
    tokens = random_tokens(config.vocabulary, request.batch, request.seq)
    return model, next_token_loss, {"tokens": tokens}


ENTRY = ZooEntry(
    name="btlm",
    summary="BTLM-3B: GPT with ALiBi and SwiGLU, next-token loss",
    sizes={
        "tiny": Size(parameters=29_588, paper_parameters=24_512, batch=2, seq=16),
        "small": Size(parameters=6_835_192, paper_parameters=4_715_520, batch=8, seq=128),
        "full": Size(parameters=2_646_255_744, paper_parameters=2_516_418_560, batch=32, seq=512),
    },
    options=("batch", "seq", "dtype", "variant", "dropout", "attention"),
    attention=("sdpa", "eager"),
    builder=build,
)
