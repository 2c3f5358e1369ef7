"""Graphs, losses, batches and results as users of PyTorch write them: more of the cases that
`handwritten` begins.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from handwritten import case, floats, squares
from torch import nn
from torch.nn.utils import parametrize

# ---- graphs, experts, losses


@case
def attention_on_a_graph() -> Any:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8, bias=False)
            self.source, self.target = nn.Linear(8, 2), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            h, n = self.linear(x), len(x)
            a, b = edges
            e = F.leaky_relu(self.source(h)[a] + self.target(h)[b], 0.2)
            index = b[:, None].expand_as(e)
            top = torch.full((n, 2), -torch.inf, dtype=e.dtype)
            top = top.scatter_reduce(0, index, e, "amax", include_self=True)
            e = (e - top.detach()[b]).exp()
            total = torch.zeros_like(top).index_add(0, b, e)
            share = F.dropout(e / total[b].clamp(min=1e-9), 0.2)
            messages = (share[:, :, None] * h[a].view(-1, 2, 4)).flatten(1)
            out = torch.zeros_like(h).scatter_reduce(
                0, b[:, None].expand_as(messages), messages, "mean", include_self=False
            )
            return F.elu(out)

    return Layer(), squares, [(torch.randn(6, 8), torch.randint(0, 6, (2, 14))) for _ in range(2)]


@case
def experts_with_dense_gates() -> Any:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.up = nn.Parameter(torch.randn(4, 8, 16) * 0.2)
            self.down = nn.Parameter(torch.randn(4, 16, 8) * 0.2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = self.gate(x).softmax(-1)
            top, chosen = scores.topk(2, -1)
            gates = torch.zeros_like(scores).scatter(-1, chosen, top / top.sum(-1, keepdim=True))
            h = F.silu(torch.einsum("td,edh->eth", x, self.up))
            out = torch.einsum("eth,ehd,te->td", h, self.down, gates)
            load = F.one_hot(chosen, 4).sum(1).to(x.dtype).mean(0)
            return out, 4 * (load * scores.mean(0)).sum()

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        out, balance = m(x)
        return out.square().mean() + 0.01 * balance

    return Experts(), loss, floats(10, 8)


@case
def adaptive_softmax() -> Any:
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(30, 16)
            self.head = nn.AdaptiveLogSoftmaxWithLoss(16, 30, [6, 15], div_value=2.0)

        def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids), target).loss

    batches = [(torch.randint(0, 30, (12,)), torch.randint(0, 30, (12,))) for _ in range(2)]
    return Language(), lambda m, *b: m(*b), batches


@case
def contrastive_distances() -> Any:
    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(m(x)), F.normalize(m(y))
        scores = a @ b.t() / 0.07
        where = torch.arange(len(a))
        far = torch.cdist(a, b)
        same = ids[:, None] == ids
        margin = (far * same).mean() + (F.relu(1 - far) * ~same).mean()
        triplet = F.triplet_margin_loss(a, b, b.roll(1, 0), margin=0.5, swap=True)
        both = F.cross_entropy(scores, where) + F.cross_entropy(scores.t(), where)
        return both + margin + triplet + F.cosine_embedding_loss(a, b, same[0] * 2 - 1, 0.1)

    def make() -> Any:
        return torch.randn(6, 8), torch.randn(6, 8), torch.randint(0, 3, (6,))

    return nn.Sequential(nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 5)), loss, [make(), make()]


@case
def sorted_hinge() -> Any:
    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        score = m(x).squeeze(1)
        errors, order = torch.sort(1 - score * (2.0 * y - 1), descending=True)
        truth = y[order].to(score.dtype)
        inside = truth.sum() - truth.cumsum(0)
        union = truth.sum() + (1 - truth).cumsum(0)
        jaccard = 1 - inside / union
        slope = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
        return torch.dot(F.relu(errors), slope)

    return nn.Linear(8, 1), loss, [(torch.randn(9, 8), torch.randint(0, 2, (9,))) for _ in range(2)]


@case
def variational_autoencoder() -> Any:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(8, 6), nn.Linear(3, 8)

        def forward(self, x: torch.Tensor) -> Any:
            mean, spread = self.encode(x).chunk(2, -1)
            posterior = torch.distributions.Normal(mean, F.softplus(spread))
            z = posterior.rsample()
            prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
            likelihood = torch.distributions.Independent(
                torch.distributions.Bernoulli(logits=self.decode(z)), 1
            )
            return likelihood, torch.distributions.kl_divergence(posterior, prior).sum(-1)

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        likelihood, far = m(x)
        return (far - likelihood.log_prob(x)).mean()

    return Encoder(), loss, [(torch.rand(5, 8).round(),) for _ in range(2)]


@case
def physics_informed() -> Any:
    model = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        u = m(x)
        first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0][:, 0]
        return (first[:, 1] - 0.1 * second + u[:, 0] * first[:, 0]).square().mean()

    return model, loss, floats(7, 2)


@case
def jacobian_in_the_loss() -> Any:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        weights = dict(m.named_parameters())

        def one(row: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(m, weights, (row,))

        jacobian = torch.vmap(torch.func.jacrev(one))(x)
        return jacobian.square().mean() + m(x).square().mean()

    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), loss, floats(5, 4)


# ---- modules, batches, results


@case
def low_rank_weight() -> Any:
    class LowRank(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(8, 2)), nn.Parameter(torch.zeros(2, 8))
            self.register_buffer("used", torch.zeros((), dtype=torch.long))

        def forward(self, w: torch.Tensor) -> torch.Tensor:
            self.used += 1
            return w + self.a @ self.b

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with parametrize.cached():
            return (m(x) + m(x.flip(0))).square().mean()

    model = nn.Linear(8, 8)
    parametrize.register_parametrization(model, "weight", LowRank())
    model.parametrizations.weight.original.requires_grad_(False)
    return model, loss, floats(4, 8)


@case
def momentum_teacher() -> Any:
    class Teacher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
            self.teacher = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
            self.teacher.requires_grad_(False)
            self.register_buffer("centre", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
                for slow, fast in pairs:
                    slow.mul_(0.9).add_(fast, alpha=0.1)
                target = self.teacher(x)
                aim = ((target - self.centre) / 0.1).softmax(-1)
                self.centre.lerp_(target.mean(0), 0.1)
            return -(aim * self.student(x).log_softmax(-1)).sum(-1).mean()

    return Teacher(), lambda m, x: m(x), floats(6, 8)


@dataclasses.dataclass
class Prediction:
    loss: torch.Tensor
    scores: torch.Tensor
    states: dict[str, tuple[torch.Tensor, ...]]


@case
def nested_batch() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.image = nn.Embedding(9, 8), nn.Linear(4, 8)

        def forward(self, inputs: Any, targets: Any = None) -> Prediction:
            h = self.tokens(inputs["text"]["ids"]).mean(1)
            for view in inputs["images"]:
                h = h + self.image(view)
            scores = h * inputs["text"]["scale"]
            loss = F.mse_loss(scores, targets["value"], reduction="none")[targets["mask"]].mean()
            return Prediction(loss, scores, {"hidden": (h, h.detach().abs())})

    def loss(m: nn.Module, **batch: Any) -> Any:
        out = m(**batch)
        return out.loss, out

    def make() -> Any:
        text = {"ids": torch.randint(0, 9, (3, 4)), "scale": 0.5}
        images = [torch.randn(3, 4), torch.randn(3, 4)]
        targets = {"value": torch.randn(3, 8), "mask": torch.rand(3, 8) > 0.5}
        return {"inputs": {"text": text, "images": images}, "targets": targets}

    return Net(), loss, [make(), make()]


@torch.library.custom_op("magis_sweep::add_outer", mutates_args=("out", "total"))
def _add_outer(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, total: torch.Tensor) -> None:
    out.add_(x[:, None] * y)
    total.add_(x.sum())


class _Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        out = torch.zeros(len(x), len(y), dtype=x.dtype)
        _add_outer(x, y, out, total)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return grad @ y, x @ grad, None


@case
def operator_that_writes() -> Any:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.linear(x)
            return _Outer.apply(h[0], h[1], self.total) + _Outer.apply(h[1], h[0], self.total)

    return Outer(), squares, floats(2, 8)


@case
def greatest_of_each_bag() -> Any:
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.most = nn.EmbeddingBag(20, 6, mode="max", padding_idx=0)
            self.mean = nn.EmbeddingBag(20, 6, mode="mean", include_last_offset=True)
            self.sum = nn.EmbeddingBag(20, 6, mode="sum")

        def forward(self, ids: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            weighted = self.sum(ids, per_sample_weights=w)
            return self.most(ids) + self.mean(ids.flatten(), ends) * weighted

    batches = [
        (torch.randint(0, 20, (3, 4)), torch.rand(3, 4), torch.tensor(ends))
        for ends in ([0, 4, 9, 12], [0, 0, 5, 12])
    ]
    return Bags(), squares, batches
