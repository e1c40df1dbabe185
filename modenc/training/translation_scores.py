r"""How well two sentences translate each other, by a small translation model (MuSR, section 4.1).

Dual conditional cross-entropy (Junczys-Dowmunt, 2018) of a pair (x, y), lower for better translations:

    |H(y|x) - H(x|y)| + ½ (H(y|x) + H(x|y)),      H(y|x) = -1/|y| Σ_t log P(y_t | y_<t, x)

H is per piece. P is a decoder that writes either language from the other side's frozen sentence vector
(VMSST's ``bitranslation``). A pair is scored by a decoder that has not seen it: two learn, each on one half.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedTokenizerFast, set_seed

from modenc.data.pairs import ParallelRow
from modenc.data.text import stable_hash
from modenc.recipe.loader import default_section
from modenc.recipe.paper_settings import DecoderSettings
from modenc.recipe.settings import OptimizerSettings, RunSettings
from modenc.training.objectives import options
from modenc.training.objectives.decoder import IGNORED, TargetTexts, TransformerSize, scale_to_sqrt_dim
from modenc.training.objectives.vmsst import SeparationOptions, SourceSeparation
from modenc.training.trainers import PartsAlone, train_parts

logger = logging.getLogger(__name__)

Scores = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]

_BATCH = 64
_TEXT, _PIVOT = 0, 1


def dual_cross_entropy(one: npt.ArrayLike, other: npt.ArrayLike) -> Scores:
    """The score of the module's text from both cross-entropies [pairs]."""
    forward, backward = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    score: Scores = np.abs(forward - backward) + (forward + backward) / 2
    return score


@dataclass(frozen=True)
class ScoreSettings:
    """How the two decoders that score learn."""

    decoder: DecoderSettings
    """Their size and learning rate, and ``pivot_steps`` of training each."""
    optimizer: OptimizerSettings
    """Batch size and schedule."""
    run: RunSettings
    """Seed, precision."""

    @classmethod
    def small(cls, steps: int, seed: int) -> ScoreSettings:
        """The recipes' defaults with one layer and ``steps``, enough to recognize translations."""
        return cls(
            decoder=replace(default_section("decoder"), pivot_steps=steps, layers=1, max_pieces=8000),
            optimizer=default_section("alignment").optimizer,
            run=replace(default_section("run"), seed=seed),
        )


class TranslationScores:
    """Both cross-entropies of two or more translations.

    Args:
        pairs: the translations.
        vectors: those of the texts and of the pivot's sentences, each [pairs, hidden].
        tokenizer: cuts the sentences that the decoders learn to write.
        embeddings: the vectors of its pieces [vocabulary, hidden] that the decoders start from.
        settings: how the decoders learn.
        folder: for checkpoints.
    """

    def __init__(
        self,
        pairs: Sequence[ParallelRow],
        vectors: tuple[Vectors, Vectors],
        tokenizer: PreTrainedTokenizerFast,
        embeddings: Tensor,
        settings: ScoreSettings,
        folder: Path,
    ) -> None:
        decoder = settings.decoder
        self.pairs = pairs
        self.sides = tuple(scale_to_sqrt_dim(torch.from_numpy(side)) for side in vectors)
        texts = [row.text for row in pairs] + [row.pivot for row in pairs]
        self.targets = TargetTexts(texts, tokenizer, decoder.max_length, decoder.max_pieces)
        self.table = embeddings[self.targets.pieces]
        self.settings = settings
        self.optimizer = replace(
            settings.optimizer, steps=decoder.pivot_steps, learning_rate=decoder.learning_rate
        )
        self.folder = folder

    def losses(self) -> tuple[Scores, Scores]:
        """H(pivot | text) and H(text | pivot) [pairs], each by the decoder trained on the other half."""
        # Split by the pivot's sentence, so that no decoder has seen another translation of it.
        half = np.array([stable_hash(row.pivot) % 2 for row in self.pairs])
        if len(np.unique(half)) < 2:
            half = np.arange(len(self.pairs)) % 2
        found = np.zeros((2, len(self.pairs)))
        for number in (0, 1):
            learned, scored = np.flatnonzero(half != number), np.flatnonzero(half == number)
            logger.info("scores of half %d of 2: learning from %d pairs", number + 1, len(learned))
            set_seed(self.settings.run.seed)
            parts = self._learned(learned, number)
            found[:, scored] = self._scored(parts, scored)
        return found[0], found[1]

    def _learned(self, rows: npt.NDArray[np.intp], number: int) -> SourceSeparation:
        size = options(TransformerSize, self.settings.decoder)
        parts = SourceSeparation("bitranslation", self.table, 2, size, SeparationOptions(factored=True))
        model = PartsAlone(parts, lambda chosen: self._loss(parts, chosen))
        data = Dataset.from_dict({"rows": rows.tolist()})
        folder = self.folder / f"half-{number}"
        train_parts(self.optimizer, self.settings.run, folder, model, data)
        return parts.eval()

    def _loss(self, parts: SourceSeparation, rows: Tensor) -> Tensor:
        sums, pieces = self._both(parts, rows)
        return sums.sum() / pieces.sum()

    def _scored(self, parts: SourceSeparation, rows: npt.NDArray[np.intp]) -> Scores:
        with torch.inference_mode():
            batches = torch.from_numpy(rows).split(_BATCH)  # type: ignore[no-untyped-call]
            means = [torch.div(*self._both(parts, batch)).cpu() for batch in batches]
        scores: Scores = torch.cat(means, dim=1).double().numpy()
        return scores

    def _both(self, parts: SourceSeparation, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Summed losses and counts of pieces of both directions [2, batch]: into the pivot, and from it."""
        sums, pieces = [], []
        device = next(parts.parameters()).device
        for source, target in ((_TEXT, _PIVOT), (_PIVOT, _TEXT)):
            written = self.targets.batch(rows + target * len(self.pairs)).to(device)
            languages = torch.full_like(rows, target).to(device)
            sums.append(parts.write(self.sides[source][rows].to(device), None, written, languages))
            pieces.append((written != IGNORED).sum(dim=1))
        return torch.stack(sums), torch.stack(pieces)
