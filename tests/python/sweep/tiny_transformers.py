"""Architectures of the transformers library in tiny configurations, made from their own config
classes: a model, a loss and two batches for each.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

# Attribute of a configuration -> its tiny value. Only those that a class has are set.
_TINY: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "embed_dim", "encoder_hidden_size", "dim"), 32
    ),
    **dict.fromkeys(
        ("decoder_hidden_size", "projection_dim", "hidden_dim", "n_dim", "d_kv_dim"), 32
    ),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "entity_emb_size", "model_dim"), 32),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"), 2
    ),
    **dict.fromkeys(("decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "multi_query_num_key_value_heads"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim"), 64),
    **dict.fromkeys(("decoder_ffn_dim", "ffn_hidden_size", "dim_feedforward", "mlp_dim"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "qk_rope_head_dim"), 8),
    **dict.fromkeys(("v_head_dim", "qk_nope_head_dim", "kv_channels"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_top_k"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("n_positions", "max_position_embeddings", "max_sequence_length"), 128),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 64),
    "vocab_size": 128,
    "type_vocab_size": 2,
    "n_ctx": 128,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
    "num_queries": 6,
    "num_frames": 4,
    "num_mel_bins": 16,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "conv_dim": [32, 32, 32],
    "conv_kernel": [8, 3, 3],
    "conv_stride": [4, 2, 2],
    "mask_time_prob": 0.0,  # SpecAugment draws from NumPy's generator
    "apply_spec_augment": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_pretrained_backbone": False,
}
# Where the general values do not fit together: model type -> values that do.
_SPECIAL: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "bloom": {"hidden_size": 32},
    "reformer": {
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [4, 4],
        "axial_pos_embds_dim": [16, 16],
        "num_hashes": 1,
        "is_decoder": True,
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
    },
    "longformer": {"attention_window": [8, 8]},
    "led": {"attention_window": [8, 8]},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "funnel": {"block_sizes": [1, 1], "d_head": 8, "d_inner": 64},
    "swin": {
        "depths": [1, 1],
        "num_heads": [2, 4],
        "embed_dim": 16,
        "patch_size": 4,
        "window_size": 2,
    },
    "swinv2": {
        "depths": [1, 1],
        "num_heads": [2, 4],
        "embed_dim": 16,
        "patch_size": 4,
        "window_size": 2,
    },
    "convnext": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "patch_size": 4},
    "convnextv2": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "patch_size": 4},
    "resnet": {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8},
    "regnet": {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8, "groups_width": 8},
    "bit": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16, 16, 16],
        "depths": [1, 1, 1, 1],
        "num_groups": 4,
    },
    "mamba": {"state_size": 4},
    "mamba2": {"state_size": 4, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
}


def _tiny_kwargs(config_class: Any, depth: int = 0) -> dict[str, Any]:
    default = config_class()
    kwargs = {name: value for name, value in _TINY.items() if hasattr(default, name)}
    kwargs = {
        name: value
        for name, value in kwargs.items()
        # A number does not fit where the class holds a list, one value for each stage.
        if isinstance(value, (list, bool)) or not isinstance(getattr(default, name), (list, tuple))
    }
    if isinstance(getattr(default, "image_size", None), (list, tuple)):
        kwargs["image_size"] = [32, 32]
    kwargs.update(_SPECIAL.get(config_class.model_type, {}))
    if depth < 2:
        for name, part in getattr(config_class, "sub_configs", {}).items():
            own = getattr(default, name, None)
            part = type(own) if own is not None else part
            if own is not None and part.__name__ != "AutoConfig":
                kwargs[name] = part(**_tiny_kwargs(part, depth + 1)).to_dict()
    return kwargs


def _mapping(task: str) -> dict[str, str]:
    from transformers.models.auto import modeling_auto

    names: dict[str, Any] = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES")
    return {
        model_type: value[0] if isinstance(value, (tuple, list)) else value
        for model_type, value in names.items()
    }


TASKS = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "CAUSAL_LM",
    "SEQUENCE_CLASSIFICATION",
    "IMAGE_CLASSIFICATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "OBJECT_DETECTION",
    "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "CTC",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_IMAGE_MODELING",
    "TIME_SERIES_PREDICTION",
)


def candidates() -> dict[str, tuple[str, str]]:
    """Class name -> (task, model type). A model type stands once, under its first task."""
    found: dict[str, tuple[str, str]] = {}
    seen: set[str] = set()
    for task in TASKS:
        for model_type, class_name in _mapping(task).items():
            if model_type not in seen:
                seen.add(model_type)
                found.setdefault(class_name, (task, model_type))
    return found


def _tokens(config: Any, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    vocabulary = min(getattr(config.get_text_config(), "vocab_size", 128) or 128, 128)
    ids = torch.randint(5, vocabulary, (2, 16), generator=generator)
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 10 + seed :] = 0  # another length at the second step
    return {"input_ids": ids, "attention_mask": mask}


def _images(config: Any, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    part = getattr(config, "vision_config", None) or config
    size = getattr(part, "image_size", 32) or 32
    height, width = (size, size) if isinstance(size, int) else size[-2:]
    channels = getattr(part, "num_channels", 3)
    return {"pixel_values": torch.randn(2, channels, height, width, generator=generator)}


def make_batch(task: str, config: Any, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed + 100)

    def classes(count: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, count, shape, generator=generator)

    labels = max(getattr(config, "num_labels", 5), 1)
    match task:
        case "CAUSAL_LM" | "MASKED_LM":
            batch = _tokens(config, seed)
            return {**batch, "labels": batch["input_ids"].clone()}
        case "SEQ_TO_SEQ_CAUSAL_LM":
            return {**_tokens(config, seed), "labels": _tokens(config, seed + 1)["input_ids"]}
        case "SEQUENCE_CLASSIFICATION":
            return {**_tokens(config, seed), "labels": classes(labels, 2)}
        case "IMAGE_CLASSIFICATION":
            return {**_images(config, seed), "labels": classes(labels, 2)}
        case "SEMANTIC_SEGMENTATION":
            images = _images(config, seed)
            return {**images, "labels": classes(labels, 2, *images["pixel_values"].shape[-2:])}
        case "DEPTH_ESTIMATION" | "MASKED_IMAGE_MODELING":
            return dict(_images(config, seed))
        case "OBJECT_DETECTION":
            boxes = 1 + seed  # another number of objects at the second step
            targets = [
                {
                    "class_labels": classes(labels, n),
                    "boxes": torch.rand(n, 4, generator=generator) * 0.4 + 0.1,
                }
                for n in (boxes, 2)
            ]
            size = {"size": 64}
            pixels = torch.randn(2, 3, size["size"], size["size"], generator=generator)
            return {"pixel_values": pixels, "labels": targets}
        case "VIDEO_CLASSIFICATION":
            frames = getattr(config, "num_frames", 8)
            size = getattr(config, "image_size", 32)
            pixels = torch.randn(2, frames, 3, size, size, generator=generator)
            return {"pixel_values": pixels, "labels": classes(labels, 2)}
        case "AUDIO_CLASSIFICATION" | "CTC" | "SPEECH_SEQ_2_SEQ":
            return _speech(task, config, seed, generator, labels)
        case "TIME_SERIES_PREDICTION":
            return {"past_values": torch.randn(2, 32, generator=generator)}
    raise KeyError(task)


def _speech(
    task: str, config: Any, seed: int, generator: torch.Generator, labels: int
) -> dict[str, Any]:
    mels = getattr(config, "num_mel_bins", None) or getattr(config, "input_feat_per_channel", None)
    if hasattr(config, "conv_kernel") and hasattr(config, "conv_dim"):
        batch = {"input_values": torch.randn(2, 800, generator=generator)}
    elif mels and hasattr(config, "max_source_positions") and config.model_type == "whisper":
        frames = 2 * config.max_source_positions
        batch = {"input_features": torch.randn(2, mels, frames, generator=generator)}
    else:
        mels = mels or getattr(config, "input_size", None) or 80
        batch = {"input_features": torch.randn(2, 64, mels, generator=generator)}
    if task == "AUDIO_CLASSIFICATION":
        return {**batch, "labels": torch.randint(0, labels, (2,), generator=generator)}
    return {**batch, "labels": torch.randint(3, 20, (2, 5), generator=generator)}


def own_loss(model: nn.Module, **batch: Any) -> torch.Tensor:
    """The loss that the model computes itself, or a mean of squares of all that it returns."""
    out = model(**batch)
    if getattr(out, "loss", None) is not None:
        return out.loss.mean()  # type: ignore[no-any-return]
    tensors = [v for v in out.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    return torch.stack([tensor.square().mean() for tensor in tensors]).sum()


def build(name: str) -> tuple[nn.Module, Any, list[dict[str, Any]]]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    task, model_type = candidates()[name]
    config_class = CONFIG_MAPPING[model_type]
    kwargs = _tiny_kwargs(config_class)
    if task == "CAUSAL_LM" and hasattr(config_class(), "is_decoder"):
        kwargs["is_decoder"] = True
    config = config_class(**kwargs)
    random.seed(0)
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).train()
    return model, own_loss, [make_batch(task, config, seed) for seed in (0, 1)]
