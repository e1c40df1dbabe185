"""What contrastive objectives on translations share: vectors of both sides, and softmax over a batch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn


def both_sides(
    model: SentenceTransformer,
    sentence_features: Iterable[dict[str, Tensor]],
    pivot: Tensor | None,
    rows: Tensor,
) -> tuple[Tensor, Tensor]:
    """Vectors [batch, hidden] of the texts, and of the pivot's sentences.

    Args:
        model: encodes the texts, and where ``pivot`` is None the pivot's sentences.
        sentence_features: the texts, and where ``pivot`` is None the pivot's sentences.
        pivot: cached vectors [rows, hidden].
        rows: whose of them the batch needs [batch].
    """
    features = list(sentence_features)
    own = model(features[0])["sentence_embedding"]
    other = model(features[1])["sentence_embedding"] if pivot is None else pivot[rows].to(own)
    return own, other


def symmetric_contrast(left: Tensor, right: Tensor, rows: Tensor, scale: float) -> Tensor:
    """In-batch softmax over scaled cosines in both directions, in float32.

    Args:
        left: vectors [batch, hidden].
        right: those of their translations [batch, hidden].
        rows: which sentence each of ``right`` is [batch]; the same one elsewhere is no negative.
        scale: inverse temperature.
    """
    left, right = (nn.functional.normalize(side.float(), dim=-1) for side in (left, right))
    with full_precision(left):
        scores = without_twins(scale * left @ right.T, rows)
        own = torch.arange(len(scores), device=scores.device)
        forward, backward = (nn.functional.cross_entropy(side, own) for side in (scores, scores.T))
        return (forward + backward) / 2


def without_twins(scores: Tensor, rows: Tensor) -> Tensor:
    """Scores [batch, batch] with -inf where another place of the batch holds the same sentence."""
    twins = rows[:, None] == rows[None, :]
    twins.fill_diagonal_(False)
    return scores.masked_fill(twins.to(scores.device), float("-inf"))


def full_precision(tensor: Tensor) -> AbstractContextManager[None]:
    """Within it, what the trainer computes in bfloat16 is computed as it comes."""
    manager: AbstractContextManager[None] = torch.autocast(tensor.device.type, enabled=False)
    return manager
