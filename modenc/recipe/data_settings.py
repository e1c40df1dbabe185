"""Settings of a recipe's data; see ``settings.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from modenc.recipe.parse import NonNegativeInt, PositiveInt, Share

TRAINED_ON = (
    "text",
    "paraphrases",
    "scored_pairs",
    "passages",
    "parallel",
    "cross_paraphrases",
    "cross_scored_pairs",
)
"""The kinds of data that modules learn from; the others are development sets."""

COLUMN_ROLES: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "paraphrases": ("anchor", "positive", "negative"),
    "scored_pairs": ("sentence1", "sentence2", "score"),
    "passages": ("query", "passage"),
    "parallel": ("pivot", "text"),
    "cross_paraphrases": ("anchor", "positive", "negative"),
    "cross_scored_pairs": ("sentence1", "sentence2", "score"),
    "sts": ("sentence1", "sentence2", "score"),
    "cross_sts": ("sentence1", "sentence2", "score"),
    "search": ("query", "passage"),
}
"""Kind of data → roles of the columns."""

GROUPED_COLUMNS: dict[str, tuple[str, ...]] = {
    "paraphrases": ("text",),
    "cross_paraphrases": ("text", "pivot"),
}
"""Kind of data → roles of the columns where ``group`` names the column of rows with one meaning."""


@dataclass(frozen=True)
class Source:
    """One source of texts. Either ``path`` or ``dataset`` is set.

    In every string ``{lang}`` stands for the language's code and ``{pivot}`` for the pivot's.
    """

    SHORTHAND = "path"
    RENAMED = {"licence": "license"}  # noqa: RUF012  (a field otherwise)

    path: str | None = None
    """A text, TSV, CSV, JSONL or Parquet file, plain or .gz / .zst, relative to ``data.root``."""
    dataset: str | None = None
    """Name of a data set for ``datasets.load_dataset``."""
    config: str | None = None
    """Configuration (subset) of ``dataset``."""
    split: str = "train"
    """Split of ``dataset``."""
    streaming: bool = False
    """Stream ``dataset`` instead of downloading it whole."""
    columns: dict[str, str] = field(default_factory=dict)
    """Role → column name, where the names differ from the roles (``{ text = "kk", pivot = "en" }``). In the
    file of ``pivot_path`` ``{lang}`` is the pivot's code, too, and its text is in the column of ``pivot``."""
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keep only rows whose column has one of these values. With ``pivot_path`` this filter, like the next
    three, applies to both files, or to ``path`` alone if the pivot's file has no such column."""
    where_not: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Drop rows whose column holds one of these values."""
    at_least: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at least this (``{ score = 4.0 }``)."""
    at_most: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at most this (``{ unknown = 0.25 }``). With ``pivot_path``, see
    ``where``."""
    pivot_path: str | None = None
    """A second file with the pivot's rows of the same set, joined with those of ``path`` on ``key``."""
    key: str = "id"
    """Column on which ``path`` and ``pivot_path`` are joined."""
    group: str = ""
    """``paraphrases`` and ``cross_paraphrases``: a column that has the same value in all rows of one meaning
    (``image``). Then the roles are ``text``, and for ``cross_paraphrases`` also ``pivot``. Rows of a group
    are paired in order, the first with the second, the third with the fourth; for ``cross_paraphrases`` each
    text is paired with the other row's ``pivot``. Rows without a value are left out."""
    limit: NonNegativeInt = 0
    """Number of rows to take at most (0: all), counted after joining and pairing."""
    repeat: PositiveInt = 1
    """Number of times that every row is read in an epoch, to give a small good source more weight."""
    license: str = ""
    """License of the texts, copied into the cards of modules that are trained on them. For a file of
    ``modenc translate``, the default is the one in the record beside the file."""
    translator: str = ""
    """Machine translation system of the texts (``Apertium eng-kaz``), copied into the cards, too. The default
    is the one in the record."""


@dataclass(frozen=True)
class DevSettings:
    """Sources of the development sets, which checkpoints are chosen by.

    Pairs and translations with one of their sentences are left out of the training data; running text is not.
    """

    sts: tuple[Source, ...] = ()
    """Rows with roles ``sentence1``, ``sentence2``, ``score``: Spearman of cosine."""
    cross_sts: tuple[Source, ...] = ()
    """Rows as in ``sts``, with ``sentence1`` in the pivot language."""
    search: tuple[Source, ...] = ()
    """Rows with roles ``query`` and ``passage``, which answers it: nDCG@10 among all passages."""
    parallel_held_out: NonNegativeInt = 200
    """Parallel pairs set aside for retrieval accuracy before training."""
    text_held_out: NonNegativeInt = 200
    """Running-text lines set aside for perplexity and tokens per sentence."""


@dataclass(frozen=True)
class DataSettings:
    """A language's texts, and the filters of their lines."""

    root: Path
    """Folder that relative paths start from; override with ``data.root=DIR``."""
    licenses: tuple[str, ...]
    """Licenses of the sources that are trained on; empty: all. Other sources are left out, and a source that
    states no license is an error. A source under several (``mixed: A, B``) needs all of them here.
    Development sets are not trained on, so they stay."""
    text: tuple[Source, ...]
    """Running text: stages 1 and 2, and SimCSE in stage 3. Role ``text``."""
    paraphrases: tuple[Source, ...]
    """Stage 3. Roles ``anchor``, ``positive`` and, where there are any, ``negative``."""
    scored_pairs: tuple[Source, ...]
    """Stage 3, ``scored_steps``. Roles ``sentence1``, ``sentence2`` and ``score``, their similarity rated by
    people. Not checked for language, since the pivot's pairs also teach other languages."""
    passages: tuple[Source, ...]
    """Stage 3, ``keep_ranking_steps``, and stage 4, ``keep_weight``. Role ``passage``, in the order of the
    documents, and where there is one ``query``: a question or title. Not checked for language; ``max_chars``
    does not concern passages."""
    parallel: tuple[Source, ...]
    """Stage 4. Roles ``pivot`` and ``text``: a sentence and its translation."""
    cross_paraphrases: tuple[Source, ...]
    """Stage 4. ``anchor``/``positive``/``negative`` of the language, joined with the pivot's rows."""
    cross_scored_pairs: tuple[Source, ...]
    """Stage 4. ``sentence1``/``sentence2``/``score`` of the language, joined with the pivot's rows."""
    dev: DevSettings
    """Development sets."""
    min_chars: NonNegativeInt
    """Shortest line that is kept, in characters."""
    max_chars: PositiveInt
    """Longest line that is kept, in characters."""
    deduplicate: bool
    """Drop lines whose sentence was seen before, whatever its case, punctuation and apostrophes."""
    check_script: bool
    """Drop lines mostly in a script the language is not written in."""
    check_language: bool
    """Drop lines that are identified as another language with confidence."""
    min_language_share: Share
    """Smallest share of a corpus that must be in the language's script and language."""
