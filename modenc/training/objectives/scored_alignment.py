r"""Alignment with a frozen pivot by pairs whose similarity people have scored.

Both languages have the pair, so its score applies to three cosines: within the language, and from either
sentence to the pivot's other. CoSENT (Su, 2022) ranks all of a batch's in one sum. With unit vectors a_i and
b_i of the language's sentences, A_i and B_i of the pivot's, gold scores y_i, and the list C of
(a_i·b_i, y_i), (a_i·B_i, y_i) and (A_i·b_i, y_i):

    L = w log(1 + Σ_{(c, y), (d, z) in C, y < z} exp(τ (c - d))) + mean_i (2 - a_i·A_i - b_i·B_i) / 2

The first term keeps the order within the language while the second draws translations together: either alone
loses what the other has. ``similarity_weight`` adds the pivot's own cosines as an aim for all sentences of a
batch, scored or not: see :func:`~modenc.training.objectives.distillation.teacher_gap`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from torch import Tensor, nn

from modenc.training.objectives.alignment import AlignmentOptions
from modenc.training.objectives.distillation import teacher_gap


class ScoredAlignmentLoss(nn.Module):
    """Rank pairs by their scores within the language and across, and pull each sentence to the pivot's.

    Inputs:
        two text columns; as label three numbers: the rows of ``pivot`` [n, hidden] that belong to the
        sentences, and the score of the pair.

    Args:
        model: encodes the language's sentences.
        pivot: cached vectors of the pivot's sentences [n, hidden].
        options: τ, w and the weight of the pivot's own cosines.
    """

    def __init__(self, model: SentenceTransformer, pivot: Tensor, options: AlignmentOptions) -> None:
        super().__init__()
        self.model = model
        self.pivot = nn.functional.normalize(pivot, dim=-1)
        self.options = options
        self.ranking = CoSENTLoss(model, scale=options.scale)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """The loss of one batch (a scalar)."""
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
