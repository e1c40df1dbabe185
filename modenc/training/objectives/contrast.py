r"""Contrast of translations within a batch: VMSST's ``contrastive`` (section 6.3), and its building blocks.

L = -½ mean_i [ log softmax_j(τ s_i·t_j)_i + log softmax_j(τ t_i·s_j)_i ]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn


class TranslationLoss(nn.Module):
    """Base class of losses on translations.

    Inputs:
        a column of texts, and where ``pivot`` is None a column of pivot sentences; as label [batch, 1] the
        row of the pivot's sentence in ``pivot``.

    Args:
        model: encodes the texts, and where ``pivot`` is None the pivot's sentences.
        auxiliary: modules that train with it and are thrown away afterwards; None for none.
        pivot: cached vectors of the pivot's sentences [rows, hidden].
    """

    def __init__(self, model: SentenceTransformer, auxiliary: Any, pivot: Tensor | None) -> None:
        super().__init__()
        self.model = model
        self.auxiliary = nn.Module() if auxiliary is None else auxiliary
        self.pivot = pivot

    def encode_pair(
        self, sentence_features: Iterable[dict[str, Tensor]], rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Encode the texts, and the pivot's sentences in ``rows`` [batch]: vectors [batch, hidden]."""
        features = list(sentence_features)
        own = self.model(features[0])["sentence_embedding"]
        if self.pivot is not None:
            return own, self.pivot[rows].to(own)
        return own, self.model(features[1])["sentence_embedding"]


def symmetric_contrast(left: Tensor, right: Tensor, rows: Tensor, scale: float) -> Tensor:
    """Compute the loss above of translations [batch, hidden], in float32.

    ``rows`` [batch] numbers the sentences of ``right``: the same sentence elsewhere is not a negative.
    """
    left, right = (nn.functional.normalize(side.float(), dim=-1) for side in (left, right))
    with torch.autocast(left.device.type, enabled=False):
        return ranking_loss(mask_duplicates(scale * left @ right.T, rows), symmetric=True)


def ranking_loss(scores: Tensor, *, symmetric: bool) -> Tensor:
    """Compute the cross-entropy (a scalar) of each row's own candidate among scores [batch, batch or more].

    The first candidates are the rows' own, in order; ``symmetric`` also ranks the rows for each of these.
    """
    own = torch.arange(len(scores), device=scores.device)
    loss = nn.functional.cross_entropy(scores, own)
    if symmetric:
        loss = (loss + nn.functional.cross_entropy(scores[:, : len(scores)].T, own)) / 2
    return loss


def mask_duplicates(scores: Tensor, rows: Tensor, candidates: Tensor | None = None) -> Tensor:
    """Set scores [batch, candidates] to -inf where another candidate than a row's own is the same sentence.

    ``rows`` [batch] and ``candidates`` number the sentences; by default the candidates are the rows.
    """
    same = rows[:, None] == (rows if candidates is None else candidates)
    same.fill_diagonal_(False)
    return scores.masked_fill(same.to(scores.device), float("-inf"))


class ContrastiveLoss(TranslationLoss):
    """The loss ``contrastive``; ``scale`` is τ."""

    def __init__(self, model: SentenceTransformer, pivot: Tensor | None, scale: float) -> None:
        super().__init__(model, None, pivot)
        self.scale = scale

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        rows = labels.cpu()[:, 0]
        own, other = self.encode_pair(sentence_features, rows)
        return symmetric_contrast(own, other, rows, self.scale)
