r"""MuSR (Gao et al., 2023): translation through the sentence embedding, then CrossConST.

A decoder (``decoder.py``, ``input``) writes the pivot's sentence y from the vector of its translation x:

    phase 1, equation 1:  L_ce = CE(f(x, y), y)
    phase 2, equation 3:  L    = L_ce + α · KL( f(x, y) ‖ f(y, y) )     (equation 4)

f(·, y) are the distributions over y's pieces given the pieces before, [batch, length, pieces]; f(y, y) is of
the "copied" pair, the pivot's sentence in both places. Means are over pieces, the CE's targets are smoothed.

In a monolithic model, y's vector comes from the model, too. With modules, the pivot is frozen: f(y, y) reads
its cached vectors, and only the decoder and the language's adapter train. The term
``copy_weight`` · CE(f(y, y), y), which is not in the paper, then keeps the decoder fit for these vectors.
"""

from __future__ import annotations

from collections.abc import Iterable

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.training.objectives.contrast import TranslationLoss
from modenc.training.objectives.decoder import (
    IGNORED,
    TargetTexts,
    VectorDecoder,
    pieces_in,
    scale_to_sqrt_dim,
    sequence_nll,
)


class CrossConstLoss(TranslationLoss):
    """The loss of both phases, the first with ``consistency`` 0; ``targets`` has the rows of ``pivot``."""

    auxiliary: VectorDecoder

    def __init__(
        self,
        model: SentenceTransformer,
        decoder: VectorDecoder,
        targets: TargetTexts,
        pivot: Tensor | None,
        *,
        consistency: float = 0.0,
        copy_weight: float = 0.0,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(model, decoder, pivot)
        self.targets = targets
        self.consistency = consistency
        self.copy_weight = copy_weight
        self.smoothing = smoothing

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        features = list(sentence_features)
        rows = labels.cpu()[:, 0]
        vectors = scale_to_sqrt_dim(self.model(features[0])["sentence_embedding"].float())
        targets = self.targets.batch(rows).to(vectors.device)
        pieces = pieces_in(targets)
        scores = self.auxiliary(vectors, targets)
        loss = sequence_nll(scores, targets, self.smoothing).sum() / pieces
        if not (self.consistency or self.copy_weight):
            return loss
        if self.pivot is None:
            pivot = self.model(features[1])["sentence_embedding"].float()
        else:
            pivot = self.pivot[rows].to(vectors)
        copied = self.auxiliary(scale_to_sqrt_dim(pivot), targets)
        if self.consistency:
            loss = loss + self.consistency * divergence(scores, copied, targets).sum() / pieces
        if self.copy_weight:
            loss = loss + self.copy_weight * sequence_nll(copied, targets, self.smoothing).sum() / pieces
        return loss

    def pivot_reconstruction_loss(self, rows: Tensor) -> Tensor:
        """Compute CE(f(y, y), y) of the pivot's sentences in ``rows`` [batch], from their cached vectors."""
        assert self.pivot is not None
        targets = self.targets.batch(rows).to(self.auxiliary.start.device)
        scores = self.auxiliary(scale_to_sqrt_dim(self.pivot[rows].to(targets.device)), targets)
        return sequence_nll(scores, targets, self.smoothing).sum() / pieces_in(targets)


def divergence(scores: Tensor, copied: Tensor, targets: Tensor) -> Tensor:
    """Compute KL(softmax ``scores`` ‖ softmax ``copied``) [batch] of scores [batch, length, pieces].

    It is summed over a row's pieces, without those where ``targets`` is ``IGNORED``. Both sides get a
    gradient, as in the authors' code.
    """
    own, other = scores.float().log_softmax(dim=-1), copied.float().log_softmax(dim=-1)
    each = nn.functional.kl_div(other, own, reduction="none", log_target=True).sum(dim=-1)
    return each.masked_fill(targets == IGNORED, 0.0).sum(dim=1)
