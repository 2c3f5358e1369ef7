"""BERT, ViT, GPT-2, GPT-Neo and Llama as `transformers` builds them from a configuration.

Weights are random; nothing is downloaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from magis.errors import MagisError
from magis.zoo import paper_transformer
from magis.zoo.paper_transformer import PatchShape, TransformerShape
from magis.zoo.workload import Request, Size, Workload, ZooEntry, need_multiple, random_tokens

MASKED_SHARE = 0.15  # of BERT's tokens are to be guessed
IGNORED = -100  # cross-entropy's label for "no target"


def transformers() -> Any:
    """The `transformers` package, or an error that says how to get it."""
    try:
        import transformers as package
    except ImportError as error:
        raise MagisError(
            "bert, vit, gpt2, gpt-neo and llama need the package transformers, which is not "
            "installed; run: pip install transformers"
        ) from error
    return package


def model_loss(model: nn.Module, **batch: Tensor) -> Tensor:
    """The loss that a `transformers` model computes itself when it is given labels."""
    loss: Tensor = model(**batch).loss
    return loss


@dataclass(frozen=True)
class Family:
    """How one architecture's configuration is spelled."""

    config: str  # class names in transformers
    model: str
    shape_fields: tuple[str, str, str, str]  # width, layers, heads, inner
    dropout_fields: tuple[str, ...]
    sizes: dict[str, TransformerShape]
    extra: dict[str, dict[str, Any]]  # a size: what else the configuration says
    always: dict[str, Any] = field(default_factory=dict)

    def build_model(self, request: Request) -> tuple[Any, Any]:
        """The model and its configuration."""
        package = transformers()
        shape = self.sizes[request.size]
        sizes = (shape.width, shape.layers, shape.heads, shape.inner)
        fields: dict[str, Any] = dict(zip(self.shape_fields, sizes, strict=True))
        fields |= self.always | self.extra[request.size]
        if shape.key_value_heads is not None:
            fields["num_key_value_heads"] = shape.key_value_heads
        if request.dropout is not None:
            fields |= dict.fromkeys(self.dropout_fields, request.dropout)
        config = getattr(package, self.config)(**fields, attn_implementation=request.attention)
        return getattr(package, self.model)(config), config


COMMON_FIELDS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
DECODER = {"use_cache": False, "bos_token_id": 0, "eos_token_id": 0}

BERT = Family(
    config="BertConfig",
    model="BertForMaskedLM",
    shape_fields=COMMON_FIELDS,
    dropout_fields=("hidden_dropout_prob", "attention_probs_dropout_prob"),
    sizes={
        "tiny": TransformerShape(32, 2, 4, 64),
        "small": TransformerShape(256, 6, 4, 1024),
        "full": TransformerShape(768, 12, 12, 3072),
    },
    extra={
        "tiny": {"vocab_size": 128, "max_position_embeddings": 64},
        "small": {"vocab_size": 1000},
        "full": {"vocab_size": 30522},
    },
)

VIT = Family(
    config="ViTConfig",
    model="ViTForImageClassification",
    shape_fields=COMMON_FIELDS,
    dropout_fields=("hidden_dropout_prob", "attention_probs_dropout_prob"),
    sizes={
        "tiny": TransformerShape(32, 2, 4, 64),
        "small": TransformerShape(192, 6, 3, 768),
        "full": TransformerShape(768, 12, 12, 3072),
    },
    extra={
        "tiny": {"patch_size": 8, "num_labels": 10},
        "small": {"patch_size": 16, "num_labels": 100},
        "full": {"patch_size": 16, "num_labels": 1000},
    },
)

GPT2 = Family(
    config="GPT2Config",
    model="GPT2LMHeadModel",
    shape_fields=("n_embd", "n_layer", "n_head", "n_inner"),
    dropout_fields=("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    sizes={
        "tiny": TransformerShape(32, 2, 4, 128),
        "small": TransformerShape(256, 6, 4, 1024),
        "full": TransformerShape(768, 12, 12, 3072),
    },
    extra={
        "tiny": {"vocab_size": 128, "n_positions": 64},
        "small": {"vocab_size": 8192},
        "full": {"vocab_size": 50257},
    },
    always=DECODER,
)

GPT_NEO = Family(
    config="GPTNeoConfig",
    model="GPTNeoForCausalLM",
    shape_fields=("hidden_size", "num_layers", "num_heads", "intermediate_size"),
    dropout_fields=("resid_dropout", "embed_dropout", "attention_dropout"),
    sizes={
        "tiny": TransformerShape(32, 2, 4, 128),
        "small": TransformerShape(256, 6, 4, 1024),
        "full": TransformerShape(2048, 24, 16, 8192),
    },
    extra={
        "tiny": {
            "vocab_size": 128,
            "max_position_embeddings": 64,
            "window_size": 8,
            "attention_types": [[["global", "local"], 1]],
        },
        "small": {
            "vocab_size": 8192,
            "max_position_embeddings": 512,
            "window_size": 64,
            "attention_types": [[["global", "local"], 3]],
        },
        "full": {"attention_types": [[["global", "local"], 12]]},
    },
    always=DECODER,
)

