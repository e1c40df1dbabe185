"""What a recipe can say: one frozen dataclass per section, each field explained beneath it.

The text under a field is the documentation of the key of the same name in the TOML file; the
defaults live in ``recipes/_defaults.toml`` alone, so a value is never stated twice.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

from modenc.recipe.data_settings import DataSettings as DataSettings
from modenc.recipe.data_settings import DevSources as DevSources
from modenc.recipe.data_settings import Source as Source
from modenc.recipe.paper_settings import PAPER_SECTIONS as PAPER_SECTIONS
from modenc.recipe.paper_settings import (
    DecoderSettings,
    EmmaXSettings,
    MusrSettings,
    PaperObjective,
    VmsstSettings,
    data_for_alignment,
)
from modenc.recipe.parse import (
    SEED,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    Share,
    ShareAbove0,
    ShareBelow1,
    Tokens,
    at_least,
)

VocabularyMethod = Literal["base", "focus", "trim", "extend"]
AdaptationObjective = Literal["none", "mlm", "distill", "mlm+distill", "pivot"]
EncodingObjective = Literal["none", "mnrl", "simcse", "mnrl+simcse"]
AlignmentObjective = Literal[
    "none", "joint", "paraphrase", "parallel", "scored", "scored+parallel", PaperObjective
]
MonolithicObjective = Literal["pivot", "monolingual", "cross", "monolingual+cross", PaperObjective]
Precision = Literal["auto", "fp32", "bf16"]
EmbeddingStorage = Literal["float16", "int8"]

STAGES = ("vocabulary", "language_adaptation", "sentence_encoding", "alignment")
"""The stages of training, in order; each has a section in recipes."""

FRESH = "fresh"
"""``sentence_encoding.start``: begin with an adapter that changes nothing."""


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter (Hu et al., 2022): ``W x + alpha / rank · B A x``."""

    rank: PositiveInt
    """Rows of A, columns of B."""
    # More is refused in a hub: products of such adapters may be infinite.
    alpha: Annotated[int, Range("1 to 1000", lambda value: 1 <= value <= 1000)]
    """Numerator of the scaling."""
    dropout: ShareBelow1
    """On the adapter's input, while training."""


@dataclass(frozen=True)
class OptimizerSettings:
    """How a model is optimized, in one stage or in a monolithic training."""

    steps: NonNegativeInt
    """Optimizer steps; 0: as many as ``epochs`` takes."""
    epochs: NonNegativeFloat
    """Passes over the data where ``steps`` is 0. Several sets of one task (triplets, and pairs without a hard
    negative) are read in proportion to their rows. Tasks (``joint``'s paraphrases and translations,
    ``mnrl+simcse``'s two, a monolithic model's languages) take turns batch by batch until the largest was
    read; smaller ones are repeated."""
    batch_size: PositiveInt
    """Sentences, pairs or blocks per forward pass."""
    gradient_accumulation: PositiveInt
    """Forward passes per optimizer step."""
    learning_rate: PositiveFloat
    """Peak learning rate of the adapter."""
    warmup_ratio: Share
    """Share of the steps that the learning rate rises."""
    schedule: Literal["linear", "cosine", "constant_with_warmup"]
    """Course of the learning rate after warm-up."""
    weight_decay: NonNegativeFloat
    """AdamW's."""
    max_grad_norm: PositiveFloat
    """Gradients are clipped to this norm."""


