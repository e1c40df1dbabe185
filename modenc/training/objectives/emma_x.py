r"""EMMA-X (Guo et al., 2023): an encoder and a classifier of similarity teach each other on unpaired text.

Pairs of sentences fall into N ranks of similarity, 1 (paraphrases) to N (unrelated). With unit vectors γ the
classifier is a mixture over their differences, diagonal Gaussians of trained π, μ, σ (equation 5):

    P(c = r | x, y) = π_r N(γx - γy; μ_r, σ_r) / Σ_j π_j N(γx - γy; μ_j, σ_j)

Phase 1, on translations (x, y), y' another sentence of the batch:
    encoder:     InfoNCE over cosines (equation 2)
    classifier:  -log P(1|x, y) - log P(N|x, y') - log P(r|x, ỹ)      (equation 4), where with λ ~ U[0, 1]
                 γỹ = (1-λ) γy + λ γy',  r = ⌈(1-λ)·1 + λ·N⌉           (equation 3)

Phase 2, on a batch x_1 … x_B of unpaired text and the queue's y_1 … y_K, each module taught by the other:
    c_M = argmin_r |cos(x_i, y_k) - s_r|            (equation 10) teaches the classifier, equation 6
    c_G = argmax_r P(r | x_i, y_k)                  (equation 9) teaches the encoder by ranking InfoNCE:
    L = -mean_i Σ_{r<N} log( Σ_{c_G=r} exp(cos/τ_r) / Σ_{c_G>=r} exp(cos/τ_r) ),  τ_1 < τ_2 < …   (equation 7)
    s_r ← ε s_r + (1-ε) · mean cos of the pairs with c_G = r            (equation 11)

The queue holds what a momentum encoder gave for past batches, and vectors of the pivot's text; an anchor is
not compared with itself. Where no pair has rank r, its term is 0. The paper starts s_r at r/N and counts rank
1 as the closest: s_r starts at (N-r+1)/N here, so that the closest have the highest cosine. The paper's many
steps forget any start; hundreds do not, and where unrelated sentences have cosines of 0.75, as many bases
give them, the last ranks would never be met. So s_r is the plain mean of what was measured, from phase 1 on,
until ε forgets faster than that, and the Gaussians start at the spreads of the first batch. Appendix G writes
π into N_r once more; equation 5 is what is meant.

Differences are [batch, B + K, hidden] for each rank; they are made ``chunk`` columns at a time, forward and
again backward. Both losses are computed in float32 whatever the encoder computes in: at τ = 0.04 bfloat16's
cosines would be wrong in the first digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from modenc.training.objectives.contrast import TranslationLoss, mask_duplicates, ranking_loss
from modenc.training.objectives.momentum import MomentumCopy, VectorQueue


class GaussianRanks(nn.Module):
    """The mixture of equation 5."""

    def __init__(self, ranks: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(ranks))
        self.mean = nn.Parameter(torch.zeros(ranks, hidden))
        # Unit vectors with cosine c are 2 (1 - c) apart, squared: the ranks start at cosines (N - r) / N.
        spread = torch.arange(1, ranks + 1) / ranks
        self.log_std = nn.Parameter((spread * 2 / hidden).log()[:, None].repeat(1, hidden) / 2)

    @torch.no_grad()
    def start_at(self, nearest: Tensor, farthest: Tensor) -> None:
        """Set the spreads to those of the first and the last rank's differences [pairs, hidden].

        What lies between moves from one to the other: a share λ of the way, the squared distance is about the
        first's and λ² of what the last has more.
        """
        ranks, hidden = self.log_std.shape
        low, high = (part.square().mean() for part in (nearest, farthest))
        share = torch.arange(ranks, device=low.device) / max(ranks - 1, 1)
        variance = low + share.square() * (high - low).clamp(min=0)
        self.log_std.copy_((variance.clamp(min=1e-8).log() / 2)[:, None].expand(ranks, hidden))

    def forward(self, differences: Tensor) -> Tensor:
        """The ``log P(c = r | difference)`` of differences [..., hidden]: [..., ranks]."""
        away = (differences[..., None, :] - self.mean) * (-self.log_std).exp()
        density = -0.5 * away.square().sum(dim=-1) - self.log_std.sum(dim=-1)
        return (self.weight + density - 0.5 * differences.shape[-1] * math.log(2 * math.pi)).log_softmax(-1)


class NetworkRanks(nn.Module):
    """The paper's "FCN" ablation: a network of one inner layer over the difference."""

    def __init__(self, ranks: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, ranks))

    def forward(self, differences: Tensor) -> Tensor:
        """The ``log P(c = r | difference)`` of differences [..., hidden]: [..., ranks]."""
        log_probabilities: Tensor = self.layers(differences).log_softmax(dim=-1)
        return log_probabilities