LLAMA = Family(
    config="LlamaConfig",
    model="LlamaForCausalLM",
    shape_fields=COMMON_FIELDS,
    dropout_fields=("attention_dropout",),
    sizes={
        "tiny": TransformerShape(32, 2, 4, 64, gated=True, key_value_heads=2),
        "small": TransformerShape(256, 6, 8, 704, gated=True, key_value_heads=2),
        "full": TransformerShape(2048, 22, 32, 5632, gated=True, key_value_heads=4),
    },
    extra={
        "tiny": {"vocab_size": 128, "max_position_embeddings": 64},
        "small": {"vocab_size": 8192, "max_position_embeddings": 512},
        "full": {"vocab_size": 32000, "max_position_embeddings": 2048},
    },
    always=DECODER,
)


def check_length(request: Request, longest: int) -> None:
    if request.seq > longest:
        raise MagisError(f"seq {request.seq} is longer than this size's {longest} positions")


def build_masked(family: Family, request: Request) -> Workload:
    if request.paper:
        return paper_transformer.build_language(request, family.sizes[request.size])
    model, config = family.build_model(request)
    check_length(request, config.max_position_embeddings)
    tokens = random_tokens(config.vocab_size, request.batch, request.seq)
    masked = torch.rand(request.batch, request.seq) < MASKED_SHARE
    masked[:, 0] = True  # at least one label, or the mean over none is nan
    labels = tokens.masked_fill(~masked, IGNORED)
    # Id 0 stands for the mask token.
    return model, model_loss, {"input_ids": tokens.masked_fill(masked, 0), "labels": labels}


def build_causal(family: Family, request: Request) -> Workload:
    if request.paper:
        return paper_transformer.build_language(request, family.sizes[request.size])
    model, config = family.build_model(request)
    # transformers reads the kind of loss off the class's name, and cannot for GPT-2's.
    model.loss_type = "ForCausalLM"
    check_length(request, config.max_position_embeddings)
    tokens = random_tokens(config.vocab_size, request.batch, request.seq)
    return model, model_loss, {"input_ids": tokens, "labels": tokens.clone()}


def build_vision(family: Family, request: Request) -> Workload:
    extra = family.extra[request.size]
    need_multiple("image", request.image, extra["patch_size"])
    if request.paper:
        patches = PatchShape(extra["patch_size"], extra["num_labels"])
        return paper_transformer.build_vision(request, family.sizes[request.size], patches)
    sized = {**family.extra, request.size: {**extra, "image_size": request.image}}
    model, config = replace(family, extra=sized).build_model(request)
    images = torch.randn(request.batch, config.num_channels, request.image, request.image)
    labels = torch.randint(0, config.num_labels, (request.batch,))
    return model, model_loss, {"pixel_values": images, "labels": labels}


def language_entry(
    name: str,
    summary: str,
    family: Family,
    build: Callable[[Family, Request], Workload],
    sizes: dict[str, Size],
    attention: tuple[str, ...] = ("sdpa", "eager"),
) -> ZooEntry:
    options = ("batch", "seq", "dtype", "variant", "dropout", "attention")
    return ZooEntry(name, summary, sizes, options, attention, partial(build, family))


ENTRIES = (
    language_entry(
        "bert",
        "BERT, masked language model",
        BERT,
        build_masked,
        {
            "tiny": Size(parameters=24_608, paper_parameters=16_384, batch=2, seq=16),
            "small": Size(parameters=5_193_960, paper_parameters=4_718_592, batch=8, seq=128),
            "full": Size(parameters=109_514_298, paper_parameters=84_934_656, batch=32, seq=512),
        },
    ),
    ZooEntry(
        "vit",
        "ViT-B/16, image classification",
        {
            "tiny": Size(parameters=24_234, paper_parameters=22_848, batch=2, image=32),
            "small": Size(parameters=2_856_100, paper_parameters=2_820_864, batch=16, image=160),
            "full": Size(parameters=86_567_656, paper_parameters=86_292_480, batch=64, image=224),
        },
        ("batch", "image", "dtype", "variant", "dropout", "attention"),
        ("sdpa", "eager"),
        partial(build_vision, VIT),
    ),
    language_entry(
        "gpt2",
        "GPT-2, next-token loss",
        GPT2,
        build_causal,
        {
            "tiny": Size(parameters=31_616, paper_parameters=24_576, batch=2, seq=16),
            "small": Size(parameters=7_098_368, paper_parameters=4_718_592, batch=8, seq=128),
            "full": Size(parameters=124_439_808, paper_parameters=84_934_656, batch=8, seq=512),
        },
    ),
    language_entry(
        "gpt-neo",
        "GPT-Neo-1.3B: every second layer attends to a window, next-token loss",
        GPT_NEO,
        build_causal,
        {
            "tiny": Size(parameters=31_424, paper_parameters=24_576, batch=2, seq=16),
            "small": Size(parameters=6_962_688, paper_parameters=4_718_592, batch=8, seq=128),
            "full": Size(
                parameters=1_315_575_808, paper_parameters=1_207_959_552, batch=32, seq=512
            ),
        },
        attention=("eager",),
    ),
    language_entry(
        "llama",
        "Llama as TinyLlama-1.1B: grouped queries, RMS norm, SwiGLU, next-token loss",
        LLAMA,
        build_causal,
        {
            "tiny": Size(parameters=26_784, paper_parameters=18_432, batch=2, seq=16),
            "small": Size(parameters=8_424_704, paper_parameters=4_227_072, batch=8, seq=128),
            "full": Size(parameters=1_100_048_384, paper_parameters=968_884_224, batch=8, seq=512),
        },
    ),
)
