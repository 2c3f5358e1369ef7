"""Networks of diffusers and monai in tiny configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Case = Callable[[], tuple[nn.Module, list[Any]]]


def _tensors(*shapes: tuple[int, ...]) -> list[Any]:
    return [tuple(torch.randn(*shape) for shape in shapes) for _ in range(2)]


def _with_time(*shapes: tuple[int, ...]) -> list[Any]:
    """A tensor, a time for each sample, and more tensors."""
    return [
        (torch.randn(*shapes[0]), torch.randint(0, 900, (shapes[0][0],)), *more)
        for more in ([torch.randn(*shape) for shape in shapes[1:]] for _ in range(2))
    ]


def _monai(name: str, *shapes: tuple[int, ...], **options: Any) -> Case:
    def build() -> tuple[nn.Module, list[Any]]:
        from monai.networks import nets

        return getattr(nets, name)(**options), _tensors(*shapes)

    return build


def _diffusers(name: str, batches: Callable[[], list[Any]], **options: Any) -> Case:
    def build() -> tuple[nn.Module, list[Any]]:
        import diffusers

        return getattr(diffusers, name)(**options), batches()

    return build


_PLANE = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
_IMAGE = (2, 1, 32, 32)
_WIDTHS = {"block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1}
_VAE = {
    **_WIDTHS,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "latent_channels": 4,
}
_HEADS = {"num_attention_heads": 2, "attention_head_dim": 8}


CASES: dict[str, Case] = {
    "monai-unet": _monai(
        "UNet", _IMAGE, **_PLANE, channels=(4, 8, 16), strides=(2, 2), num_res_units=2, dropout=0.1
    ),
    "monai-basic-unet": _monai("BasicUNet", _IMAGE, **_PLANE, features=(4, 4, 8, 8, 16, 4)),
    "monai-basic-unet-plus-plus": _monai(
        "BasicUNetPlusPlus", _IMAGE, **_PLANE, features=(4, 4, 8, 8, 16, 4)
    ),
    "monai-dyn-unet": _monai(
        "DynUNet",
        _IMAGE,
        **_PLANE,
        kernel_size=[3, 3, 3],
        strides=[1, 2, 2],
        upsample_kernel_size=[2, 2],
        filters=[4, 8, 16],
    ),
    "monai-attention-unet": _monai(
        "AttentionUnet", _IMAGE, **_PLANE, channels=(4, 8, 16), strides=(2, 2)
    ),
    "monai-seg-res-net": _monai("SegResNet", _IMAGE, **_PLANE, init_filters=8, dropout_prob=0.2),
    "monai-seg-res-net-vae": _monai(
        "SegResNetVAE",
        _IMAGE,
        **_PLANE,
        init_filters=8,
        input_image_size=[32, 32],
    ),
    "monai-v-net": _monai("VNet", (1, 1, 32, 32), **_PLANE),
    "monai-high-res-net": _monai("HighResNet", (1, 1, 16, 16), **_PLANE),
    "monai-unetr": _monai(
        "UNETR",
        (1, 1, 32, 32),
        in_channels=1,
        out_channels=2,
        img_size=32,
        spatial_dims=2,
        feature_size=4,
        hidden_size=24,
        mlp_dim=32,
        num_heads=2,
    ),
    "monai-swin-unetr": _monai(
        "SwinUNETR", (1, 1, 64, 64), in_channels=1, out_channels=2, spatial_dims=2, feature_size=12
    ),
    "monai-dense-net": _monai(
        "DenseNet",
        _IMAGE,
        **_PLANE,
        init_features=8,
        growth_rate=4,
        block_config=(2, 2),
        dropout_prob=0.1,
    ),
    "monai-res-net": _monai(
        "ResNet",
        _IMAGE,
        block="basic",
        layers=[1, 1, 1, 1],
        block_inplanes=[4, 8, 8, 16],
        spatial_dims=2,
        n_input_channels=1,
        num_classes=3,
    ),
    "monai-se-res-net": _monai("SEResNet50", (2, 1, 32, 32), spatial_dims=2, in_channels=1),
    "monai-efficient-net": _monai(
        "EfficientNetBN",
        (2, 1, 32, 32),
        model_name="efficientnet-b0",
        spatial_dims=2,
        in_channels=1,
        pretrained=False,
    ),
    "monai-auto-encoder": _monai("AutoEncoder", _IMAGE, **_PLANE, channels=(4, 8), strides=(2, 2)),
    "monai-var-auto-encoder": _monai(
        "VarAutoEncoder",
        (2, 1, 32, 32),
        spatial_dims=2,
        in_shape=(1, 32, 32),
        out_channels=1,
        latent_size=4,
        channels=(4, 8),
        strides=(2, 2),
    ),
    "monai-vit": _monai(
        "ViT",
        _IMAGE,
        in_channels=1,
        img_size=(32, 32),
        patch_size=(8, 8),
        hidden_size=24,
        mlp_dim=32,
        num_layers=2,
        num_heads=2,
        classification=True,
        spatial_dims=2,
        dropout_rate=0.1,
    ),
    "monai-vit-auto-enc": _monai(
        "ViTAutoEnc",
        _IMAGE,
        in_channels=1,
        img_size=(32, 32),
        patch_size=(16, 16),
        hidden_size=24,
        mlp_dim=32,
        num_layers=2,
        num_heads=2,
        spatial_dims=2,
    ),
    "monai-discriminator": _monai(
        "Discriminator", _IMAGE, in_shape=(1, 32, 32), channels=(4, 8), strides=(2, 2)
    ),
    "monai-generator": _monai(
        "Generator",
        (2, 6),
        latent_shape=(6,),
        start_shape=(4, 4, 4),
        channels=(8, 1),
        strides=(2, 2),
    ),
    "monai-diffusion-unet": lambda: _diffusion_unet(),
    "monai-vqvae": _monai(
        "VQVAE",
        (2, 1, 16, 16),
        spatial_dims=2,
        in_channels=1,
        out_channels=1,
        channels=(8, 8),
        num_res_layers=1,
        num_res_channels=(8, 8),
        downsample_parameters=((2, 4, 1, 1),) * 2,
        upsample_parameters=((2, 4, 1, 1, 0),) * 2,
        num_embeddings=8,
        embedding_dim=4,
    ),
    "monai-autoencoder-kl": _monai(
        "AutoencoderKL",
        (2, 1, 16, 16),
        **_PLANE | {"out_channels": 1},
        channels=(8, 8),
        latent_channels=2,
        num_res_blocks=1,
        norm_num_groups=4,
        attention_levels=(False, True),
    ),
    "monai-patch-discriminator": _monai(
        "PatchDiscriminator", _IMAGE, spatial_dims=2, channels=4, in_channels=1, num_layers_d=2
    ),
    "diffusers-unet-2d": _diffusers(
        "UNet2DModel",
        lambda: _with_time((2, 3, 16, 16)),
        sample_size=16,
        **_WIDTHS,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    ),
    "diffusers-unet-condition": _diffusers(
        "UNet2DConditionModel",
        lambda: _with_time((2, 4, 16, 16), (2, 5, 12)),
        sample_size=16,
        **_WIDTHS,
        cross_attention_dim=12,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ),
    "diffusers-unet-3d": _diffusers(
        "UNet3DConditionModel",
        lambda: _with_time((1, 4, 3, 8, 8), (1, 5, 12)),
        **_WIDTHS,
        cross_attention_dim=12,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
    ),
    "diffusers-autoencoder-kl": _diffusers(
        "AutoencoderKL", lambda: _tensors((2, 3, 16, 16)), **_VAE
    ),
    "diffusers-vq": _diffusers(
        "VQModel", lambda: _tensors((2, 3, 16, 16)), **_VAE, num_vq_embeddings=8
    ),
    "diffusers-autoencoder-tiny": _diffusers(
        "AutoencoderTiny",
        lambda: _tensors((2, 3, 16, 16)),
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    ),
    "diffusers-dit": _diffusers(
        "DiTTransformer2DModel",
        lambda: [
            (torch.randn(2, 4, 8, 8), torch.randint(0, 900, (2,)), torch.randint(0, 5, (2,)))
            for _ in range(2)
        ],
        **_HEADS,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        dropout=0.1,
        num_embeds_ada_norm=10,
    ),
    "diffusers-transformer-2d": _diffusers(
        "Transformer2DModel",
        lambda: _tensors((2, 16, 8, 8)),
        **_HEADS,
        in_channels=16,
        num_layers=1,
        norm_num_groups=4,
    ),
    "diffusers-prior": _diffusers(
        "PriorTransformer",
        lambda: [
            (
                torch.randn(2, 8),
                torch.randint(0, 900, (2,)),
                torch.randn(2, 8),
                torch.randn(2, 7, 8),
            )
            for _ in range(2)
        ],
        **_HEADS,
        num_layers=2,
        embedding_dim=8,
        num_embeddings=7,
        additional_embeddings=4,
    ),
    "diffusers-uvit": _diffusers(
        "UVit2DModel",
        lambda: [
            (
                torch.randint(0, 16, (2, 4, 4)),
                torch.randn(2, 5, 12),
                torch.randn(2, 16),
                torch.randn(2, 2),
            )
            for _ in range(2)
        ],
        hidden_size=16,
        hidden_dropout=0.1,
        cond_embed_dim=16,
        encoder_hidden_size=12,
        vocab_size=17,
        codebook_size=16,
        in_channels=16,
        block_out_channels=16,
        num_res_blocks=1,
        num_hidden_layers=2,
        num_attention_heads=2,
        block_num_heads=2,
        intermediate_size=32,
        micro_cond_encode_dim=4,
        micro_cond_embed_dim=8,
        downsample=False,
        upsample=False,
        sample_size=4,
    ),
}


def _diffusion_unet() -> tuple[nn.Module, list[Any]]:
    from monai.networks import nets

    model = nets.DiffusionModelUNet(
        spatial_dims=2,
        in_channels=1,
        out_channels=1,
        channels=(8, 8),
        norm_num_groups=4,
        attention_levels=(False, True),
        num_res_blocks=1,
        num_head_channels=8,
    )
    return model, _with_time((2, 1, 16, 16))


def mean_square(model: nn.Module, *batch: Any) -> torch.Tensor:
    """Of all that the model returns."""
    return sum(t.square().mean() for t in _floating(model(*batch)))  # type: ignore[return-value]


def _floating(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, (list, tuple)):
        return [t for item in result for t in _floating(item)]
    return _floating(list(result.values())) if hasattr(result, "values") else []


def build(name: str) -> tuple[nn.Module, Any, list[Any]]:
    torch.manual_seed(0)
    model, batches = CASES[name]()
    return model.train(), mean_square, batches
