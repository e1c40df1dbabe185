r"""Scores of translations: how well two sentences translate each other (MuSR, section 4.1).

Dual conditional cross-entropy (Junczys-Dowmunt, 2018) of a pair (x, y), lower for better translations:

    |H(y|x) - H(x|y)| + ½ (H(y|x) + H(x|y)),      H(y|x) = -1/|y| Σ_t log P(y_t | y_<t, x)

H is per piece. P is a decoder that writes a sentence from the frozen vector of its translation, in both
directions (VMSST's ``bitranslation``). Two decoders learn, each on one half of the pairs, and each scores the
half that it has not seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedTokenizerFast, set_seed

from modenc.data.pairs import ParallelRow
from modenc.data.text import stable_hash
from modenc.evaluation.retrieval import Vectors
from modenc.recipe.loader import default_section
from modenc.recipe.paper_settings import DecoderSettings
from modenc.recipe.parse import select_settings
from modenc.recipe.settings import RunSettings
from modenc.training.objectives.decoder import IGNORED, TargetTexts, TransformerSize, scale_to_sqrt_dim
from modenc.training.objectives.vmsst import SeparationOptions, SourceSeparation
from modenc.training.processes import environment_kept
from modenc.training.trainers import AuxiliaryModel, train_auxiliary

logger = logging.getLogger(__name__)

Scores = npt.NDArray[np.float64]

_BATCH = 64
_TEXT, _PIVOT = 0, 1


def dual_cross_entropy(one: npt.ArrayLike, other: npt.ArrayLike) -> Scores:
    """Compute the score above from both cross-entropies [pairs]."""
    forward, backward = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    score: Scores = np.abs(forward - backward) + (forward + backward) / 2
    return score


class TranslationScores:
    """Cross-entropies of translations, in both directions.

    Args:
        pairs: two translations or more.
        vectors: sentence vectors of the texts and of the pivot's sentences, each [pairs, hidden].
        tokenizer: cuts the sentences that the decoders learn to write.
        embeddings: embeddings of its pieces [vocabulary, hidden], which the decoders start from.
        decoder: size and learning rate of the decoders; each trains for ``pivot_steps``.
        run: seed and precision.
    """

    def __init__(
        self,
        pairs: Sequence[ParallelRow],
        vectors: tuple[Vectors, Vectors],
        tokenizer: PreTrainedTokenizerFast,
        embeddings: Tensor,
        decoder: DecoderSettings,
        run: RunSettings,
    ) -> None:
        self.pairs = pairs
        self.sides = tuple(scale_to_sqrt_dim(torch.from_numpy(side)) for side in vectors)
        texts = [row.text for row in pairs] + [row.pivot for row in pairs]
        self.targets = TargetTexts(texts, tokenizer, decoder.max_length, decoder.max_pieces)
        self.table = embeddings[self.targets.pieces]
        self.decoder = decoder
        self.run = run
        self.optimizer = replace(
            default_section("alignment").optimizer,
            steps=decoder.pivot_steps,
            learning_rate=decoder.learning_rate,
        )

    @environment_kept()
    def losses(self, folder: Path) -> tuple[Scores, Scores]:
        """Train both decoders, with checkpoints in ``folder``.

        Returns H(pivot | text) and H(text | pivot) [pairs].
        """
        # Split by the pivot's sentence, so that no decoder has seen another translation of it.
        half = np.array([stable_hash(row.pivot) % 2 for row in self.pairs])
        if len(np.unique(half)) < 2:
            half = np.arange(len(self.pairs)) % 2
        found = np.zeros((2, len(self.pairs)))
        for number in (0, 1):
            learned, scored = np.flatnonzero(half != number), np.flatnonzero(half == number)
            logger.info("scores of half %d of 2: learning from %d pairs", number + 1, len(learned))
            set_seed(self.run.seed)
            translator = self._train(learned, folder / f"half-{number}")
            found[:, scored] = self._score(translator, scored)
        return found[0], found[1]

    def _train(self, rows: npt.NDArray[np.intp], folder: Path) -> SourceSeparation:
        size = select_settings(TransformerSize, self.decoder)
        translator = SourceSeparation("bitranslation", self.table, 2, size, SeparationOptions(factored=True))

        def loss(chosen: Tensor) -> Tensor:
            sums, pieces = self._both(translator, chosen)
            return sums.sum() / pieces.sum()

        data = Dataset.from_dict({"rows": rows.tolist()})
        train_auxiliary(self.optimizer, self.run, folder, AuxiliaryModel(translator, loss), data)
        return translator.eval()

    def _score(self, translator: SourceSeparation, rows: npt.NDArray[np.intp]) -> Scores:
        with torch.inference_mode():
            batches = torch.from_numpy(rows).split(_BATCH)  # type: ignore[no-untyped-call]
            means = [torch.div(*self._both(translator, batch)).cpu() for batch in batches]
        scores: Scores = torch.cat(means, dim=1).double().numpy()
        return scores

    def _both(self, translator: SourceSeparation, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Sum losses and count pieces for both directions [2, batch]: into the pivot, and from it."""
        sums, pieces = [], []
        device = next(translator.parameters()).device
        for source, target in ((_TEXT, _PIVOT), (_PIVOT, _TEXT)):
            written = self.targets.batch(rows + target * len(self.pairs)).to(device)
            languages = torch.full_like(rows, target).to(device)
            sums.append(translator.write(self.sides[source][rows].to(device), None, written, languages))
            pieces.append((written != IGNORED).sum(dim=1))
        return torch.stack(sums), torch.stack(pieces)
