"""The spike of a loss over a large vocabulary: found away by the search, on GPT-2's head."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad

from magis import _core
from magis.capture import capture
from magis.verify import verify_plan

BATCH, LENGTH, WIDTH, WORDS = 4, 512, 768, 50_257
FLOAT = 4
LOGITS = BATCH * LENGTH * WORDS * FLOAT  # 412 MB


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.words = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.words(self.norm(hidden))


def loss(head: nn.Module, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As Hugging Face has it: labels are shifted, and logits stay in one piece."""
    following = pad(labels, (0, 1), value=-100)[:, 1:]
    return cross_entropy(head(hidden).view(-1, WORDS), following.reshape(-1))


def test_logits_are_never_there_at_once() -> None:
    with torch.device("meta"):
        head = Head()
        hidden = torch.empty(BATCH, LENGTH, WIDTH, requires_grad=True)
        labels = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    graph = _core.Graph.parse(capture(head, loss, (hidden, labels), device="cpu").text)
    before = _core.Plan.program_order(graph).simulate("cpu")
    assert before.transient_peak_bytes > 2 * LOGITS
    weight_gradient = WIDTH * WORDS * FLOAT
    # Whatever is live beside the weight's gradient, with an axis of words or not.
    limit = before.persistent_bytes + weight_gradient + LOGITS // 4
    found = _core.optimize(graph, device="cpu", memory_limit=limit, time_budget=10.0)
    assert found.met
    assert verify_plan(found.plan.text()).peak_bytes == found.peak_bytes <= limit
    assert found.seconds < 1.1 * before.seconds
