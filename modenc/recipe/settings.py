"""What a recipe can say: one frozen dataclass per section, each field explained beneath it.

The text under a field is the documentation of the key of the same name in the TOML file; the
defaults live in ``recipes/_defaults.toml`` alone, so a value is never stated twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from modenc.recipe.alignment_settings import AlignmentSettings as AlignmentSettings
from modenc.recipe.alignment_settings import PaperObjective
from modenc.recipe.optimizer_settings import OptimizerSettings as OptimizerSettings
from modenc.recipe.paper_settings import DecoderSettings, EmmaXSettings, MusrSettings, VmsstSettings

VocabularyMethod = Literal["base", "focus", "trim", "extend"]
AdaptationObjective = Literal["none", "mlm", "distill", "mlm+distill", "pivot"]
EncodingObjective = Literal["none", "mnrl", "simcse", "mnrl+simcse"]
MonolithicObjective = Literal["pivot", "monolingual", "cross", "monolingual+cross", PaperObjective]
Precision = Literal["auto", "fp32", "bf16"]
EmbeddingStorage = Literal["float16", "int8"]

STAGES = ("vocabulary", "language_adaptation", "sentence_encoding", "alignment")
"""The stages of training, in order; each has a section in recipes."""

PAPER_SECTIONS: dict[str, tuple[str, ...]] = {
    "contrastive": (),
    "bitranslation": ("decoder", "vmsst"),
    "vmsst": ("decoder", "vmsst"),
    "vmsst_contrastive": ("decoder", "vmsst"),
    "musr": ("decoder", "musr"),
    "emma_x": ("emma_x",),
}
"""The other papers' objectives, each with the sections that it reads besides."""

FRESH = "fresh"
"""``sentence_encoding.start``: begin with an adapter that changes nothing."""


@dataclass(frozen=True)
class Source:
    """One place texts come from. Exactly one of ``path``, ``dataset`` and ``gettext`` is set.

    In every string ``{lang}`` stands for the language's code and ``{pivot}`` for the pivot's.
    """

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
    limit: int = 0
    """Take at most this many rows (0: all), counted as they are trained on: after joining and pairing."""
    repeat: int = 1
    """Show every row this many times an epoch: the weight of a small good source."""
    licence: str = ""
    """Licence of the texts, copied into the card of what is trained on them. A file that ``modenc translate``
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
    parallel_held_out: int = 200
    """Parallel pairs set aside for retrieval accuracy before training."""
    text_held_out: int = 200
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
    min_chars: int
    """Shorter lines are dropped."""
    max_chars: int
    """Longer lines are dropped."""
    deduplicate: bool
    """Drop lines whose letters and digits were seen before."""
    check_script: bool
    """Drop lines mostly in a script the language is not written in."""
    check_language: bool
    """Drop lines that are identified as another language with confidence."""
    min_language_share: float
    """Refuse a corpus of which a smaller share than this is in the language's script and language."""


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter (Hu et al., 2022): ``W x + alpha / rank · B A x``."""

    rank: int
    """Rows of A, columns of B."""
    alpha: int
    """Numerator of the scaling."""
    dropout: float
    """On the adapter's input, while training."""


@dataclass(frozen=True)
class VocabularySettings:
    """Stage 1: the language's tokenizer and embeddings."""

    method: VocabularyMethod
    """``focus`` (paper): new tokenizer, FOCUS embeddings. ``trim``: the base's pieces that the text uses,
    filled up with likely ones. ``extend``: trim plus new pieces by FOCUS. ``base``: the base's vocabulary."""
    size: int
    """Pieces in the result, special tokens included."""
    new_pieces: int
    """``extend`` only: how many of ``size`` are new."""
    max_sentences: int
    """Lines the tokenizer is trained on at most; of more, a random sample of all sources is taken."""
    fasttext_dim: int
    """Dimensions of the fastText vectors that measure token similarity."""
    fasttext_epochs: int
    """Passes of fastText over the tokenised text."""
    storage: EmbeddingStorage
    """How the embeddings are written. ``int8``: half the size, with a scale for each piece; numbers move by a
    254th of their piece's largest at most, and later stages train on what was written."""


