"""Models as users of PyTorch write them, small: more of the cases that `handwritten` begins."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
import torch.nn.functional as F
from handwritten import CASES, Lambda, case, floats, squares
from torch import nn
from torch.nn.utils import parametrizations, parametrize

# ---- attention and sequences


@case
def attention_with_padding_and_weights() -> Any:
    def loss(m: nn.Module, x: torch.Tensor, pad: torch.Tensor) -> Any:
        out, weights = m(x, x, x, key_padding_mask=pad, need_weights=True)
        return out.square().mean() + weights.square().sum(), weights

    def pad(*lengths: int) -> torch.Tensor:
        return torch.arange(6) >= torch.tensor(lengths)[:, None]

    model = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
    return model, loss, [(torch.randn(3, 6, 8), pad(*n)) for n in ([6, 4, 2], [3, 6, 5])]


@case
def whole_transformer() -> Any:
    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source = nn.Embedding(20, 8, padding_idx=0)
            self.target = nn.Embedding(20, 8, padding_idx=0)
            self.body = nn.Transformer(8, 2, 2, 2, 16, 0.1, norm_first=True, batch_first=True)
            self.head = nn.Linear(8, 20)

        def forward(self, s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            causal = nn.Transformer.generate_square_subsequent_mask(t.shape[1])
            h = self.body(
                self.source(s),
                self.target(t),
                tgt_mask=causal,
                src_key_padding_mask=s == 0,
                tgt_key_padding_mask=t == 0,
                memory_key_padding_mask=s == 0,
                tgt_is_causal=True,
            )
            return self.head(h)

    def loss(m: nn.Module, s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        scores = m(s, t[:, :-1])
        return F.cross_entropy(
            scores.flatten(0, 1), t[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1
        )

    def tokens(*lengths: int) -> torch.Tensor:
        ids = torch.randint(1, 20, (len(lengths), 6))
        return ids.masked_fill(torch.arange(6) >= torch.tensor(lengths)[:, None], 0)

    return Translator(), loss, [(tokens(6, 4), tokens(5, 6)), (tokens(3, 6), tokens(6, 4))]


@case
def gru_with_attention() -> Any:
    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 10)
            self.encoder = nn.GRU(10, 12, 2, batch_first=True, bidirectional=True, dropout=0.2)
            self.bridge = nn.Linear(24, 12)
            self.cell = nn.GRUCell(10 + 24, 12)
            self.score = nn.Linear(12 + 24, 1)
            self.head = nn.Linear(12 + 24, 20)

        def forward(self, s: torch.Tensor, n: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embed(s), n, batch_first=True, enforce_sorted=False
            )
            packed, last = self.encoder(packed)
            memory, _ = nn.utils.rnn.pad_packed_sequence(packed, True, total_length=s.shape[1])
            hidden = self.bridge(torch.cat([last[-2], last[-1]], 1)).tanh()
            context = memory.new_zeros(len(s), 24)
            scores = []
            for word in self.embed(t).unbind(1):
                hidden = self.cell(torch.cat([word, context], 1), hidden)
                wide = hidden[:, None].expand(-1, memory.shape[1], -1)
                match = self.score(torch.cat([wide, memory], 2)).squeeze(2)
                match = match.masked_fill(torch.arange(s.shape[1]) >= n[:, None], -1e9)
                context = (match.softmax(1)[:, None] @ memory).squeeze(1)
                scores.append(self.head(torch.cat([hidden, context], 1)))
            return torch.stack(scores, 1)

    def loss(m: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(m(*batch).transpose(1, 2), batch[2])

    def make(*lengths: int) -> Any:
        ids = torch.randint(0, 20, (3, 5))
        return ids, torch.tensor(lengths), torch.randint(0, 20, (3, 4))

    return Seq2Seq(), loss, [make(5, 3, 2), make(4, 5, 1)]


@case
def wide_gru() -> Any:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(24, 40, 2, batch_first=True, bidirectional=True, dropout=0.3)
            self.head = nn.Linear(80, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.gru(x)[0])

    return Tagger(), squares, floats(9, 7, 24)


@case
def lstm_with_projections_and_cells() -> Any:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 20, 2, proj_size=8, dropout=0.1)
            self.cell = nn.LSTMCell(8, 17)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out, (h, c) = self.lstm(x)
            state = None
            for row in out:
                state = self.cell(row, state)
            return state[0].sum() + state[1].square().sum() + h.sum() * c.mean()

    return Both(), lambda m, x: m(x), floats(5, 7, 6)


@case
def speech_with_ctc() -> Any:
    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, (5, 3), stride=(2, 1), padding=(2, 1))
            self.norm = nn.BatchNorm2d(4)
            self.gru = nn.GRU(4 * 6, 16, batch_first=True, bidirectional=True)
            self.head = nn.Linear(32, 9)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = F.hardtanh(self.norm(self.conv(x[:, None])), 0, 20)
            h, _ = self.gru(h.permute(0, 2, 1, 3).flatten(2))
            return self.head(h).log_softmax(-1)

    def loss(m: nn.Module, x: torch.Tensor, n: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        h = m(x).transpose(0, 1)
        targets, lengths = rest
        return F.ctc_loss(h, targets, (n + 1) // 2, lengths, zero_infinity=True)

    def make(*lengths: int) -> Any:
        words = torch.randint(1, 9, (2, 4)), torch.tensor([4, 3])
        return torch.randn(2, 24, 6), torch.tensor(lengths), *words

    return Speech(), loss, [make(24, 18), make(20, 24)]


@case
def conditional_random_field() -> Any:
    def loss(m: nn.Module, x: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> Any:
        scores, moves = m[0](x), m[1].weight
        alpha = scores[:, 0]
        for t in range(1, x.shape[1]):
            step = torch.logsumexp(alpha[:, :, None] + moves + scores[:, t, None], 1)
            alpha = torch.where(mask[:, t, None], step, alpha)
        gold = scores.gather(2, tags[..., None]).squeeze(2) * mask
        turns = moves[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        return (alpha.logsumexp(1) - gold.sum(1) - turns.sum(1)).mean()

    def make(*lengths: int) -> Any:
        mask = torch.arange(6) < torch.tensor(lengths)[:, None]
        return torch.randn(2, 6, 8), torch.randint(0, 5, (2, 6)), mask

    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 5, bias=False))
    return model, loss, [make(6, 3), make(2, 5)]


@case
def positions_by_cumsum() -> Any:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 8, padding_idx=1)
            self.places = nn.Embedding(12, 8, padding_idx=1)
            self.norm = nn.LayerNorm(8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            mask = ids.ne(1).int()
            places = (torch.cumsum(mask, 1).type_as(mask) * mask).long() + 1
            return self.norm(self.words(ids) + self.places(places)) * mask[..., None]

    return Encoder(), squares, [(torch.randint(0, 5, (3, 7)),) for _ in range(2)]


@case
def images_among_words() -> Any:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 8)
            self.vision = nn.Linear(6, 8)
            self.head = nn.Linear(8, 20)

        def forward(self, ids: torch.Tensor, patches: torch.Tensor) -> torch.Tensor:
            h = self.words(ids)
            here = (ids == 0)[..., None].expand_as(h)
            return self.head(h.masked_scatter(here, self.vision(patches)))

    def make(*places: int) -> Any:
        ids = torch.randint(1, 20, (2, 6))
        ids.view(-1)[list(places)] = 0
        return ids, torch.randn(len(places), 6)

    return Mixed(), squares, [make(0, 1, 7, 8), make(2, 3, 4, 9)]


# ---- images and signals


@case
def gated_dilated_convolutions() -> Any:
    class Block(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            conv = nn.Conv1d(6, 12, 2, dilation=dilation)
            self.conv = parametrizations.weight_norm(conv)
            self.out = parametrizations.weight_norm(nn.Conv1d(6, 12, 1))
            self.left = dilation

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a, b = self.conv(F.pad(x, (self.left, 0))).chunk(2, 1)
            residual, skip = self.out(a.tanh() * b.sigmoid()).chunk(2, 1)
            return (x + residual) * math.sqrt(0.5), skip

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(2**i) for i in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = 0.0
            for block in self.blocks:
                x, skip = block(x)
                total = total + skip
            return total.relu()

    return Net(), squares, floats(3, 6, 20)


@case
def discriminator_with_penalty() -> Any:
    sn = parametrizations.spectral_norm
    model = nn.Sequential(
        sn(nn.Conv2d(3, 8, 4, 2, 1)),
        nn.LeakyReLU(0.2),
        sn(nn.Conv2d(8, 8, 4, 2, 1)),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        sn(nn.Linear(32, 1)),
    )

    def loss(m: nn.Module, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        share = torch.rand(len(real), 1, 1, 1)
        between = (share * real + (1 - share) * fake).requires_grad_()
        slope = torch.autograd.grad(m(between).sum(), between, create_graph=True)[0]
        penalty = (slope.flatten(1).norm(2, 1) - 1).square().mean()
        return F.relu(1 - m(real)).mean() + F.relu(1 + m(fake)).mean() + 10 * penalty

    return model, loss, [(torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8)) for _ in range(2)]


@case
def squeeze_and_excite() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Conv2d(8, 16, 1, bias=False)
            self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
            self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (16, 16, 8))
            self.down, self.up = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
            self.out = nn.Conv2d(16, 8, 1, bias=False)
            self.act = nn.Hardswish(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.act(self.norms[0](self.wide(x)))
            h = self.act(self.norms[1](self.deep(h)))
            gate = F.relu(self.down(F.adaptive_avg_pool2d(h, 1)), inplace=True)
            h = h * F.hardsigmoid(self.up(gate), inplace=True)
            return x + self.norms[2](self.out(h))

    return nn.Sequential(Block(), nn.RReLU(), Block()), squares, floats(3, 8, 6, 6)


@case
def spatial_transformer() -> Any:
    class Warp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.find = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten())
            self.angle = nn.Linear(4 * 36, 6)
            nn.init.zeros_(self.angle.weight)
            self.angle.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            theta = self.angle(self.find(x)).view(-1, 2, 3)
            grid = F.affine_grid(theta, list(x.shape), align_corners=False)
            return F.grid_sample(x, grid, padding_mode="border", align_corners=False)

    return Warp(), squares, floats(3, 2, 8, 8)


@case
def super_resolution() -> Any:
    class Sharper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Conv2d(3, 12, 5, padding=2, padding_mode="reflect")
            self.tail = nn.Sequential(nn.PReLU(12), nn.Conv2d(12, 12, 3, padding=1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            up = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
            return F.pixel_shuffle(self.tail(self.head(x)), 2) + up

    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = m(x)
        flat = F.interpolate(out, size=(5, 7), mode="bilinear", antialias=True).abs().mean()
        return F.l1_loss(out, y) + flat + F.smooth_l1_loss(F.pixel_unshuffle(out, 2), m.head(x))

    return Sharper(), loss, [(torch.randn(2, 3, 6, 6), torch.randn(2, 3, 12, 12)) for _ in range(2)]


@case
def deformable_gathers() -> Any:
    class Deformable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Conv2d(4, 2 * 9, 3, padding=1)
            self.mix = nn.Linear(4 * 9, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n, c, h, w = x.shape
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            dy, dx = self.offset(x).view(n, 2, 9, h, w).unbind(1)
            y, x_ = (rows + dy).clamp(0, h - 1), (columns + dx).clamp(0, w - 1)
            y0, x0 = y.floor().long(), x_.floor().long()
            y1, x1 = (y0 + 1).clamp(max=h - 1), (x0 + 1).clamp(max=w - 1)
            flat = x.flatten(2)

            def at(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
                index = (i * w + j).flatten(1)[:, None].expand(-1, c, -1)
                return flat.gather(2, index).view(n, c, 9, h, w)

            fy, fx = (y - y0)[:, None], (x_ - x0)[:, None]
            top = at(y0, x0) * (1 - fx) + at(y0, x1) * fx
            bottom = at(y1, x0) * (1 - fx) + at(y1, x1) * fx
            sampled = top * (1 - fy) + bottom * fy
            return self.mix(sampled.permute(0, 3, 4, 1, 2).flatten(3))

    return Deformable(), squares, floats(2, 4, 5, 6)


@case
def fourier_operator() -> Any:
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, 3, 3, dtype=torch.cfloat) * 0.1)
            self.local = nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = torch.fft.rfft2(x)
            out = torch.zeros_like(z)
            weight = self.weight.to(z.dtype)
            out[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", z[:, :, :3, :3], weight)
            return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.local(x))

    return Spectral(), squares, floats(2, 4, 8, 8)


@case
def transposed_and_frozen() -> Any:
    class Up(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 6, 3, padding=1)
            self.up = nn.ConvTranspose2d(6, 4, 4, 2, 1).requires_grad_(False)
            self.again = nn.ConvTranspose2d(4, 4, 2, 2)
            self.again.weight.requires_grad_(False)
            self.line = nn.ConvTranspose1d(4, 2, 3, stride=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.line(self.again(self.up(self.first(x)).relu()).flatten(2))

    return Up(), squares, floats(2, 3, 6, 6)


@case
def patches_folded() -> Any:
    class Overlap(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(27, 27)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            patches = F.unfold(x, 3, padding=1, stride=2).transpose(1, 2)
            out = self.linear(patches).transpose(1, 2)
            weight = F.fold(torch.ones_like(out), x.shape[-2:], 3, padding=1, stride=2)
            return F.fold(out, x.shape[-2:], 3, padding=1, stride=2) / weight.clamp(min=1)

    return Overlap(), squares, floats(2, 3, 8, 8)


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


@case
def runge_kutta() -> Any:
    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = nn.Sequential(nn.Linear(9, 12), nn.Softplus(), nn.Linear(12, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def slope(t: float, y: torch.Tensor) -> torch.Tensor:
                return self.field(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

            step = 0.25
            for i in range(4):
                t = i * step
                a = slope(t, x)
                b = slope(t + step / 2, x + step / 2 * a)
                c = slope(t + step / 2, x + step / 2 * b)
                d = slope(t + step, x + step * c)
                x = x + step / 6 * (a + 2 * b + 2 * c + d)
            return x

    return Flow(), squares, floats(4, 8)


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


@case
def paths_dropped_by_sample() -> Any:
    class Path(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i, layer in enumerate(self.layers):
                keep = 1 - 0.2 * i
                mask = x.new_empty(len(x), 1).bernoulli_(keep)
                x = x + layer(x) * (mask.div_(keep) if keep > 0 else mask)
            return x

    return Path(), squares, floats(6, 8)


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


@case
def rearranged_windows() -> Any:
    def windows(h: torch.Tensor) -> torch.Tensor:
        x = h.view(2, 4, 4, 8).roll((-1, -1), (1, 2))
        x = x.view(2, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(8, 4, 8)
        q, k, v = x.unflatten(-1, (2, 4)).movedim(2, 1).repeat(1, 1, 1, 3).split(4, -1)
        out = (q @ k.mT / 2).softmax(-1) @ v
        out = out.swapaxes(1, 2).flatten(-2).view(2, 2, 2, 2, 2, 8).transpose(2, 3)
        return torch.tensor_split(out.reshape(2, 4, 4, 8).roll((1, 1), (1, 2)), 3, -1)[0]

    return Lambda(windows), squares, floats(2, 16, 8)


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
