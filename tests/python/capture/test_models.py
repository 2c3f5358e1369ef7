"""Captured steps of whole models compute what eager mode computes, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn

from magis.capture import Capture, capture


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 128,
}


def hugging_face(family: str, head: str, **config: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    built: nn.Module = getattr(transformers, family + head)(
        getattr(transformers, family + "Config")(**config)
    )
    return built.train()


def own_loss(model: nn.Module, **batch: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss


def tokens() -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 128, (2, 16))
    return {"input_ids": ids, "labels": ids}


def test_bert() -> None:
    step = check_step(hugging_face("Bert", "ForMaskedLM", **TINY), own_loss, tokens())
    assert "magis.bernoulli" in step.text  # dropout is on
    assert not step.as_if_compiled


def test_bert_with_padding_mask() -> None:
    """The model asks whether the mask masks anything; the branch taken is guarded."""
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[0, 10:] = 0
    batch = {**tokens(), "attention_mask": mask}
    step = check_step(hugging_face("Bert", "ForMaskedLM", **TINY), own_loss, batch)
    assert not step.as_if_compiled
    assert step.guards is not None
    assert [read.inputs for read in step.guards.reads] == [(("batch", "['attention_mask']"),)]


def test_bert_with_padding_mask_on_meta() -> None:
    """Where nothing has values, the branch is the one that is right for any mask."""
    batch = {**tokens(), "attention_mask": torch.ones(2, 16, dtype=torch.long)}
    meta = {name: tensor.to("meta") for name, tensor in batch.items()}
    model = hugging_face("Bert", "ForMaskedLM", **TINY).to("meta")
    assert capture(model, own_loss, meta).as_if_compiled


def test_gpt2() -> None:
    sizes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 128, "n_positions": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    check_step(hugging_face("GPT2", "LMHeadModel", **sizes, **ends), own_loss, tokens())


def test_llama() -> None:
    """Also bit for bit: traced without the explicit mask that models build when compiled."""
    model = hugging_face("Llama", "ForCausalLM", **TINY, num_key_value_heads=2)
    assert not check_step(model, own_loss, tokens()).as_if_compiled


def test_llama_without_cache() -> None:
    """It then looks for packed sequences in positions that it has just counted out itself."""
    model = hugging_face("Llama", "ForCausalLM", **TINY, use_cache=False)
    assert not check_step(model, own_loss, tokens()).as_if_compiled


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_of_hugging_face(reentrant: bool) -> None:
    model = hugging_face("Bert", "ForMaskedLM", **TINY)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    step = check_step(model, own_loss, tokens())
    products = [line for line in step.text.splitlines() if "aten.addmm(" in line]
    assert not [line for line in products if line.endswith("backward")]  # nothing runs twice


def test_gpt_neo() -> None:
    model = hugging_face(
        "GPTNeo",
        "ForCausalLM",
        **{"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 128},
        **{"attention_types": [[["global", "local"], 1]], "window_size": 8},
        **{"max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0},
    )
    check_step(model, own_loss, tokens())


def test_vit() -> None:
    sizes = {k: v for k, v in TINY.items() if k != "vocab_size"}
    model = hugging_face(
        "ViT", "ForImageClassification", **sizes, image_size=32, patch_size=8, num_labels=10
    )
    batch = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([1, 2])}
    check_step(model, own_loss, batch)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(16, 5),
    )


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    logits = model(x)
    return F.cross_entropy(logits, y), logits


IMAGES = (torch.linspace(-1, 1, 4 * 3 * 16 * 16).reshape(4, 3, 16, 16), torch.arange(4))


def test_convolutions_with_batch_norm() -> None:
    """Running statistics come out as outputs; the model's own stay as they are until then."""
    step = check_step(convolutional(), classify, IMAGES)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert f'output buffer "1.{name}"' in step.text
        assert f'output buffer "5.{name}"' in step.text


def test_batch_norm_in_eval_mode_changes_nothing() -> None:
    assert "output buffer" not in check_step(convolutional().eval(), classify, IMAGES).text


