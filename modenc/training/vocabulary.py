"""Stage 1: a tokenizer of the language's own and embeddings for it.

``focus`` (Dobler and de Melo, 2023): a token that the base has, too, takes the base's vector; a new one takes
a sparsemax-weighted mix of the most similar shared tokens, by the cosine of fastText vectors trained on the
language's tokenized text. ``trim`` keeps the base's pieces that the text uses, and adds likely ones, so that
vectors start as the base's; ``extend`` adds new pieces to them by FOCUS.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.composition.modules import quantize_rows
from modenc.errors import DataError
from modenc.hub.layout import EMBEDDINGS_TENSOR, PART_FILES, SCALES_TENSOR
from modenc.recipe.settings import EmbeddingStorage
from modenc.training.body_module import on_terminal, readable
from modenc.training.data_access import sample
from modenc.training.stage import Stage
from modenc.training.tokenizers import (
    extend,
    piece_counts,
    special_pairs,
    tokens_per_sentence,
    train_like,
    transliterate,
    trim,
)

logger = logging.getLogger(__name__)

# The default of deepfocus; rarer tokens get random vectors.
_MIN_COUNT = 10
# fastText initializes each tenth of its table in another thread: with fewer than ten threads some memory
# stays uninitialized, and NaN appears now and then.
_FASTTEXT_THREADS = 10
# Pieces are short, so that their n-grams fill only a tenth of fastText's default, 2 million rows.
_FASTTEXT_BUCKETS = 200_000


def train_vocabulary(stage: Stage) -> dict[str, Any]:
    """Make the language's vocabulary, and write ``tokenizer/`` and the embeddings.

    The prompt before every text keeps the base's tokens. Returns how many tokens it has and copies,
    and tokens per held-out sentence.
    """
    settings, prompt = stage.plan.vocabulary, stage.plan.base.prompt
    if stage.plan.skips("vocabulary"):
        return {}
    bases_own = stage.base.load_tokenizer()
    base = transliterate(bases_own, settings.transliteration)
    table = stage.base.load_body().get_input_embeddings().weight.detach().clone()
    texts = sample(stage.data.text.train, settings.max_sentences, stage.plan.run.seed)
    if settings.method == "trim":
        tokenizer, ids = trim(base, texts, settings.size, prompt)
        embeddings = table[ids].clone()
    elif settings.method == "extend":
        trimmed, ids = trim(base, texts, settings.size - settings.new_pieces, prompt)
        helper = train_like(base, texts, settings.size)
        tokenizer = extend(trimmed, _new_pieces(helper, base, texts, settings.new_pieces), texts, prompt)
        embeddings = focus_embeddings(stage, tokenizer, base, table, texts, helper)
        embeddings[: len(ids)] = table[ids]
    else:
        tokenizer = train_like(base, texts, settings.size, prompt)
        embeddings = focus_embeddings(stage, tokenizer, base, table, texts)
    for target, source in special_pairs(tokenizer, base):
        embeddings[target] = table[source]
    held_out = stage.data.text.held_out
    report = {
        "tokens": len(tokenizer),
        "copied": len(set(tokenizer.get_vocab()) & set(bases_own.get_vocab())),
        "tokens_per_sentence_base": round(tokens_per_sentence(bases_own, held_out), 2),
        "tokens_per_sentence": round(tokens_per_sentence(tokenizer, held_out), 2),
    }
    logger.info("  vocabulary: %s", readable(report))
    tokenizer.save_pretrained(stage.modules / "tokenizer")
    save_embeddings(embeddings.float(), stage.modules, settings.storage)
    return report


def focus_embeddings(
    stage: Stage,
    target: PreTrainedTokenizerFast,
    source: PreTrainedTokenizerFast,
    source_embeddings: Tensor,
    texts: list[str],
    helper: PreTrainedTokenizerFast | None = None,
) -> Tensor:
    """Make embeddings [target tokens, hidden]: copies for shared tokens, sparsemax mixes for the others.

    fastText takes no seed and its threads race, so the mixes differ a little from training to training.

    Args:
        stage: the stage; fastText's temporary files lie in its folder.
        target: the tokenizer to make embeddings for.
        source: the base's tokenizer.
        source_embeddings: the base's embeddings [source tokens, hidden].
        texts: running text that fastText learns from.
        helper: where ``target`` extends ``source``, the tokenizer that the new pieces are from.

    Raises:
        DataError: the text has no frequent token that the base lacks, or none that it has.
    """
    import fasttext
    from deepfocus import FOCUS

    settings = stage.plan.vocabulary
    with tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        tokens, model = Path(folder, "tokens.txt"), Path(folder, "model.bin")
        counts: Counter[str] = Counter()
        with tokens.open("w", encoding="utf-8") as file:
            for text in texts:
                pieces = (helper or target).tokenize(text)
                counts.update(pieces)
                file.write(" ".join(pieces) + "\n")
        _check_frequent_tokens(counts, target, source)
        fasttext.train_unsupervised(
            str(tokens),
            model="cbow",
            neg=10,
            dim=settings.fasttext_dim,
            epoch=settings.fasttext_epochs,
            minCount=_MIN_COUNT,
            bucket=_FASTTEXT_BUCKETS,
            thread=_FASTTEXT_THREADS,
            verbose=0,
        ).save_model(str(model))
        # deepfocus draws progress bars everywhere.
        with redirect_stderr(sys.stderr if on_terminal() else StringIO()):
            embeddings: Tensor = FOCUS(
                target_tokenizer=target,
                source_tokenizer=source,
                source_embeddings=source_embeddings,
                fasttext_model_path=str(model),
                extend_tokenizer=helper,
                processes=1,
                seed=stage.plan.run.seed,
                verbosity="silent",
            )
    return embeddings.clone()


def _check_frequent_tokens(
    counts: Counter[str], target: PreTrainedTokenizerFast, source: PreTrainedTokenizerFast
) -> None:
    frequent = {token for token in target.get_vocab() if counts[token] >= _MIN_COUNT}
    shared = frequent & source.get_vocab().keys()
    if not shared or shared == frequent:
        raise DataError(
            "vocabulary: FOCUS mixes vectors of new tokens from those of tokens that the base has, too; "
            f"expected some of both that occur {_MIN_COUNT} times in the text, found "
            f"{len(frequent - shared)} new and {len(shared)} shared ones. Add data.text, or set "
            "vocabulary.method = 'trim' or 'base'"
        )


def save_embeddings(embeddings: Tensor, folder: Path, storage: EmbeddingStorage) -> None:
    """Write ``embeddings`` [tokens, hidden] in half precision, or as int8 with a scale for each token."""
    if storage == "int8":
        rows, scales = quantize_rows(embeddings)
        tensors = {EMBEDDINGS_TENSOR: rows.contiguous(), SCALES_TENSOR: scales}
    else:
        tensors = {EMBEDDINGS_TENSOR: embeddings.detach().to(torch.float16).contiguous()}
    save_file(tensors, folder / PART_FILES["embeddings"][0])


def _new_pieces(
    helper: PreTrainedTokenizerFast, base: PreTrainedTokenizerFast, texts: list[str], count: int
) -> list[str]:
    known = set(base.get_vocab())
    names = helper.convert_ids_to_tokens(range(len(helper)))
    frequent = (names[number] for number, _ in piece_counts(helper, texts).most_common())
    return [piece for piece in frequent if piece not in known][:count]
