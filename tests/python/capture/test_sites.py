"""Every operator says which module ran it, and on which line of the user's code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from capture_support import check_step
from torch import nn

from magis.capture import capture
from magis.verify.document import Document
from magis.verify.text import parse

HERE = "tests/python/capture/test_sites.py"


def line_of(code: str) -> str:
    """ "file.py:12" of the line that holds `code`, followed by this comment sign."""
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        if line.strip().startswith(code) and line.endswith("# here"):
            return f"{HERE}:{number}"
    raise AssertionError(code)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)  # here
        return torch.tanh(y) * x  # here


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = model(x)
    return y.square().mean()  # here


def sites(text: str) -> dict[str, tuple[str, str, bool]]:
    """Module, source and direction of each statement, by its first result."""
    document: Document = parse(text)
    table = document.sites
    return {
        name: (*table.get(operation.site, ("", "")), operation.backward)
        for name, operation in document.operators.items()
    }


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str, bool]]:
    monkeypatch.chdir(Path(__file__).parents[3])
    return sites(check_step(Net(), loss, torch.randn(2, 4)).text)


def test_forward(places: dict[str, tuple[str, str, bool]]) -> None:
    assert places["addmm"] == ("blocks.0.linear", line_of("y = self.linear(x)"), False)
    assert places["addmm_1"] == ("blocks.1.linear", line_of("y = self.linear(x)"), False)
    assert places["tanh"] == ("blocks.0", line_of("return torch.tanh(y)"), False)
    assert places["mean"] == ("", line_of("return y.square()"), False)


def test_backward_inherits(places: dict[str, tuple[str, str, bool]]) -> None:
    assert places["tanh_backward"] == ("blocks.1", line_of("return torch.tanh(y)"), True)
    assert places["tanh_backward_1"] == ("blocks.0", line_of("return torch.tanh(y)"), True)
    products = [place for name, place in places.items() if name.startswith("mm")]
    assert [place[0] for place in products] == ["blocks.1.linear"] * 2 + ["blocks.0.linear"]
    assert all(place[2] for place in products)


def test_accumulated_gradients(places: dict[str, tuple[str, str, bool]]) -> None:
    """The input of a block is read twice: the sum of its gradients belongs to the block."""
    assert places["add"][0].startswith("blocks.1")
    assert places["add"][2]


def test_shared_module_keeps_its_first_path() -> None:
    block = Block()
    places = sites(capture(nn.Sequential(block, block), loss, torch.randn(2, 4)).text)
    assert {place[0] for place in places.values()} <= {"", "0", "0.linear"}


def test_module_outside_of_the_model() -> None:
    criterion = nn.MSELoss()
    step = capture(nn.Linear(4, 4), lambda m, x: criterion(m(x), x), torch.randn(2, 4))
    assert sites(step.text)["mse_loss"][0] == ""


def test_a_module_whose_forward_raises_and_is_caught() -> None:
    class Fragile(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fragile = Fragile()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.fragile(x)
            except ValueError:
                return x.exp()

    model = nn.Sequential(nn.Linear(4, 4), Careful())
    assert sites(capture(model, loss, torch.randn(2, 4)).text)["exp"][0] == "1"


def test_installed_packages_are_named_from_their_root() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        **{"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2},
        **{"intermediate_size": 8, "vocab_size": 16},
    )
    ids = torch.zeros(1, 4, dtype=torch.long)
    step = capture(transformers.BertForMaskedLM(config), lambda m, i: m(i, labels=i).loss, (ids,))
    sources = {place[1] for place in sites(step.text).values()}
    assert any(s.startswith("transformers/models/bert/modeling_bert.py:") for s in sources)