def virtual_ranks(share: Tensor, ranks: int) -> Tensor:
    """⌈(1-λ)·1 + λ·N⌉ of equation 3's λ, less 1: ranks count from 0 in tensors."""
    return ((1 - share) + share * ranks).ceil().long() - 1


def ranks_by_cosine(cosines: Tensor, means: Tensor) -> Tensor:
    """Equation 10: the rank, from 0, whose mean [ranks] is nearest to each cosine."""
    return (cosines[..., None] - means).abs().argmin(dim=-1)


def update_rank_means(means: Tensor, cosines: Tensor, ranks: Tensor, momentum: Tensor | float) -> Tensor:
    """Equation 11 over a batch: ranks without a pair keep their mean [ranks]; ``momentum`` may be each's."""
    chosen = nn.functional.one_hot(ranks.flatten(), len(means)).to(cosines)
    count = chosen.sum(dim=0)
    now = (chosen * cosines.flatten()[:, None]).sum(dim=0) / count.clamp(min=1)
    return torch.where(count > 0, momentum * means + (1 - momentum) * now, means)


def ranking_info_nce(
    cosines: Tensor, ranks: Tensor, temperatures: Tensor, excluded: Tensor | None = None
) -> Tensor:
    """Equation 7, a mean over anchors, of cosines and ranks (from 0) [anchors, candidates].

    Args:
        cosines: of anchors with candidates.
        ranks: of the same.
        temperatures: τ_1 … τ_{N-1} [N - 1].
        excluded: true where a candidate is none, an anchor's own copy [anchors, candidates].
    """
    total = 0.0 * cosines.sum()
    nowhere = torch.zeros_like(ranks, dtype=torch.bool) if excluded is None else excluded
    for rank, temperature in enumerate(temperatures):
        scores = cosines / temperature
        positive, rest = (ranks == rank) & ~nowhere, (ranks >= rank) & ~nowhere
        has = positive.any(dim=1)
        if has.any():
            over, under = (
                scores[has].masked_fill(~chosen[has], float("-inf")).logsumexp(dim=1)
                for chosen in (positive, rest)
            )
            total = total + (under - over).sum()
    return total / len(cosines)


@dataclass(frozen=True)
class EmmaXOptions:
    """Sizes and rates of what EMMA-X throws away."""

    ranks: int = 4
    """N."""
    classifier: Literal["gmm", "fcn"] = "gmm"
    """The mixture, or the network."""
    queue: int = 256
    """K."""
    momentum: float = 0.99
    """Of the momentum encoder."""
    rank_momentum: float = 0.99
    """ε."""
    temperature: float = 0.04
    """τ of phase 1, and τ_1."""
    temperature_top: float = 0.08
    """τ_{N-1}; those between rise evenly."""
    chunk: int = 512
    """Candidates whose differences are held in memory at once; changes no result."""


