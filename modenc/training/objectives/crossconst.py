r"""MuSR (Gao et al., 2023): translation through the sentence vector, then CrossConST.

A decoder (``decoder.py``, ``input``) writes the pivot's sentence y from the vector of its translation x:

    phase 1, equation 1:  L_ce = CE(f(x, y), y)
    phase 2, equation 3:  L    = L_ce + α · KL( f(x, y) ‖ f(y, y) )     (equation 4)

f(·, y) are the distributions over y's pieces given those before, [batch, length, pieces]; f(y, y) has the
"copied" pair, the pivot's sentence in both places. The mean is over pieces, the CE's targets are smoothed.

With all parameters learning, y's vector comes from the model too. With modules, the pivot is frozen: its
cached vectors are what f(y, y) reads, and only the decoder and the language's adapter move.
``copy_weight`` · CE(f(y, y), y), which the paper has not, then keeps the decoder fit for those vectors.
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
    """Both phases: the first is the second with ``consistency`` 0; ``targets`` has the rows of ``pivot``."""

    parts: VectorDecoder

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
        """The loss of one batch (a scalar)."""
        features = list(sentence_features)
        rows = labels.cpu()[:, 0]
        vectors = scale_to_sqrt_dim(self.model(features[0])["sentence_embedding"].float())
        targets = self.targets.batch(rows).to(vectors.device)
        pieces = pieces_in(targets)
        scores = self.parts(vectors, targets)
        loss = sequence_nll(scores, targets, self.smoothing).sum() / pieces
        if not (self.consistency or self.copy_weight):
            return loss
        if self.pivot is None:
            pivot = self.model(features[1])["sentence_embedding"].float()
        else:
            pivot = self.pivot[rows].to(vectors)
        copied = self.parts(scale_to_sqrt_dim(pivot), targets)
        if self.consistency:
            loss = loss + self.consistency * divergence(scores, copied, targets).sum() / pieces
        if self.copy_weight:
            loss = loss + self.copy_weight * sequence_nll(copied, targets, self.smoothing).sum() / pieces
        return loss

    def pivot_reconstruction_loss(self, rows: Tensor) -> Tensor:
        """CE(f(y, y), y) of the pivot's sentences in ``rows`` [batch], from their cached vectors."""
        assert self.pivot is not None
        targets = self.targets.batch(rows).to(self.parts.start.device)
        scores = self.parts(scale_to_sqrt_dim(self.pivot[rows].to(targets.device)), targets)
        return sequence_nll(scores, targets, self.smoothing).sum() / pieces_in(targets)


def divergence(scores: Tensor, copied: Tensor, targets: Tensor) -> Tensor:
    """KL(softmax ``scores`` ‖ softmax ``copied``), both [batch, length, pieces], summed over a row [batch].

    Both sides get a gradient, as in the authors' code; places where ``targets`` is ``IGNORED`` count nothing.
    """
    own, other = scores.float().log_softmax(dim=-1), copied.float().log_softmax(dim=-1)
    each = nn.functional.kl_div(other, own, reduction="none", log_target=True).sum(dim=-1)
    return each.masked_fill(targets == IGNORED, 0.0).sum(dim=1)
