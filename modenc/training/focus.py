"""FOCUS (Dobler and de Melo, 2023): vectors for new tokens, mixed from those of similar shared tokens."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from modenc.composition.kernels import make_dense
from modenc.recipe.settings import VocabularySettings
from modenc.training.stage import Stage

# The default of deepfocus; rarer tokens get random vectors.
MIN_COUNT = 10
# fastText initializes each tenth of its table in another thread: with fewer than ten threads some memory
# stays uninitialized, and NaN appears now and then.
_THREADS = 10
# Pieces are short, so that their n-grams fill only a tenth of fastText's default, 2 million rows.
_BUCKETS = 200_000
# Similarities in memory at a time.
_CELLS = 1 << 20
# Sparsemax usually keeps fewer of thousands of tokens.
_LIKELY_SUPPORT = 256
_STRETCH = 16
# Ten are enough in practice; rounding could make the last two alternate.
_MAX_ROUNDS = 50


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
    """
    from deepfocus import FOCUS

    with tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        model = _train_fasttext(helper or target, texts, stage.plan.vocabulary, Path(folder))
        with quick_steps():
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
        return embeddings.detach().clone()


def _train_fasttext(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], settings: VocabularySettings, folder: Path
) -> Path:
    import fasttext

    tokens, model = folder / "tokens.txt", folder / "model.bin"
    with tokens.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(tokenizer.tokenize(text)) + "\n" for text in texts)
    fasttext.train_unsupervised(
        str(tokens),
        model="cbow",
        neg=10,
        dim=settings.fasttext_dim,
        epoch=settings.fasttext_epochs,
        minCount=MIN_COUNT,
        bucket=_BUCKETS,
        thread=_THREADS,
        verbose=0,
    ).save_model(str(model))
    return model


def mixes(new: Tensor, shared: Tensor, vectors: Tensor) -> Tensor:
    """Mix the vectors of shared tokens: ``sparsemax(cos(new, shared)) vectors`` [new, hidden].

    Sparsemax (Martins and Astudillo, 2016) is computed in blocks of rows, in float32, and only the greatest
    similarities of a row are sorted.

    Args:
        new: fastText vectors of the new tokens [new, dim].
        shared: fastText vectors of the shared tokens [shared, dim].
        vectors: the base's vectors of the shared tokens [shared, hidden].
    """
    new, shared = functional.normalize(new.float()), functional.normalize(shared.float())
    similarity = make_dense(shared, shared.new_zeros(len(shared)), "fp32")
    mixed = make_dense(vectors.float().T.contiguous(), vectors.new_zeros(vectors.shape[1]).float(), "fp32")
    output = vectors.new_empty(len(new), vectors.shape[1])
    block = max(1, _CELLS // len(shared))
    for start in range(0, len(new), block):
        scores = similarity(new[start : start + block])
        output[start : start + block] = mixed(scores.sub_(_threshold(scores)).clamp_min_(0))
    return output


def _threshold(scores: Tensor) -> Tensor:
    """Find the number that sparsemax subtracts from each row [rows, 1], so that the positive rest sums to 1.

    It is found on the greatest scores of a row, which gives at most the threshold of all scores. From there,
    dropping the scores below and taking (sum - 1) / count of the rest ends at the support (Michelot, 1986).
    """
    k = min(_LIKELY_SUPPORT, scores.shape[1])
    top = _greatest(scores, k).double()
    # The support is the longest prefix of the sorted scores z with 1 + j z_j > sum of the first j.
    sums = top.cumsum(dim=1)
    support = (1 + torch.arange(1, k + 1) * top > sums).sum(dim=1, keepdim=True)
    threshold = (sums.gather(1, support - 1) - 1) / support
    if k < scores.shape[1] and (more := (support >= k).flatten()).any():
        threshold[more] = _widen(scores[more], threshold[more], support[more])
    return threshold.float()


def _widen(scores: Tensor, threshold: Tensor, support: Tensor) -> Tensor:
    """Correct the thresholds of rows [rows, columns] whose support is wider than the scores looked at."""
    for _ in range(_MAX_ROUNDS):
        kept = scores > threshold.float()
        count = kept.sum(dim=1, keepdim=True)
        if torch.equal(count, support):
            break
        left = torch.where(kept, scores, 0).sum(dim=1, keepdim=True).double()
        threshold, support = (left - 1) / count, count
    return threshold


def _greatest(scores: Tensor, k: int) -> Tensor:
    """Find the k greatest scores of each row, sorted.

    They lie in the k stretches of columns with the greatest maxima, so only these are sorted.
    """
    rows, columns = scores.shape
    stretches = columns // _STRETCH
    if stretches <= k:
        return scores.topk(k, dim=1).values
    even = scores[:, : stretches * _STRETCH].view(rows, stretches, _STRETCH)
    best = even.amax(dim=2).topk(k, dim=1).indices
    likely = even.gather(1, best[:, :, None].expand(-1, -1, _STRETCH)).flatten(1)
    rest = scores[:, stretches * _STRETCH :]
    return torch.cat([likely, rest], dim=1).topk(k, dim=1).values


class _FastText:
    """A fastText model whose ``in`` looks words up in a set; the library's searches a list."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._words = set(model.words)

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def __getitem__(self, word: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        vector: np.ndarray[Any, np.dtype[np.float32]] = self._model[word]
        return vector


@contextmanager
def quick_steps() -> Iterator[None]:
    """Replace deepfocus's slow steps by faster ones with the same results; its matching of tokens stays.

    Progress bars are drawn on terminals only.
    """
    from deepfocus import focus, vocab_helper

    bars = (focus.tqdm, vocab_helper.tqdm)
    load, mix = focus.load_target_token_embedding, focus.focus_additional_token_initialization

    def mixed(shared: dict[str, Any], new: dict[str, Any], embeddings: Tensor, **_: Any) -> Tensor:
        if new:
            of_new, of_shared = (
                torch.from_numpy(np.stack([token.auxiliary_embedding for token in group.values()]))
                for group in (new, shared)
            )
            vectors = torch.stack([token.source_embedding for token in shared.values()])
            embeddings[[token.target.id for token in new.values()]] = mixes(of_new, of_shared, vectors)
        return embeddings

    focus.load_target_token_embedding = lambda *args, **options: _FastText(load(*args, **options))
    focus.focus_additional_token_initialization = mixed
    focus.tqdm, vocab_helper.tqdm = (partial(bar, disable=None) for bar in bars)
    try:
        yield
    finally:
        focus.load_target_token_embedding, focus.focus_additional_token_initialization = load, mix
        focus.tqdm, vocab_helper.tqdm = bars
