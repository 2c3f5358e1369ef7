"""Models of sequences, images and signals as users of PyTorch write them, small: more of the cases
that `handwritten` begins.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from handwritten import case, floats, squares
from torch import nn
from torch.nn.utils import parametrizations

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
