"""The models themselves, in eager PyTorch."""

import builtins
import json

import pytest
import torch

from magis import zoo
from magis.errors import MagisError

VARIANTS = ("real", "paper")
SIZES = ("tiny", "small", "full")
EVERY = [(name, variant) for name in zoo.names() for variant in VARIANTS]

# As published; where sources count differently, what they count is said.
PUBLISHED = {
    "resnet50": 25_557_032,
    "unet": 31_037_698,  # three channels in, two classes
    "bert": 109_514_298,  # BERT-base without its pooler, with the head that guesses
    "vit": 86_567_656,
    "gpt2": 124_439_808,
    "gpt-neo": 1_315_575_808,
    "llama": 1_100_048_384,
    "btlm": 2_646_255_744,
}


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_a_tiny_step_gives_a_finite_loss_and_every_gradient(name: str, variant: str) -> None:
    model, loss_fn, batch = zoo.build(name, variant=variant)
    loss = loss_fn(model, **batch)
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert parameter.grad.any(), path


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_three_steps_of_plain_descent_lower_the_loss(name: str, variant: str) -> None:
    model, loss_fn, batch = zoo.build(
        name, variant=variant, dropout=0.0 if has_dropout(name, variant) else None
    )
    first = loss_fn(model, **batch)
    loss = first
    for _ in range(3):
        model.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert norm.isfinite()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
        loss = loss_fn(model, **batch)
    assert loss < first