def test_batch_norm_comes_first() -> None:
    """Nobody asks for the gradient of its input."""
    step = check_step(nn.BatchNorm1d(4), lambda m, x: m(x).square().sum(), torch.randn(3, 4))
    (backward,) = [s for s in step.text.splitlines() if "native_batch_norm_backward(" in s]
    assert ": none, f32[4], f32[4]" in backward


def test_channels_last() -> None:
    model = convolutional().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = IMAGES[0].to(memory_format=torch.channels_last)
    step = check_step(model, classify, (images, IMAGES[1]))
    assert 'param %_0_weight "0.weight" : f32[8,3,3,3]{27,1,9,3}' in step.text


@pytest.mark.parametrize("batch_first", [True, False])
def test_encoder_layer_with_dropout(batch_first: bool) -> None:
    """Eager fills the masks in the memory order of what they apply to, which is transposed here."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.2, batch_first=batch_first)
    step = check_step(layer, lambda m, x: m(x).square().mean(), torch.randn(3, 7, 32))
    masks = [line for line in step.text.splitlines() if "magis.bernoulli" in line]
    assert len(masks) == 4


def test_decoder_layer() -> None:
    layer = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(7)

    def loss(m: nn.Module, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return m(x, memory, tgt_mask=mask).square().mean()

    check_step(layer, loss, (torch.randn(3, 7, 32), torch.randn(3, 5, 32)))


class UpDown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.down = nn.Conv2d(8, 8, 2, 2)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.scale = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = F.gelu(self.norm(self.inward(x)))
        low = self.down(wide)
        result: torch.Tensor = self.out(torch.cat([wide, self.up(low) + self.scale(low)], 1))
        return result


def test_u_shape() -> None:
    batch = (torch.randn(2, 3, 8, 8), torch.randint(0, 2, (2, 8, 8)))
    check_step(UpDown(), lambda m, x, y: F.cross_entropy(m(x), y), batch)


def test_gru() -> None:
    # Eager computes its gates in place, in rows of one long tensor; captured, each is a tensor of
    # its own. Kernels whose vectors do not fill a row of 16 round the two differently.
    model = nn.GRU(8, 32, 2, bidirectional=True, dropout=0.2)
    check_step(model, lambda m, x: m(x)[0].square().mean(), torch.randn(4, 3, 8))


@pytest.mark.parametrize("onednn", [False, True])
def test_lstm(onednn: bool) -> None:
    with torch.backends.mkldnn.flags(enabled=onednn):
        check_step(nn.LSTM(8, 16), lambda m, x: m(x)[0].square().mean(), torch.randn(4, 3, 8))


def test_autocast() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8))
    x = torch.randn(4, 8)

    def under_autocast(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(x).float().square().mean()

    def plain(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m(x).float().square().mean()

    inside = check_step(model, under_autocast, x)
    assert _operators(inside) == _operators(capture(model, plain, x, autocast=torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ambient = capture(model, plain, x)
    assert ambient.autocast is torch.bfloat16
    assert _operators(inside) == _operators(ambient)
    assert "bf16" in inside.text


def test_autocast_casts_a_shared_weight_once() -> None:
    """Eager keeps the cast for as long as autocast lasts."""
    layer = nn.Linear(8, 8)
    step = capture(layer, lambda m, x: m(m(x)).sum(), torch.randn(2, 8), autocast=torch.bfloat16)
    casts = [line for line in step.text.splitlines() if "_to_copy(%weight" in line]
    assert len(casts) == 1


def test_without_loss() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    step = check_step(model.eval(), None, torch.randn(2, 4))
    assert "output aux" in step.text
    assert "output grad" not in step.text
    check_step(model.train(), None, torch.randn(2, 4))


def _operators(step: Capture) -> list[str]:
    lines = [line for line in step.text.splitlines() if line.startswith("%")]
    return [line.split(" @")[0] for line in lines]


def test_every_operator_has_a_place() -> None:
    """Only the seed of the backward pass, and views, may come from nowhere."""
    step = check_step(convolutional(), classify, IMAGES)
    nowhere = [
        line
        for line in step.text.splitlines()
        if line.startswith("%") and " @" not in line and "aten.full(" not in line
    ]
    assert nowhere == []
