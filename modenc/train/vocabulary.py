"""Stage 1: a tokenizer of the language's own and embeddings for it.

``focus`` (Dobler and de Melo, 2023): a token that the base has too takes the base's vector; a new one
takes a sparsemax-weighted mix of the shared tokens that are most like it, likeness being the cosine
of fastText vectors trained on the language's tokenised text. ``trim`` keeps the base's pieces that
the text uses, filled up with likely ones, so that vectors start out as the base's; ``extend`` adds
new pieces to them by FOCUS.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.composition.modules import quantize_rows
from modenc.errors import BaseModelError, HubError
from modenc.hub.checks.tokenizer import parse_tokenizer
from modenc.hub.layout import EMBEDDINGS_TENSOR, SCALES_TENSOR, LanguageLayout
from modenc.recipe.settings import EmbeddingStorage, VocabularySettings
from modenc.train.focus import MIN_COUNT, focus_embeddings
from modenc.train.progress import readable
from modenc.train.tokenizers import extend, piece_counts, special_pairs, tokens_per_sentence, train_like, trim

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary:
    """A language's tokenizer and the embeddings [tokens, hidden] in float32, with a report."""

    tokenizer: PreTrainedTokenizerFast
    embeddings: Tensor
    report: dict[str, Any]

    def save(self, folder: Path, storage: EmbeddingStorage) -> None:
        """Write tokenizer/ and embeddings.safetensors into ``folder``.

        Raises:
            BaseModelError: the base's tokenizer, which this one is like, has what no hub takes.
        """
        self.tokenizer.save_pretrained(folder / "tokenizer")
        # Now, and not when all stages are trained.
        try:
            parse_tokenizer({path.name: path.read_bytes() for path in (folder / "tokenizer").iterdir()})
        except HubError as error:
            raise BaseModelError(
                f"the base's tokenizer cannot be a language's own ({error}); say vocabulary.method = 'base', "
                "or choose another base"
            ) from error
        save_embeddings(self.embeddings, folder, storage)


def save_embeddings(embeddings: Tensor, folder: Path, storage: EmbeddingStorage) -> None:
    """Write ``embeddings`` [tokens, hidden] in half precision, or as integers with a scale for each token."""
    if storage == "int8":
        rows, scales = quantize_rows(embeddings)
        tensors = {EMBEDDINGS_TENSOR: rows.contiguous(), SCALES_TENSOR: scales}
    else:
        tensors = {EMBEDDINGS_TENSOR: embeddings.detach().to(torch.float16).contiguous()}
    save_file(tensors, LanguageLayout(folder).embeddings)


def make_vocabulary(
    settings: VocabularySettings,
    base_tokenizer: PreTrainedTokenizerFast,
    base_embeddings: Tensor,
    texts: list[str],
    held_out: list[str],
    prompt: str,
    work: Path,
    seed: int,
) -> Vocabulary:
    """Make the vocabulary that the settings ask for (any method but ``base``).

    Args:
        settings: method and sizes.
        base_tokenizer: the base's tokenizer.
        base_embeddings: the base's embeddings [base tokens, hidden].
        texts: running text.
        held_out: running text on which tokens per sentence are counted.
        prompt: what stands before every text; it keeps the base's tokens.
        work: folder for fastText's files.
        seed: for FOCUS, and for which lines are taken where ``settings.max_sentences`` are fewer than all.
    """
    texts = _sampled(texts, settings.max_sentences, seed)
    if settings.method == "trim":
        tokenizer, ids = trim(base_tokenizer, texts, settings.size, prompt)
        embeddings = base_embeddings[ids].clone()
    elif settings.method == "extend":
        trimmed, ids = trim(base_tokenizer, texts, settings.size - settings.new_pieces, prompt)
        helper = train_like(base_tokenizer, texts, settings.size)
        tokenizer = extend(
            trimmed, _newcomers(helper, base_tokenizer, texts, settings.new_pieces), texts, prompt
        )
        embeddings = focus_embeddings(
            tokenizer, base_tokenizer, base_embeddings, texts, settings, work, seed, helper
        )
        embeddings[: len(ids)] = base_embeddings[ids]
    else:
        tokenizer = train_like(base_tokenizer, texts, settings.size, prompt)
        embeddings = focus_embeddings(tokenizer, base_tokenizer, base_embeddings, texts, settings, work, seed)
    for target, source in special_pairs(tokenizer, base_tokenizer):
        embeddings[target] = base_embeddings[source]
    report = _report(tokenizer, base_tokenizer, texts, held_out)
    logger.info("  vocabulary: %s", readable(report))
    return Vocabulary(tokenizer, embeddings.float(), report)


def _sampled(texts: list[str], count: int, seed: int) -> list[str]:
    """``count`` of the texts (0: all) in their order, from all sources alike."""
    if not count or count >= len(texts):
        return texts
    chosen = np.random.default_rng(seed).choice(len(texts), count, replace=False, shuffle=False)
    return [texts[number] for number in np.sort(chosen)]


def _newcomers(
    helper: PreTrainedTokenizerFast, base: PreTrainedTokenizerFast, texts: list[str], count: int
) -> list[str]:
    known = set(base.get_vocab())
    names = helper.convert_ids_to_tokens(range(len(helper)))
    frequent = (names[number] for number, _ in piece_counts(helper, texts).most_common())
    return [piece for piece in frequent if piece not in known][:count]


def _report(
    tokenizer: PreTrainedTokenizerFast, base: PreTrainedTokenizerFast, texts: list[str], held_out: list[str]
) -> dict[str, Any]:
    shared = set(tokenizer.get_vocab()) & set(base.get_vocab())
    counts = piece_counts(tokenizer, texts)
    new = [number for token, number in tokenizer.get_vocab().items() if token not in shared]
    # FOCUS draws at random what fastText has not seen often enough.
    random = sum(counts.get(number, 0) < MIN_COUNT for number in new)
    return {
        "tokens": len(tokenizer),
        "copied": len(shared),
        "mixed": len(new) - random,
        "random": random,
        "tokens_per_sentence_base": round(tokens_per_sentence(base, held_out), 2),
        "tokens_per_sentence": round(tokens_per_sentence(tokenizer, held_out), 2),
    }