def has_dropout(name: str, variant: str) -> bool:
    return variant == "real" and "dropout" in zoo.entry(name).options


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_parameters_are_as_described_and_take_no_memory_on_meta(
    name: str, variant: str, size: str
) -> None:
    model, _, batch = zoo.build(name, size=size, variant=variant, device="meta")
    described = zoo.entry(name).sizes[size]
    expected = described.parameters if variant == "real" else described.paper_parameters
    assert parameters(model) == expected
    tensors = [*model.parameters(), *model.buffers(), *batch.values()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert all(len(tensor) == described.batch for tensor in batch.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_full_size_is_the_published_one(name: str) -> None:
    assert zoo.entry(name).sizes["full"].parameters == PUBLISHED[name]


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_paper_variants_hold_only_what_the_paper_keeps(name: str, variant: str) -> None:
    model, _, batch = zoo.build(name, variant=variant, device="meta")
    left_out = (torch.nn.Dropout, torch.nn.Embedding, torch.nn.modules.batchnorm._BatchNorm)
    kinds = {type(module) for module in model.modules() if isinstance(module, left_out)}
    if variant == "paper":
        assert not kinds
        assert not list(model.buffers())
        assert all(tensor.is_floating_point() for tensor in batch.values())
        assert all(parameter.dim() > 1 for parameter in model.parameters()), "a bias or a scale"
    else:
        assert kinds


@pytest.mark.parametrize("name", zoo.names())
def test_equal_seeds_give_equal_weights_and_batches(name: str) -> None:
    def content(seed: int) -> list[torch.Tensor]:
        model, _, batch = zoo.build(name, seed=seed)
        return [*model.state_dict().values(), *batch.values()]

    first = content(seed=1)
    assert all(map(torch.equal, first, content(seed=1)))
    assert not all(map(torch.equal, first, content(seed=2)))


def test_building_leaves_the_generator_and_the_default_dtype_as_they_were() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    zoo.build("bert", dtype="bfloat16")
    with pytest.raises(MagisError):
        zoo.build("unet", image=33, dtype="bfloat16")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_dtype_is_that_of_weights_inputs_and_loss(name: str, variant: str) -> None:
    model, loss_fn, batch = zoo.build(name, variant=variant, dtype="float64")
    floats = [*model.parameters(), *(t for t in batch.values() if t.is_floating_point())]
    assert {tensor.dtype for tensor in floats} == {torch.float64}
    # Some of transformers' losses compute in float32 whatever the model's dtype.
    assert loss_fn(model, **batch).dtype in (torch.float64, torch.float32)


@pytest.mark.parametrize(
    ("name", "options", "key", "shape"),
    [
        ("bert", {"batch": 3, "seq": 9}, "input_ids", (3, 9)),
        ("bert", {"batch": 3, "seq": 9, "variant": "paper"}, "x", (3, 9, 32)),
        ("btlm", {"seq": 5}, "tokens", (2, 5)),
        ("vit", {"batch": 3, "image": 40}, "pixel_values", (3, 3, 40, 40)),
        ("vit", {"image": 40, "variant": "paper"}, "target", (2, 25, 10)),
        ("resnet50", {"batch": 3, "image": 48}, "x", (3, 3, 48, 48)),
        ("unet", {"image": 48}, "labels", (2, 48, 48)),
        ("unet++", {"image": 48, "variant": "paper"}, "x", (2, 1, 48, 48)),
        ("mlp", {"batch": 3}, "x", (3, 32)),
    ],
)
def test_options_shape_the_batch(
    name: str, options: dict[str, int], key: str, shape: tuple[int, ...]
) -> None:
    model, loss_fn, batch = zoo.build(name, **options)
    assert batch[key].shape == shape
    assert loss_fn(model, **batch).isfinite()


@pytest.mark.parametrize("name", [n for n in zoo.names() if len(zoo.entry(n).attention) > 1])
def test_both_kinds_of_attention_compute_the_same(name: str) -> None:
    losses = []
    for attention in ("sdpa", "eager"):
        model, loss_fn, batch = zoo.build(name, attention=attention, dropout=0.0)
        losses.append(loss_fn(model, **batch))
    torch.testing.assert_close(*losses)


def test_dropout_rates_are_the_models_own_unless_given() -> None:
    def rates(dropout: float | None) -> set[float]:
        model, _, _ = zoo.build("bert", dropout=dropout)
        return {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}

    assert rates(None) == {0.1}
    assert rates(0.0) == {0.0}
    assert rates(0.25) == {0.25}


def test_masked_share_of_berts_labels() -> None:
    _, _, batch = zoo.build("bert", batch=200, seq=64)
    hidden = batch["labels"] != -100
    assert 0.13 < hidden.float().mean() < 0.20
    assert (batch["input_ids"][hidden] == 0).all()


@pytest.mark.parametrize("name", ["btlm", "gpt2", "gpt-neo", "llama"])
def test_language_models_do_not_see_the_future(name: str) -> None:
    model, _, batch = zoo.build(name)
    model.eval()
    tokens = batch.get("tokens", batch.get("input_ids"))
    changed = tokens.clone()
    changed[:, -1] = (tokens[:, -1] + 1) % 100

    def logits(ids: torch.Tensor) -> torch.Tensor:
        out = model(ids)
        return out if isinstance(out, torch.Tensor) else out.logits

    before, after = logits(tokens), logits(changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_btlm_penalises_distance_linearly() -> None:
    from magis.zoo.btlm import alibi_slopes, causal_alibi_bias

    slopes = alibi_slopes(4)
    assert slopes.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]
    head = causal_alibi_bias(slopes, 3)[0]
    ahead = float("-inf")
    assert head.tolist() == [[0, ahead, ahead], [-0.25, 0, ahead], [-0.5, -0.25, 0]]


def test_unet_plus_plus_supervises_four_heads() -> None:
    model, loss_fn, batch = zoo.build("unet++")
    heads = model(batch["x"])
    assert [head.shape for head in heads] == [(2, 2, 32, 32)] * 4
    each = [torch.nn.functional.cross_entropy(head, batch["labels"]) for head in heads]
    # Batch norm in training mode computes the same whatever its running statistics.
    torch.testing.assert_close(loss_fn(model, **batch), sum(each) / 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "brt"}, 'no zoo model "brt"; did you mean "bert"?'),
        ({"name": "bert", "size": "huge"}, 'size: "huge" is not known; it is tiny, small or full'),
        ({"name": "bert", "variant": "x"}, 'variant: "x" is not known; it is real or paper'),
        (
            {"name": "mlp", "seq": 4},
            "mlp has no seq; its options: batch, dtype, variant or dropout",
        ),
        ({"name": "bert", "batch": 0}, "batch must be at least 1, not 0"),
        ({"name": "bert", "seq": 65}, "seq 65 is longer than this size's 64 positions"),
        ({"name": "vit", "image": 30}, "image must be a multiple of 8, not 30"),
        ({"name": "unet++", "image": 24}, "image must be a multiple of 16, not 24"),
        (
            {"name": "resnet50", "dropout": 0.1},
            "resnet50 has no dropout, so its rate cannot be 0.1",
        ),
        (
            {"name": "bert", "dropout": 0.1, "variant": "paper"},
            "paper variants have no dropout, so its rate cannot be 0.1",
        ),
        ({"name": "bert", "dropout": 1.0}, "dropout must lie in [0, 1), not 1.0"),
        (
            {"name": "gpt-neo", "attention": "sdpa"},
            'attention of gpt-neo: "sdpa" is not known; it is eager',
        ),
        (
            {"name": "mlp", "attention": "sdpa"},
            'attention of mlp: "sdpa" is not known; it has none',
        ),
        ({"name": "mlp", "dtype": "int64"}, 'dtype "int64" is not one of floating point'),
        ({"name": "mlp", "dtype": "nn"}, 'dtype "nn" is not one of floating point'),
    ],
)
def test_what_a_model_does_not_understand_is_named(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(MagisError) as error:
        zoo.build(**arguments)
    assert str(error.value).startswith(message)


def test_missing_transformers_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_transformers(name: str, *args: object, **kwargs: object) -> object:
        if name == "transformers":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_transformers)
    with pytest.raises(MagisError, match="pip install transformers"):
        zoo.build("bert")
    zoo.build("bert", variant="paper")
    zoo.build("btlm")


def test_description_is_json_and_complete() -> None:
    described = json.loads(json.dumps(zoo.describe()))
    assert [model["name"] for model in described] == zoo.names()
    assert len(described) == 10
    for model in described:
        assert list(model["sizes"]) == list(SIZES)
        assert model["summary"]
        length = model["sizes"]["full"]["seq"] or model["sizes"]["full"]["image"]
        assert length or model["name"] == "mlp"