class EmmaXParts(nn.Module):
    """What is thrown away after training: the classifier, s, the queue, ``model``'s momentum encoder."""

    means: Tensor
    measured: Tensor

    def __init__(self, model: nn.Module, hidden: int, options: EmmaXOptions) -> None:
        super().__init__()
        kind, ranks = {"gmm": GaussianRanks, "fcn": NetworkRanks}[options.classifier], options.ranks
        self.classifier: nn.Module = kind(ranks, hidden)
        self.register_buffer("means", torch.arange(ranks, 0, -1) / ranks)
        self.register_buffer("measured", torch.zeros(ranks))
        self.queue = VectorQueue(options.queue, hidden)
        self.momentum = MomentumCopy(model, options.momentum)
        self.options = options

    def temperatures(self) -> Tensor:
        """τ_1 … τ_{N-1}."""
        return torch.linspace(self.options.temperature, self.options.temperature_top, len(self.means) - 1)

    def log_ranks(self, left: Tensor, right: Tensor) -> Tensor:
        """The ``log P(c | x, y)`` of all of ``left`` [a, hidden] and ``right`` [b, hidden]: [a, b, ranks]."""
        pieces = torch.split(right, self.options.chunk)
        found = [checkpoint(self._log_ranks, left, piece, use_reentrant=False) for piece in pieces]
        return torch.cat(found, dim=1)

    def _log_ranks(self, left: Tensor, right: Tensor) -> Tensor:
        found: Tensor = self.classifier(left[:, None] - right)
        return found

    def measure(self, cosines: Tensor, ranks: Tensor) -> None:
        """Equation 11, but that a rank's mean forgets nothing until it was measured 1 / (1 - ε) times."""
        momentum = (self.measured / (self.measured + 1)).clamp(max=self.options.rank_momentum)
        self.means = update_rank_means(self.means, cosines, ranks, momentum)
        self.measured += torch.isin(torch.arange(len(self.means), device=ranks.device), ranks)

    def warmup_loss(self, own: Tensor, other: Tensor) -> Tensor:
        """Equation 4 on unit vectors [batch, hidden] of translations, with a turn of the batch for y'."""
        ranks, last = len(self.means), len(self.means) - 1
        away = other.roll(1, dims=0)
        if isinstance(self.classifier, GaussianRanks) and not self.measured.any():
            self.classifier.start_at(own - other, own - away)
        share = torch.rand(len(other), device=other.device)
        between = torch.lerp(other, away, share[:, None])
        known = [torch.zeros(len(own)), torch.full((len(own),), last), virtual_ranks(share, ranks)]
        loss = own.new_zeros(())
        for side, rank in zip((other, away, between), known, strict=True):
            rank = rank.long().to(own.device)
            loss = loss + nn.functional.nll_loss(self.classifier(own - side), rank)
            self.measure(nn.functional.cosine_similarity(own, side), rank)
        return loss


class EmmaXWarmup(TranslationLoss):
    """Phase 1."""

    parts: EmmaXParts

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The sum of both modules' losses on one batch; each moves by its own alone."""
        rows = labels.cpu()[:, 0]
        own, other = (unit(side) for side in self.encode_pair(sentence_features, rows))
        with torch.autocast(own.device.type, enabled=False):
            scores = own @ other.T / self.parts.options.temperature
            contrast = ranking_loss(mask_duplicates(scores, rows), symmetric=False)
            return contrast + self.parts.warmup_loss(own.detach(), other.detach())


class ClassifierWarmup:
    """Phase 1 of the classifier alone, on cached vectors of other languages' translations.

    ``left`` and ``right`` are their unit vectors [rows, hidden], row for row.
    """

    def __init__(self, parts: EmmaXParts, left: Tensor, right: Tensor) -> None:
        self.parts = parts
        self.left = left
        self.right = right

    def __call__(self, rows: Tensor) -> Tensor:
        """The loss of the translations in ``rows`` [batch]."""
        device = self.parts.means.device
        return self.parts.warmup_loss(*(unit(side[rows]).to(device) for side in (self.left, self.right)))


class EmmaXLoss(TranslationLoss):
    """Phase 2, on one text column alone.

    ``pivot`` holds cached vectors of the pivot's text [rows, hidden]; each step as many of them as the batch
    has sentences enter the queue. None where all languages are in the batch.
    """

    parts: EmmaXParts

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """The sum of both modules' losses on one batch; each moves by its own alone."""
        (features,) = sentence_features
        self.parts.momentum.follow(self.model)
        slow = unit(self.parts.momentum(self.model, features)["sentence_embedding"])
        own = unit(self.model(dict(features))["sentence_embedding"])
        with torch.autocast(own.device.type, enabled=False):
            return self._loss(own, slow)

    def _loss(self, own: Tensor, slow: Tensor) -> Tensor:
        parts = self.parts
        if self.pivot is not None:
            parts.queue.push(unit(self.pivot[torch.randint(len(self.pivot), (len(own),))]))
        candidates = torch.cat([slow.to(own), parts.queue.vectors().to(own)])
        own_copy = torch.eye(len(own), len(candidates), dtype=torch.bool, device=own.device)
        cosines = own @ candidates.T
        log_ranks = parts.log_ranks(own.detach(), candidates)
        by_classifier, fixed = log_ranks.argmax(dim=-1), cosines.detach()
        by_cosine = ranks_by_cosine(fixed, parts.means)
        teach = nn.functional.nll_loss(log_ranks[~own_copy], by_cosine[~own_copy])
        contrast = ranking_info_nce(cosines, by_classifier, parts.temperatures().to(own), own_copy)
        parts.measure(fixed[~own_copy], by_classifier[~own_copy])
        parts.queue.push(slow)
        return contrast + teach


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., hidden] at length 1, in float32."""
    return nn.functional.normalize(vectors.float(), dim=-1)
