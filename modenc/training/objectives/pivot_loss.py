r"""Losses of alignment with a frozen pivot (modular_sentence_encoders, section 3.2).

The pivot's unit vectors P are computed once, so a batch names its rows of P and every other row is a
free negative. With unit vectors s_i of the language's sentences and p(i) the row of i's counterpart:

    MNRL:   L = -mean_i log( exp(τ s_i·P_p(i)) / Σ_{c in batch ∪ hard ∪ random} exp(τ s_i·P_c) )
    cosine: L = mean_i (1 - s_i·P_p(i))

``similarity_weight`` adds the squared differences between the cosines s_i·s_j and s_i·P_p(j) of a batch and
the pivot's own P_p(i)·P_p(j), so that sentences are as similar in the language as in the pivot.
``keep_weight`` adds the squared change, since before alignment, of the cosines between a batch's sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from torch import Tensor, nn

from modenc.recipe.settings import AlignmentSettings
from modenc.training.objectives.contrast import mask_duplicates, ranking_loss
from modenc.training.objectives.distillation import similarity_gap, teacher_gap


def cosine_distance(left: Tensor, right: Tensor) -> Tensor:
    """Compute the mean of one minus the cosine of rows [batch, hidden], which are unit vectors."""
    return (1 - (left * right).sum(-1)).mean()


def sum_of_terms(losses: str, **terms: Callable[[], Tensor]) -> Tensor:
    """Add the terms that ``losses`` names, such as ``cosine+mnrl``; KeyError for another name."""
    first, *others = (terms[name]() for name in losses.split("+"))
    return sum(others, first)


class PivotAlignmentLoss(nn.Module):
    """Loss that ranks the language's sentences and the pivot's, or pulls them together.

    Inputs:
        one text column; as label three integers: the row of ``pivot`` [n, hidden] that belongs to the
        text, the row of a hard negative (-1: none), and the row of ``before`` [m, hidden] of the text itself.

    Args:
        model: encodes the language's sentences.
        pivot: cached vectors of the pivot's sentences [n, hidden].
        options: the weights.
        losses: ``mnrl``, ``cosine`` or ``cosine+mnrl``.
        before: vectors of the language's sentences before alignment [m, hidden].
    """

    def __init__(
        self,
        model: SentenceTransformer,
        pivot: Tensor,
        options: AlignmentSettings,
        *,
        losses: str = "mnrl",
        before: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.pivot = nn.functional.normalize(pivot, dim=-1)
        self.options = options
        self.losses = losses
        self.before = None if before is None else nn.functional.normalize(before, dim=-1)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        (features,) = sentence_features
        vectors = nn.functional.normalize(self.model(features)["sentence_embedding"], dim=-1)
        positive, negative, own = labels.cpu().unbind(dim=1)
        loss = sum_of_terms(
            self.losses,
            cosine=lambda: cosine_distance(vectors, self.pivot[positive].to(vectors)),
            mnrl=lambda: self._ranking(vectors, positive, negative),
        )
        if weight := self.options.similarity_weight:
            loss = loss + weight * teacher_gap(vectors, self.pivot[positive].to(vectors))
        if self.before is not None:
            gap = similarity_gap(vectors, self.before[own].to(vectors))
            loss = loss + self.options.keep_weight * gap
        return loss

    def _ranking(self, vectors: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        extra = torch.randint(len(self.pivot), (self.options.pivot_negatives,))
        candidates = torch.cat([positive, negative[negative >= 0], extra])
        scores = self.options.scale * vectors @ self.pivot[candidates].to(vectors).T
        scores = mask_duplicates(scores, positive, candidates)
        return ranking_loss(scores, symmetric=self.options.symmetric)


class ScoredAlignmentLoss(nn.Module):
    """Loss that ranks pairs by their scores, within and across, and pulls sentences to the pivot's.

    Both languages have each pair, so its score applies to three cosines: of the language's two sentences, and
    of each with the pivot's other sentence. CoSENT (Su, 2022) ranks all cosines of a batch in one sum. With
    unit vectors a_i and b_i of the language's sentences, A_i and B_i of the pivot's, gold scores y_i, and the
    list C of (a_i·b_i, y_i), (a_i·B_i, y_i) and (A_i·b_i, y_i):

        L = w log(1 + Σ_{(c, y), (d, z) in C, y < z} exp(τ (c - d))) + mean_i (2 - a_i·A_i - b_i·B_i) / 2

    The first term keeps the order within the language, the second keeps translations together.

    Inputs:
        two text columns; as label three numbers: the rows of ``pivot`` [n, hidden] that belong to the
        sentences, and the score of the pair.

    Args:
        model, pivot: as :class:`PivotAlignmentLoss` takes them.
        options: τ, w and the weight of the pivot's own cosines.
    """

    def __init__(self, model: SentenceTransformer, pivot: Tensor, options: AlignmentSettings) -> None:
        super().__init__()
        self.model = model
        self.pivot = nn.functional.normalize(pivot, dim=-1)
        self.options = options
        self.ranking = CoSENTLoss(model, scale=options.scale)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        first, second = (
            nn.functional.normalize(self.model(features)["sentence_embedding"], dim=-1)
            for features in sentence_features
        )
        rows = labels[:, :2].cpu().long()
        pivot_first, pivot_second = (self.pivot[rows[:, side]].to(first) for side in (0, 1))
        pairs = [torch.cat([first, first, pivot_first]), torch.cat([second, pivot_second, second])]
        ranking = self.ranking.compute_loss_from_embeddings(pairs, labels[:, 2].repeat(3))
        cosine = (first * pivot_first + second * pivot_second).sum(-1) / 2
        loss: Tensor = self.options.scored_weight * ranking + (1 - cosine).mean()
        if weight := self.options.similarity_weight:
            gap = teacher_gap(torch.cat([first, second]), torch.cat([pivot_first, pivot_second]))
            loss = loss + weight * gap
        return loss
