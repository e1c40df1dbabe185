r"""EMMA-X (Guo et al., 2023): an encoder and a classifier of similarity teach each other on unpaired text.

Pairs of sentences fall into N ranks of similarity, 1 (paraphrases) to N (unrelated). With unit vectors γ the
classifier is a mixture over their differences, diagonal Gaussians of trained π, μ, σ (equation 5):

    P(c = r | x, y) = π_r N(γx - γy; μ_r, σ_r) / Σ_j π_j N(γx - γy; μ_j, σ_j)

Phase 1, on translations (x, y), y' another sentence of the batch:
    encoder:     InfoNCE over cosines (equation 2)
    classifier:  -log P(1|x, y) - log P(N|x, y') - log P(r|x, ỹ)      (equation 4), where with λ ~ U[0, 1]
                 γỹ = (1-λ) γy + λ γy',  r = ⌈(1-λ)·1 + λ·N⌉           (equation 3)

Phase 2, on a batch x_1 … x_B of unpaired text and the queue's y_1 … y_K; each module teaches the other:
    c_M = argmin_r |cos(x_i, y_k) - s_r|            (equation 10) teaches the classifier, equation 6
    c_G = argmax_r P(r | x_i, y_k)                  (equation 9) teaches the encoder by ranking InfoNCE:
    L = -mean_i Σ_{r<N} log( Σ_{c_G=r} exp(cos/τ_r) / Σ_{c_G>=r} exp(cos/τ_r) ),  τ_1 < τ_2 < …   (equation 7)
    s_r ← ε s_r + (1-ε) · mean cos of the pairs with c_G = r            (equation 11)

The queue holds the momentum encoder's vectors of past batches, and vectors of the pivot's text; an anchor is
not compared with itself. If no pair has rank r, its term is 0. The paper starts s_r at r/N and counts rank 1
as the closest; here s_r starts at (N-r+1)/N, so that the closest pairs have the highest cosine. After the
paper's many steps the start does not matter, but after hundreds it does: where unrelated sentences have
cosines of 0.75, as in many bases, no pair would ever get the last ranks. So s_r is the plain mean of all
cosines measured since phase 1 until ε forgets faster than that, and the Gaussians start at the spreads of the
first batch. Appendix G multiplies by π twice; equation 5 has it once, as here.

Both losses are computed in float32 in any precision of the encoder: at τ = 0.04
bfloat16's cosines would be wrong in the first digit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from modenc.recipe.settings import EmmaXSettings
from modenc.training.objectives.contrast import TranslationLoss, mask_duplicates, ranking_loss


class GaussianRanks(nn.Module):
    """Classifier: the mixture of equation 5."""

    def __init__(self, ranks: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(ranks))
        self.mean = nn.Parameter(torch.zeros(ranks, hidden))
        # Unit vectors with cosine c are 2 (1 - c) apart, squared: the ranks start at cosines (N - r) / N.
        spread = torch.arange(1, ranks + 1) / ranks
        self.log_std = nn.Parameter((spread * 2 / hidden).log()[:, None].repeat(1, hidden) / 2)

    @torch.no_grad()
    def start_at(self, nearest: Tensor, farthest: Tensor) -> None:
        """Set the spreads by the differences [pairs, hidden] of the first rank and of the last.

        The ranks between interpolate: at λ of the way from the first to the last, the squared distance is
        about the first's, plus λ² times the difference of both.
        """
        ranks, hidden = self.log_std.shape
        low, high = (differences.square().mean() for differences in (nearest, farthest))
        way = torch.arange(ranks, device=low.device) / max(ranks - 1, 1)
        variance = low + way.square() * (high - low).clamp(min=0)
        self.log_std.copy_((variance.clamp(min=1e-8).log() / 2)[:, None].expand(ranks, hidden))

    def forward(self, differences: Tensor) -> Tensor:
        """Compute ``log P(c = r | difference)`` of differences [..., hidden]: [..., ranks]."""
        away = (differences[..., None, :] - self.mean) * (-self.log_std).exp()
        density = -0.5 * away.square().sum(dim=-1) - self.log_std.sum(dim=-1)
        return (self.weight + density - 0.5 * differences.shape[-1] * math.log(2 * math.pi)).log_softmax(-1)


def network_ranks(ranks: int, hidden: int) -> nn.Module:
    """Make the paper's "FCN" ablation of the classifier: a network of one inner layer."""
    layers = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, ranks))
    return nn.Sequential(OrderedDict(layers=layers, log_probabilities=nn.LogSoftmax(dim=-1)))


