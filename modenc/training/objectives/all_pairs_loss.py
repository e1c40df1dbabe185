r"""The loss of aligning all pairs of languages (modular_sentence_encoders, section 6.1).

No language is frozen: in a batch of items that languages a and b share, with unit vectors q_i of a's
sentences and c_j of b's (and of its hard negatives),

    paraphrase: L = -mean_i log( exp(τ q_i·c_i) / Σ_j exp(τ q_i·c_j) )
    parallel:   L = mean_i (1 - q_i·c_i), or the same ranking, or their sum

and both languages' adapters learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.training.objectives.contrast import ranking_loss


@dataclass(frozen=True)
class ItemTexts:
    """One language's sentences of an item, which languages share."""

    query: str
    target: str | None
    """Sentence of the same meaning: a paraphrase of ``query``, or ``query`` itself; None: not known."""
    negative: str | None = None
    """Hard negative: a sentence like ``target`` with another meaning."""


class AllPairsModel(nn.Module):
    """Sentence models of all languages, with the loss of a batch of one pair of languages.

    Args:
        models: language → its model.
        texts: kind of data → language → id of an item → the language's sentences.
        losses: kind of data → ``mnrl``, ``cosine`` or ``cosine+mnrl``.
        scale: τ.
        symmetric: whether the queries are also ranked for each target.
    """

    def __init__(
        self,
        models: Mapping[str, SentenceTransformer],
        texts: Mapping[str, Mapping[str, Mapping[int, ItemTexts]]],
        losses: Mapping[str, str],
        *,
        scale: float = 20.0,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        self.models = nn.ModuleDict(dict(models))
        self.languages = list(models)
        self.kinds = list(texts)
        self.texts = texts
        self.losses = {kind: names.split("+") for kind, names in losses.items()}
        self.scale = scale
        self.symmetric = symmetric

    def forward(self, kind: Tensor, pair: Tensor, items: Tensor) -> dict[str, Tensor]:
        """Compute the loss of a batch: ``kind`` [1], ``pair`` of languages [1, 2], ``items`` [1, batch]."""
        name = self.kinds[int(kind)]
        query_lang, target_lang = (self.languages[number] for number in pair[0].tolist())
        ids = items[0].tolist()
        queries = [self.texts[name][query_lang][item].query for item in ids]
        found = [self.texts[name][target_lang][item] for item in ids]
        negatives = [texts.negative for texts in found if texts.negative is not None]
        left = self._encode(query_lang, queries)
        right = self._encode(target_lang, [*(texts.target or "" for texts in found), *negatives])
        loss = left.new_zeros(())
        if "cosine" in self.losses[name]:
            loss = loss + (1 - (left * right[: len(left)]).sum(-1)).mean()
        if "mnrl" in self.losses[name]:
            loss = loss + ranking_loss(self.scale * left @ right.T, symmetric=self.symmetric)
        return {"loss": loss}

    def _encode(self, lang: str, texts: Sequence[str]) -> Tensor:
        model = cast(SentenceTransformer, self.models[lang])
        device = next(model.parameters()).device
        features = {name: tensor.to(device) for name, tensor in model.preprocess(list(texts)).items()}
        return nn.functional.normalize(model(features)["sentence_embedding"], dim=-1)