@dataclass(frozen=True)
class VocabularySettings:
    """Stage 1: the language's tokenizer and embeddings."""

    method: VocabularyMethod
    """``focus`` (paper): new tokenizer, FOCUS embeddings. ``trim``: the base's pieces that the text uses,
    filled up with likely ones. ``extend``: trim plus new pieces by FOCUS. ``base``: the base's vocabulary."""
    # The base's special tokens, an alphabet and some pieces: fewer make no tokenizer.
    size: Annotated[int, at_least(300)]
    """Pieces in the result, special tokens included."""
    new_pieces: NonNegativeInt
    """``extend`` only: how many of ``size`` are new."""
    max_sentences: PositiveInt
    """Lines the tokenizer is trained on at most; of more, a random sample of all sources is taken."""
    fasttext_dim: PositiveInt
    """Dimensions of the fastText vectors that measure token similarity."""
    fasttext_epochs: PositiveInt
    """Passes of fastText over the tokenized text."""
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
    embedding_learning_rate: PositiveFloat
    """Peak learning rate of the embeddings."""
    block_length: Tokens
    """Masked LM: tokens in a packed block."""
    max_length: Tokens
    """Distillation: tokens at which a sentence is cut."""
    mask_probability: Annotated[float, Range("a share above 0 and below 1", lambda value: 0 < value < 1)]
    """Masked LM: share of tokens that are predicted."""
    strength: ShareAbove0
    """Share of what the embeddings and LA learned that is kept, above 0 and up to 1."""
    mlm_weight: PositiveFloat
    """``mlm+distill``: weight of the masked-LM loss beside the distillation loss."""