def virtual_ranks(weight: Tensor, ranks: int) -> Tensor:
    """Compute ⌈(1-λ)·1 + λ·N⌉ of equation 3's λ, less 1: ranks count from 0 in tensors."""
    return ((1 - weight) + weight * ranks).ceil().long() - 1


def update_rank_means(means: Tensor, cosines: Tensor, ranks: Tensor, momentum: Tensor | float) -> Tensor:
    """Apply equation 11 to a batch: ranks without a pair keep their mean; ``momentum`` may be one a rank."""
    chosen = nn.functional.one_hot(ranks.flatten(), len(means)).to(cosines)
    count = chosen.sum(dim=0)
    now = (chosen * cosines.flatten()[:, None]).sum(dim=0) / count.clamp(min=1)
    return torch.where(count > 0, momentum * means + (1 - momentum) * now, means)


def ranking_info_nce(cosines: Tensor, ranks: Tensor, temperatures: Tensor, excluded: Tensor) -> Tensor:
    """Compute equation 7, a mean over anchors.

    Args:
        cosines: cosines of anchors with candidates [anchors, candidates].
        ranks: ranks of the same pairs, from 0 [anchors, candidates].
        temperatures: τ_1 … τ_{N-1} [N - 1].
        excluded: whether a candidate is the anchor's own copy [anchors, candidates].
    """
    total = 0.0 * cosines.sum()
    for rank, temperature in enumerate(temperatures):
        scores = cosines / temperature
        positive, rest = (ranks == rank) & ~excluded, (ranks >= rank) & ~excluded
        has = positive.any(dim=1)
        if has.any():
            over, under = (
                scores[has].masked_fill(~chosen[has], float("-inf")).logsumexp(dim=1)
                for chosen in (positive, rest)
            )
            total = total + (under - over).sum()
    return total / len(cosines)


