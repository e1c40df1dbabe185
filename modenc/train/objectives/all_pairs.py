r"""Alignment of every language with every other (modular_sentence_encoders, section 6.1).

No language is frozen: in a batch of meanings that languages a and b share, with unit vectors q_i of a's
sentences and c_j of b's (and of its hard negatives),

    paraphrase: L = -mean_i log( exp(τ q_i·c_i) / Σ_j exp(τ q_i·c_j) )
    parallel:   L = mean_i (1 - q_i·c_i), or the same ranking, or their sum

and both languages' adapters learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.recipe.settings import AlignmentSettings


@dataclass(frozen=True)
class Side:
    """How one language says a meaning."""

    query: str
    answer: str | None
    """A sentence of the same meaning: a paraphrase of ``query``, or ``query`` itself; ``None``: not known."""
    negative: str | None = None
    """One that looks like ``answer`` and is not."""


class AllPairs(nn.Module):
    """The sentence models of all languages, and the loss of a batch of one pair of them.

    Args:
        models: by language.
        sides: kind of data → language → number of a meaning → how the language says it.
        settings: losses and temperature.
    """

    def __init__(
        self,
        models: Mapping[str, SentenceTransformer],
        sides: Mapping[str, Mapping[str, Mapping[int, Side]]],
        settings: AlignmentSettings,
    ) -> None:
        super().__init__()
        self.models = nn.ModuleDict(dict(models))
        self.languages = list(models)
        self.kinds = list(sides)
        self.sides = sides
        self.settings = settings

    def forward(self, kind: Tensor, pair: Tensor, meanings: Tensor) -> dict[str, Tensor]:
        """The loss of one batch.

        Args:
            kind: number [1] of the kind of data.
            pair: numbers [1, 2] of the two languages.
            meanings: numbers [1, batch] of meanings that both say.
        """
        name = self.kinds[int(kind)]
        asked, answering = (self.languages[number] for number in pair[0].tolist())
        rows = meanings[0].tolist()
        queries = [self.sides[name][asked][row].query for row in rows]
        said = [self.sides[name][answering][row] for row in rows]
        answers = [side.answer or "" for side in said]
        negatives = [side.negative for side in said if side.negative is not None]
        left = self._encode(asked, queries)
        right = self._encode(answering, [*answers, *negatives])
        losses = "mnrl" if name == "paraphrase" else self.settings.parallel_loss
        loss = left.new_zeros(())
        if "cosine" in losses:
            loss = loss + (1 - (left * right[: len(left)]).sum(-1)).mean()
        if "mnrl" in losses:
            loss = loss + self._ranking(left, right)
        return {"loss": loss}

    def _encode(self, lang: str, texts: Sequence[str]) -> Tensor:
        model = cast(SentenceTransformer, self.models[lang])
        device = next(model.parameters()).device
        features = {name: part.to(device) for name, part in model.preprocess(list(texts)).items()}
        return nn.functional.normalize(model(features)["sentence_embedding"], dim=-1)

    def _ranking(self, left: Tensor, right: Tensor) -> Tensor:
        scores = self.settings.scale * left @ right.T
        rows = torch.arange(len(left), device=scores.device)
        loss = nn.functional.cross_entropy(scores, rows)
        if self.settings.symmetric:
            loss = (loss + nn.functional.cross_entropy(scores[:, : len(left)].T, rows)) / 2
        return loss
