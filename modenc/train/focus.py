"""FOCUS (Dobler and de Melo, 2023): vectors for new tokens, mixed from those of like shared tokens."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.recipe.settings import VocabularySettings

# deepfocus's own; rarer tokens are drawn at random.
MIN_COUNT = 10
# fastText sets each tenth of its table in a thread of that number, and leaves the tenths of missing
# threads as memory happens to be: with fewer than ten, NaN now and then.
_THREADS = 10
# Pieces are short: their n-grams are a tenth of what fastText's default of 2 million rows holds.
_BUCKETS = 200_000


def focus_embeddings(
    target: PreTrainedTokenizerFast,
    source: PreTrainedTokenizerFast,
    source_embeddings: Tensor,
    texts: list[str],
    settings: VocabularySettings,
    work: Path,
    seed: int,
    helper: PreTrainedTokenizerFast | None = None,
) -> Tensor:
    """Embeddings [target tokens, hidden]: copies for shared tokens, sparsemax mixes for the others.

    fastText takes no seed and its threads race, so the mixes differ a little from run to run.

    Args:
        target: the tokenizer to make embeddings for.
        source: the base's tokenizer.
        source_embeddings: the base's embeddings [source tokens, hidden].
        texts: running text that fastText learns likeness from.
        settings: fastText's dimension and epochs.
        work: folder for fastText's files, which are removed again.
        seed: for the tokens that fastText has not seen.
        helper: where ``target`` extends the source's tokenizer, the tokenizer its new pieces are from.
    """
    import fasttext
    from deepfocus import FOCUS

    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        tokens, model = Path(folder) / "tokens.txt", Path(folder) / "model.bin"
        cutter = helper or target
        with tokens.open("w", encoding="utf-8") as file:
            file.writelines(" ".join(cutter.tokenize(text)) + "\n" for text in texts)
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
        embeddings: Tensor = FOCUS(
            target_tokenizer=target,
            source_tokenizer=source,
            source_embeddings=source_embeddings,
            fasttext_model_path=str(model),
            extend_tokenizer=helper,
            processes=1,
            seed=seed,
            verbosity="silent",
        )
        return embeddings.detach().clone()
