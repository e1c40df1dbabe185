"""Where a recipe's texts come from; read as ``settings.py`` is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from modenc.recipe.parse import NonNegativeInt, PositiveInt, Share

TRAINED_ON = ("text", "paraphrases", "scored_pairs", "parallel", "cross_paraphrases", "cross_scored_pairs")
"""The lists of ``data`` that modules learn from; the others are development sets."""

ROLES: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "paraphrases": ("anchor", "positive", "negative"),
    "scored_pairs": ("sentence1", "sentence2", "score"),
    "parallel": ("pivot", "text"),
    "cross_paraphrases": ("anchor", "positive", "negative"),
    "cross_scored_pairs": ("sentence1", "sentence2", "score"),
    "sts": ("sentence1", "sentence2", "score"),
    "cross_sts": ("sentence1", "sentence2", "score"),
}
"""What the columns of each list of sources are for."""

GROUPED: dict[str, tuple[str, ...]] = {"paraphrases": ("text",), "cross_paraphrases": ("text", "pivot")}
"""The same where ``group`` says which rows are paraphrases of each other."""


@dataclass(frozen=True)
class Source:
    """One place texts come from. Exactly one of ``path``, ``dataset`` and ``gettext`` is set.

    In every string ``{lang}`` stands for the language's code and ``{pivot}`` for the pivot's.
    """

    SHORTHAND = "path"
    RENAMED = {"licence": "license"}  # noqa: RUF012  (a field otherwise)

    path: str | None = None
    """A text, TSV, CSV, JSONL or Parquet file, plain or .gz / .zst, relative to ``data.root``."""
    dataset: str | None = None
    """A data set name for ``datasets.load_dataset``."""
    gettext: tuple[str, ...] = ()
    """Installed Python packages whose gettext catalogues are read (message id = pivot side)."""
    config: str | None = None
    """Configuration (subset) of ``dataset``."""
    split: str = "train"
    """Split of ``dataset``."""
    streaming: bool = False
    """Stream ``dataset`` instead of downloading it whole."""
    lang: str | None = None
    """Locale of the gettext catalogue, when it is not the language's own code (``pt_BR``)."""
    columns: dict[str, str] = field(default_factory=dict)
    """Role → column name, where the names differ from the roles (``{ text = "kk", pivot = "en" }``)."""
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keep only rows whose column holds one of these values. With ``pivot_path`` this filter, as the other
    three, applies to both files, and to ``path`` alone where the pivot's file has no such column."""
    where_not: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Drop rows whose column holds one of these values."""
    at_least: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at least this (``{ score = 4.0 }``)."""
    at_most: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at most this (``{ unknown = 0.25 }``). With ``pivot_path``, see
    ``where``."""
    pivot_path: str | None = None
    """Two files, one in each language: the pivot's rows of the same set, joined on ``key``."""
    key: str = "id"
    """Column on which ``path`` and ``pivot_path`` are joined."""
    group: str = ""
    """``paraphrases`` and ``cross_paraphrases``: a column whose value rows of one meaning share (``image``).
    Each row then has the role ``text``, and for ``cross_paraphrases`` its counterpart as ``pivot``. Rows of a
    group are paired in their order, the first with the second, the third with the fourth; across, each text
    goes with the other's counterpart. Rows without a value there are left out."""
    limit: NonNegativeInt = 0
    """Take at most this many rows (0: all), counted as they are trained on: after joining and pairing."""
    repeat: PositiveInt = 1
    """Show every row this many times an epoch: the weight of a small good source."""
    license: str = ""
    """License of the texts, copied into the card of what is trained on them. A file that ``modenc translate``
    made has it in the record beside it."""
    translator: str = ""
    """What machine translated them, where one did (``Apertium eng-kaz``), copied into the card, too. Not
    stated, it is that of the record."""


@dataclass(frozen=True)
class DevSources:
    """What choices are made on; never trained on."""

    sts: tuple[Source, ...] = ()
    """Rows with roles ``sentence1``, ``sentence2``, ``score``: Spearman of cosine."""
    cross_sts: tuple[Source, ...] = ()
    """The same with ``sentence1`` in the pivot language."""
    parallel_held_out: NonNegativeInt = 200
    """Parallel pairs set aside for retrieval accuracy before training."""
    text_held_out: NonNegativeInt = 200
    """Running-text lines set aside for perplexity and tokens per sentence."""


@dataclass(frozen=True)
class DataSettings:
    """Where a language's texts are and which lines of them are kept."""

    root: Path
    """Folder that relative paths start from; override with ``data.root=DIR``."""
    licenses: tuple[str, ...]
    """Only sources under these licenses are trained on, the others are left out, and one that states none is
    a fault; empty: all. A source under several (``mixed: A, B``) needs each of them here. Development sets
    are not trained on, and stay."""
    text: tuple[Source, ...]
    """Running text: stages 1 and 2, and SimCSE in stage 3. Role ``text``."""
    paraphrases: tuple[Source, ...]
    """Stage 3. Roles ``anchor``, ``positive`` and, where there are any, ``negative``."""
    scored_pairs: tuple[Source, ...]
    """Stage 3, ``scored_steps``. Roles ``sentence1``, ``sentence2`` and ``score``: how alike people judged
    them. Not checked for language: the pivot's teach other languages too."""
    parallel: tuple[Source, ...]
    """Stage 4. Roles ``pivot`` and ``text``: a sentence and its translation."""
    cross_paraphrases: tuple[Source, ...]
    """Stage 4. ``anchor``/``positive``/``negative`` of the language joined with the pivot's."""
    cross_scored_pairs: tuple[Source, ...]
    """Stage 4. ``sentence1``/``sentence2``/``score`` of the language joined with the pivot's."""
    dev: DevSources
    """Development sets."""
    min_chars: NonNegativeInt
    """Shorter lines are dropped."""
    max_chars: PositiveInt
    """Longer lines are dropped."""
    deduplicate: bool
    """Drop lines whose letters and digits were seen before."""
    check_script: bool
    """Drop lines mostly in a script the language is not written in."""
    check_language: bool
    """Drop lines that are identified as another language with confidence."""
    min_language_share: Share
    """Refuse a corpus of which a smaller share than this is in the language's script and language."""