class MomentumCopy(nn.Module):
    """A momentum encoder (He et al., 2020): ``model`` with slower copies of its trainable parameters.

    Frozen parameters are not copied: the model itself runs with the slow parameters in place of its own.
    """

    def __init__(self, model: nn.Module, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        learning = {name: own for name, own in model.named_parameters() if own.requires_grad}
        self.names = list(learning)
        for number, parameter in enumerate(learning.values()):
            self.register_buffer(f"slow_{number}", parameter.detach().clone())

    def _slow(self) -> dict[str, Tensor]:
        return {name: self.get_buffer(f"slow_{number}") for number, name in enumerate(self.names)}

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Take one step: slow ← momentum · slow + (1 - momentum) · own."""
        own = dict(model.named_parameters())
        for name, slow in self._slow().items():
            slow.lerp_(own[name].to(slow), 1 - self.momentum)

    @torch.no_grad()
    def __call__(self, model: nn.Module, inputs: Mapping[str, Any]) -> Any:
        """Compute ``model(inputs)`` with the slow parameters, without gradients."""
        return functional_call(model, self._slow(), (dict(inputs),))


class VectorQueue(nn.Module):
    """Queue of the last ``size`` vectors [size, hidden]."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, hidden))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    rows: Tensor
    count: Tensor

    @torch.no_grad()
    def push(self, vectors: Tensor) -> None:
        """Add ``vectors`` [n, hidden] in place of the oldest."""
        size = len(self.rows)
        places = (self.count + torch.arange(len(vectors), device=self.count.device)) % size
        # If there are more than fit, the last are kept.
        self.rows[places[-size:]] = vectors[-size:].to(self.rows)
        self.count += len(vectors)

    def vectors(self) -> Tensor:
        """Return the vectors in the queue [at most size, hidden]."""
        return self.rows[: min(int(self.count), len(self.rows))].clone()


class EmmaXAuxiliary(nn.Module):
    """Auxiliary modules: the classifier, the means s, the queue, the momentum encoder of ``model``."""

    means: Tensor
    measured: Tensor

    def __init__(self, model: nn.Module, hidden: int, options: EmmaXSettings) -> None:
        super().__init__()
        ranks = options.ranks
        classifier = GaussianRanks if options.classifier == "gmm" else network_ranks
        self.classifier: nn.Module = classifier(ranks, hidden)
        self.register_buffer("means", torch.arange(ranks, 0, -1) / ranks)
        self.register_buffer("measured", torch.zeros(ranks))
        self.queue = VectorQueue(options.queue, hidden)
        self.momentum = MomentumCopy(model, options.momentum)
        self.options = options

    def temperatures(self) -> Tensor:
        """Return τ_1 … τ_{N-1}."""
        return torch.linspace(self.options.temperature, self.options.temperature_top, len(self.means) - 1)

    def measure(self, cosines: Tensor, ranks: Tensor) -> None:
        """Apply equation 11, but forget nothing of a rank's mean until it was measured 1 / (1 - ε) times."""
        momentum = (self.measured / (self.measured + 1)).clamp(max=self.options.rank_momentum)
        self.means = update_rank_means(self.means, cosines, ranks, momentum)
        self.measured += torch.isin(torch.arange(len(self.means), device=ranks.device), ranks)

    def warmup_loss(self, own: Tensor, other: Tensor) -> Tensor:
        """Compute equation 4 on unit vectors [batch, hidden] of translations; y' is the batch's next row."""
        ranks, last = len(self.means), len(self.means) - 1
        away = other.roll(1, dims=0)
        if isinstance(self.classifier, GaussianRanks) and not self.measured.any():
            self.classifier.start_at(own - other, own - away)
        weight = torch.rand(len(other), device=other.device)
        between = torch.lerp(other, away, weight[:, None])
        known = [torch.zeros(len(own)), torch.full((len(own),), last), virtual_ranks(weight, ranks)]
        loss = own.new_zeros(())
        for side, rank in zip((other, away, between), known, strict=True):
            rank = rank.long().to(own.device)
            loss = loss + nn.functional.nll_loss(self.classifier(own - side), rank)
            self.measure(nn.functional.cosine_similarity(own, side), rank)
        return loss


class EmmaXWarmup(TranslationLoss):
    """The loss of phase 1."""

    auxiliary: EmmaXAuxiliary

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the sum of the encoder's and the classifier's losses; each gets a gradient from its own."""
        rows = labels.cpu()[:, 0]
        own, other = (unit(side) for side in self.encode_pair(sentence_features, rows))
        with torch.autocast(own.device.type, enabled=False):
            scores = own @ other.T / self.auxiliary.options.temperature
            contrast = ranking_loss(mask_duplicates(scores, rows), symmetric=False)
            return contrast + self.auxiliary.warmup_loss(own.detach(), other.detach())


class EmmaXLoss(TranslationLoss):
    """The loss of phase 2, on one text column.

    ``pivot`` holds cached vectors of the pivot's text [rows, hidden]; in each step as many of them as the
    batch has sentences are added to the queue. It is None where all languages are in the batch.
    """

    auxiliary: EmmaXAuxiliary

    def begin_step(self, _: int) -> None:
        """Move the slow copy, once an optimizer step however many passes it has."""
        self.auxiliary.momentum.follow(self.model)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Compute the sum of the encoder's and the classifier's losses; each gets a gradient from its own."""
        (features,) = sentence_features
        slow = unit(self.auxiliary.momentum(self.model, features)["sentence_embedding"])
        own = unit(self.model(dict(features))["sentence_embedding"])
        auxiliary = self.auxiliary
        with torch.autocast(own.device.type, enabled=False):
            if self.pivot is not None:
                auxiliary.queue.push(unit(self.pivot[torch.randint(len(self.pivot), (len(own),))]))
            candidates = torch.cat([slow.to(own), auxiliary.queue.vectors().to(own)])
            own_copy = torch.eye(len(own), len(candidates), dtype=torch.bool, device=own.device)
            cosines = own @ candidates.T
            log_ranks = auxiliary.classifier(own.detach()[:, None] - candidates)
            by_classifier, fixed = log_ranks.argmax(dim=-1), cosines.detach()
            # Equation 10.
            by_cosine = (fixed[..., None] - auxiliary.means).abs().argmin(dim=-1)
            teach = nn.functional.nll_loss(log_ranks[~own_copy], by_cosine[~own_copy])
            contrast = ranking_info_nce(cosines, by_classifier, auxiliary.temperatures().to(own), own_copy)
            auxiliary.measure(fixed[~own_copy], by_classifier[~own_copy])
        auxiliary.queue.push(slow)
        return contrast + teach


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors [..., hidden] to length 1, in float32."""
    return nn.functional.normalize(vectors.float(), dim=-1)