@dataclass(frozen=True)
class SentenceEncodingSettings:
    """Stage 3: a LoRA on all linear layers learns sentence similarity; all else is frozen."""

    objective: EncodingObjective
    """``mnrl`` on paraphrases (paper), ``simcse`` on running text, both in turn, or ``none``."""
    start: str
    """``fresh`` (paper), or the code of a language of the hub whose adapter is copied first, a relative's or
    the pivot's: much of what it learned holds in other languages. With ``objective = "none"`` it stays so."""
    scored_steps: NonNegativeInt
    """Steps on ``data.scored_pairs`` (CoSENT) that follow the objective's own; 0 for none."""
    lora: LoraSettings
    """The sentence-encoding adapter SE."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    max_length: Tokens
    """Tokens at which a sentence is cut."""
    scale: PositiveFloat
    """Inverse temperature of the softmax over cosines (MNRL: 20)."""
    mini_batch_size: NonNegativeInt
    """Above 0, the cached loss (GradCache) runs batches in pieces of this size."""
    simcse_max_chars: PositiveInt
    """SimCSE reads running-text lines up to this length: short lines are cheap and like captions."""

    def summary(self) -> str:
        """What is done, in a few words: ``mnrl then scored pairs from kk``, ``copied from kk``, ``none``."""
        done: list[str] = [] if self.objective == "none" else [self.objective]
        done += ["scored pairs"] if self.scored_steps else []
        if self.start == FRESH:
            return " then ".join(done) or "none"
        return f"{' then '.join(done) or 'copied'} from {self.start}"


@dataclass(frozen=True)
class AlignmentSettings:
    """Stage 4: a parallel adapter CLA pulls the language onto the frozen pivot."""

    objective: AlignmentObjective
    """``joint`` (paper): paraphrase and parallel batches in turn; or one of them; or ``none``. ``scored``:
    pairs with scores ranked within the language and across at once; ``scored+parallel``: with parallel
    batches in turn. Or another paper's, on parallel pairs: ``contrastive``, ``bitranslation``, ``vmsst`` and
    ``vmsst_contrastive`` ([vmsst]), ``musr`` ([musr]), ``emma_x`` ([emma_x])."""
    partners: Literal["pivot", "all"]
    """Each language onto the frozen ``pivot`` (paper), or ``all`` languages with each other: one training in
    which every language, the pivot too, learns an adapter (the paper's Table 3)."""
    reduction_factor: PositiveInt
    """Hidden size over bottleneck size of the parallel adapter (``ParBnConfig``: 2)."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    max_length: Tokens
    """Tokens at which a sentence is cut."""
    scale: PositiveFloat
    """Inverse temperature of MNRL."""
    parallel_loss: Literal["cosine", "mnrl", "cosine+mnrl"]
    """Loss on parallel pairs: ``cosine`` (paper), in-batch ranking, or their sum."""
    pivot_negatives: NonNegativeInt
    """Extra pivot vectors each MNRL batch is ranked against; free, since they are cached."""
    symmetric: bool
    """Also rank the language's sentences for each pivot sentence."""
    scored_weight: PositiveFloat
    """Weight of the ranking by scores (CoSENT) beside the cosine to the pivot's sentences."""
    similarity_weight: NonNegativeFloat
    """Weight of a term that draws the cosines of a batch's sentences, with each other and with the pivot's,
    to those of the pivot's sentences (0: paper)."""
    keep_weight: NonNegativeFloat
    """Weight of a term that keeps within-language cosines where stage 3 left them (0: paper)."""
    strength: ShareAbove0
    """Share of the adapter's trained output that is kept, above 0 and up to 1 (paper). Less keeps more within
    the language; half of it also gained most across, in turkic. A step back towards the start, as WiSE-FT's
    (Wortsman et al., 2022)."""


@dataclass(frozen=True)
class MonolithicSettings:
    """``modenc train --monolithic``, to compare with: all of one model learns from all languages."""

    objective: MonolithicObjective
    """The pivot's paraphrases alone (paper: Full_en), each language's (Full_m), those across each language
    and the pivot (Full_c), or first the ones, then the others (Full_mc). Or another paper's objective, as in
    ``alignment``, on all languages' parallel pairs."""
    optimizer: OptimizerSettings
    """Steps, batches, rates; of each of the two phases of ``monolingual+cross``."""
    max_length: Tokens
    """Tokens at which a sentence is cut."""
    scale: PositiveFloat
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
    max_length: Tokens
    """Tokens at which ``encode`` cuts."""


@dataclass(frozen=True)
class RunSettings:
    """How a run behaves, whatever it trains."""

    work_dir: Path
    """Checkpoints, caches and logs; safe to delete when nothing is running."""
    seed: Annotated[int, SEED]
    """Seeds Python, NumPy and torch."""
    precision: Precision
    """``auto``: bf16 where the processor has it, else fp32."""
    threads: NonNegativeInt
    """Torch threads; 0: torch's own number, at most the cores that affinity and quota allow."""
    checkpoint_every: PositiveInt
    """Steps between checkpoints that a killed run resumes from."""
    evaluate_every: NonNegativeInt
    """Steps between evaluations on the dev set; 0 for the end only."""
    publish: Literal["always", "unless_worse"]
    """``unless_worse``: modules that lose to the bare base on held-out data (a lower mean of the metrics that
    both have) are not put into the hub, and what it has of the language stays."""


@dataclass(frozen=True)
class LanguagePlan:
    """Everything that training one language needs: the recipe resolved for it."""

    lang: str
    """Normalized code."""
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

    def reads(self, stage: str) -> tuple[str, ...]:
        """The lists of ``data`` that a stage trains on, in a fixed order."""
        if stage == "vocabulary":
            return () if self.vocabulary.method == "base" else ("text",)
        if stage == "sentence_encoding":
            encoding, kinds = self.sentence_encoding, {"mnrl": "paraphrases", "simcse": "text"}
            lists = tuple(name for kind, name in kinds.items() if kind in encoding.objective)
            return (*lists, "scored_pairs") if encoding.scored_steps else lists
        if stage == "language_adaptation" and self.language_adaptation.objective != "pivot":
            return () if self.language_adaptation.objective == "none" else ("text",)
        lists = data_for_alignment(self.alignment.objective, self.emma_x)
        own = ("paraphrases",) if self.alignment.partners == "all" and "cross_paraphrases" in lists else ()
        # The pivot's side of the rest comes with the other languages.
        return own if self.lang == self.pivot else (*own, *lists)

    def aligned_with_all(self) -> bool:
        """Whether the language is aligned with every other, in one training, and not with the pivot alone."""
        return self.alignment.partners == "all" and self.alignment.objective != "none"


SECTIONS: dict[str, type] = {
    name: hint
    for name, hint in get_type_hints(LanguagePlan).items()
    if isinstance(hint, type) and is_dataclass(hint)
}
"""The tables of a recipe that become part of every language's plan, in the order of the plan."""


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