@dataclass(frozen=True)
class LanguageAdaptationSettings:
    """Stage 2: embeddings and a LoRA on query, key and value learn the language's text."""

    objective: AdaptationObjective
    """``mlm`` (paper), ``distill`` from the base's sentence vectors, both, or ``none``. ``pivot``: onto the
    frozen pivot's vectors, on the data and with the losses that ``[alignment]`` names, and with the adapter
    that stage 3 starts from in place; embeddings learn most by translations."""
    lora: LoraSettings
    """The language adapter LA."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    train_embeddings: bool
    """Train the embedding matrix along with LA (paper: yes)."""
    embedding_learning_rate: float
    """Peak learning rate of the embeddings."""
    block_length: int
    """Masked LM: tokens in a packed block."""
    max_length: int
    """Distillation: tokens at which a sentence is cut."""
    mask_probability: float
    """Masked LM: share of tokens that are predicted."""
    strength: float
    """Share of what the embeddings and LA learned that is kept, above 0 and up to 1."""
    mlm_weight: float
    """``mlm+distill``: weight of the masked-LM loss beside the distillation loss."""


@dataclass(frozen=True)
class SentenceEncodingSettings:
    """Stage 3: a LoRA on all linear layers learns sentence similarity; all else is frozen."""

    objective: EncodingObjective
    """``mnrl`` on paraphrases (paper), ``simcse`` on running text, both in turn, or ``none``."""
    start: str
    """``fresh`` (paper), or the code of a language of the hub whose adapter is copied first, a relative's or
    the pivot's: much of what it learned holds in other languages. With ``objective = "none"`` it stays so."""
    scored_steps: int
    """Steps on ``data.scored_pairs`` (CoSENT) that follow the objective's own; 0 for none."""
    lora: LoraSettings
    """The sentence-encoding adapter SE."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    max_length: int
    """Tokens at which a sentence is cut."""
    scale: float
    """Inverse temperature of the softmax over cosines (MNRL: 20)."""
    mini_batch_size: int
    """Above 0, the cached loss (GradCache) runs batches in pieces of this size."""
    simcse_max_chars: int
    """SimCSE reads running-text lines up to this length: short lines are cheap and like captions."""

    def summary(self) -> str:
        """What is done, in a few words: ``mnrl then scored pairs from kk``, ``copied from kk``, ``none``."""
        done: list[str] = [] if self.objective == "none" else [self.objective]
        done += ["scored pairs"] if self.scored_steps else []
        if self.start == FRESH:
            return " then ".join(done) or "none"
        return f"{' then '.join(done) or 'copied'} from {self.start}"


@dataclass(frozen=True)
class MonolithicSettings:
    """``modenc train --monolithic``, to compare with: all of one model learns from all languages."""

    objective: MonolithicObjective
    """The pivot's paraphrases alone (paper: Full_en), each language's (Full_m), those across each language
    and the pivot (Full_c), or first the ones, then the others (Full_mc). Or another paper's objective, as in
    ``alignment``, on all languages' parallel pairs."""
    optimizer: OptimizerSettings
    """Steps, batches, rates; of each of the two phases of ``monolingual+cross``."""
    max_length: int
    """Tokens at which a sentence is cut."""
    scale: float
    """Inverse temperature of MNRL."""


@dataclass(frozen=True)
class BaseSettings:
    """The frozen body that all languages share."""

    model: str
    """``me5-small``, a folder, or a Hugging Face id (``id@revision`` pins it)."""
    prompt: str
    """Put before every text, in training and in encoding."""
    pooling: Literal["mean", "cls", "max"]
    """How token vectors become a sentence vector."""
    max_length: int
    """Tokens at which ``encode`` cuts."""


@dataclass(frozen=True)
class RunSettings:
    """How a run behaves, whatever it trains."""

    work_dir: Path
    """Checkpoints, caches and logs; safe to delete when nothing is running."""
    seed: int
    """Seeds Python, NumPy and torch."""
    precision: Precision
    """``auto``: bf16 where the processor has it, else fp32."""
    threads: int
    """Torch threads; 0: torch's own number, at most the cores that affinity and quota allow."""
    checkpoint_every: int
    """Steps between checkpoints that a killed run resumes from."""
    evaluate_every: int
    """Steps between evaluations on the dev set; 0 for the end only."""
    publish: Literal["always", "unless_worse"]
    """``unless_worse``: modules that lose to the bare base on held-out data (a lower mean of the metrics that
    both have) are not put into the hub, and what it has of the language stays."""


@dataclass(frozen=True)
class LanguagePlan:
    """Everything that training one language needs: the recipe resolved for it."""

    lang: str
    """Normalised code."""
    pivot: str
    """Code of the language all others are aligned to."""
    recipe: str
    """Name of the recipe."""
    hub: Path
    """Hub folder."""
    base: BaseSettings
    run: RunSettings
    data: DataSettings
    vocabulary: VocabularySettings
    language_adaptation: LanguageAdaptationSettings
    sentence_encoding: SentenceEncodingSettings
    alignment: AlignmentSettings
    monolithic: MonolithicSettings
    decoder: DecoderSettings
    musr: MusrSettings
    vmsst: VmsstSettings
    emma_x: EmmaXSettings

    def aligned_with_all(self) -> bool:
        """Whether the language is aligned with every other, in one training, and not with the pivot alone."""
        return self.alignment.partners == "all" and self.alignment.objective != "none"


@dataclass(frozen=True)
class Recipe:
    """A checked recipe: a plan for each language, in the order of training.

    Each comes after the one it starts from, and the pivot before the rest.
    """

    name: str
    path: Path
    pivot: str
    hub: Path
    plans: dict[str, LanguagePlan]
    text: str
    """The whole resolved recipe as TOML (what ``modenc recipe show`` prints)."""
    start_from: Path | None = None
    """A hub that the pivot and the languages of ``start`` are copied from where ``hub`` lacks them."""
    left_out: tuple[str, ...] = ()
    """A line for each source that ``data.licenses`` does not allow."""
    warnings: tuple[str, ...] = ()
    """What is probably not meant, a line each, where the files were looked into."""
    notes: tuple[str, ...] = ()
    """What else was seen in the files."""

    def before_pivot(self) -> list[str]:
        """The languages whose adapter the pivot starts from, directly or not: they are trained before it."""
        order = list(self.plans)
        return order[: order.index(self.pivot)] if self.pivot in order else []
