"""The sections of recipes, a frozen dataclass for each.

The text under a field documents the key of the same name in the TOML file. The defaults are in
``recipes/_defaults.toml`` alone, so that no value is stated twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from modenc.data.filters import Filters
from modenc.data.kinds import TRAINED_ON
from modenc.data.sources import Source
from modenc.hub.layout import STAGE_MODULES
from modenc.licenses import is_allowed
from modenc.ranges import (
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

PaperObjective = Literal["contrastive", "bitranslation", "vmsst", "vmsst_contrastive", "musr", "emma_x"]
EmbeddingStorage = Literal["float16", "int8"]

STAGES = tuple(STAGE_MODULES)
"""The stages of training, in order; each has a section in recipes."""

FRESH = "fresh"
"""Value of a stage's ``start`` for a new adapter, which changes nothing at first."""


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter (Hu et al., 2022): ``W x + alpha / rank · B A x``."""

    rank: PositiveInt
    """Rows of A, columns of B."""
    # Hubs refuse more, since products of such adapters may be infinite.
    alpha: Annotated[int, Range("1 to 1000", lambda value: 1 <= value <= 1000)]
    """Numerator of the scaling."""
    dropout: ShareBelow1
    """Dropout of the adapter's input, in training."""


@dataclass(frozen=True)
class OptimizerSettings:
    """Optimization of a model, in one stage or in a monolithic training."""

    steps: NonNegativeInt
    """Optimizer steps; 0: as many as ``epochs`` takes."""
    epochs: NonNegativeFloat
    """Passes over the data where ``steps`` is 0. Several sets (paraphrases and translations of ``joint``,
    languages of a monolithic model) take turns batch by batch until the largest was read; smaller ones are
    repeated."""
    batch_size: PositiveInt
    """Sentences, pairs or blocks per forward pass."""
    gradient_accumulation: PositiveInt
    """Forward passes per optimizer step."""
    learning_rate: PositiveFloat
    """Peak learning rate of the adapter."""
    warmup_ratio: Share
    """Share of the steps in which the learning rate rises."""
    schedule: Literal["linear", "cosine", "constant_with_warmup"]
    """Course of the learning rate after warm-up."""
    weight_decay: NonNegativeFloat
    """Weight decay of AdamW."""

    def rows_a_step(self) -> int:
        """Count the rows that one optimizer step reads."""
        return self.batch_size * self.gradient_accumulation


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
    cross_search: tuple[Source, ...] = ()
    """Rows as in ``search``, with ``query`` in the pivot language; or two files as in ``search``, joined."""
    parallel_held_out: NonNegativeInt = 200
    """Parallel pairs set aside for retrieval accuracy before training."""
    text_held_out: NonNegativeInt = 200
    """Running-text lines set aside for distillation's dev set and tokens per sentence."""


@dataclass(frozen=True, kw_only=True)
class DataSettings(Filters):
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

    def allowed(self) -> DataSettings:
        """Return these settings without the sources that ``licenses`` does not allow; ``dev`` stays."""
        kept: dict[str, Any] = {
            name: tuple(source for source in getattr(self, name) if is_allowed(source.license, self.licenses))
            for name in TRAINED_ON
        }
        return replace(self, **kept)


@dataclass(frozen=True)
class VocabularySettings:
    """Stage 1: the language's tokenizer and embeddings."""

    method: Literal["base", "focus", "trim", "extend"]
    """``focus`` (paper): a new tokenizer with FOCUS embeddings. ``trim``: the base's pieces that the text
    uses, and likely ones. ``extend``: ``trim`` and new pieces by FOCUS. ``base``: the base's vocabulary."""
    size: Annotated[int, at_least(300)]  # at least the base's special tokens, an alphabet and some pieces
    """Number of pieces, special tokens included."""
    new_pieces: NonNegativeInt
    """``extend`` only: number of new pieces among ``size``."""
    max_sentences: PositiveInt
    """Number of lines that the tokenizer is trained on at most, a random sample of all sources."""
    fasttext_dim: PositiveInt
    """Dimensions of the fastText vectors that measure token similarity."""
    fasttext_epochs: PositiveInt
    """Passes of fastText over the tokenized text."""
    storage: EmbeddingStorage
    """Format of the embeddings. ``int8`` halves their size: a number changes by a 254th of its piece's
    largest at most, and later stages train on the changed ones."""
    transliteration: dict[str, str]
    """Character → text in its place, for the language's tokenizer; ``"ш" = "sh"`` gives ``Ш`` → ``Sh``."""


@dataclass(frozen=True)
class LanguageAdaptationSettings:
    """Stage 2: embeddings and a LoRA on query, key and value learn the language's text."""

    objective: Literal["none", "mlm", "distill", "mlm+distill", "pivot"]
    """``mlm`` (paper), or ``none``. ``distill``: learn the sentence vectors of the base's own vocabulary, as
    new pieces must. ``pivot``: learn the frozen pivot's vectors from the data and with the losses of
    ``[alignment]``. Both with the adapter in place that stage 3 starts from, unless that is fresh.
    ``mlm+distill``: masked words and the vectors of the base without an adapter."""
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
    """``mlm+distill``: weight of the masked-LM loss; the distillation loss has weight 1."""


@dataclass(frozen=True)
class SentenceEncodingSettings:
    """Stage 3: a LoRA on all linear layers learns sentence similarity; all else is frozen."""

    objective: Literal["none", "mnrl", "simcse"]
    """``mnrl`` on paraphrases (paper), ``simcse`` on running text, or ``none``."""
    start: str
    """``fresh`` (paper), or the code of a language in the hub whose adapter training starts from: a related
    language, or the pivot. With ``objective = "none"`` that adapter is used as it is."""
    scored_steps: NonNegativeInt
    """Steps on ``data.scored_pairs`` (CoSENT) after the steps of the objective; 0 for none."""
    keep_ranking_steps: NonNegativeInt
    """Further steps on ``data.scored_pairs`` in turn with ``data.passages``, on which the bare base's ranking
    is kept, for search; 0 for none."""
    keep_ranking_weight: PositiveFloat
    """Weight of the ranking of passages."""
    strength: ShareAbove0
    """Share of the trained adapter's output that is kept, above 0 and up to 1 (paper). Less is nearer to the
    base, and to its quality in search. Compare WiSE-FT (Wortsman et al., 2022)."""
    dropout: bool
    """Whether the frozen body drops out as in its own training while SE trains. SimCSE needs it; a ranking is
    better kept without."""
    lora: LoraSettings
    """The sentence-encoding adapter SE."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    max_length: Tokens
    """Tokens at which a sentence is cut."""
    scale: PositiveFloat
    """Inverse temperature of the softmax over cosines (MNRL: 20)."""


def summarize(settings: Mapping[str, Any]) -> str:
    """Describe a stage's settings: ``extend``, ``mnrl then scored pairs from kk``, ``copied from kk``."""
    objective = str(settings.get("method") or settings.get("objective", "none"))
    start = settings.get("start", FRESH)
    done = [] if objective == "none" else [objective]
    done += ["scored pairs"] if settings.get("scored_steps") else []
    done += ["scored pairs and passages"] if settings.get("keep_ranking_steps") else []
    if start == FRESH:
        return " then ".join(done) or "none"
    return f"{' then '.join(done) or 'copied'} from {start}"


@dataclass(frozen=True)
class AlignmentSettings:
    """Stage 4: a parallel adapter CLA pulls the language onto the frozen pivot."""

    objective: Literal["none", "joint", "paraphrase", "parallel", "scored", "scored+parallel", PaperObjective]
    """``joint`` (paper): paraphrase and parallel batches in turn; or one of them; or ``none``. ``scored``:
    scored pairs, ranked within the language and across in one loss; ``scored+parallel``: in turn with
    parallel batches. Or another paper's, on parallel pairs: ``contrastive``, ``bitranslation``, ``vmsst`` and
    ``vmsst_contrastive`` ([vmsst]), ``musr`` ([musr]), ``emma_x`` ([emma_x])."""
    start: str
    """``fresh`` (paper), or the code of a language in the hub whose CLA training starts from."""
    partners: Literal["pivot", "all"]
    """``pivot`` (paper): each language is aligned to the frozen pivot. ``all``: all pairs of languages are
    aligned in one training, and every language, the pivot too, learns an adapter (the paper's Table 3)."""
    dropout: bool
    """Whether the frozen body drops out as in its own training while CLA trains; without, its vectors are
    those that are compared later."""
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
    """Number of further pivot vectors that each MNRL batch is ranked against; cheap, since cached."""
    symmetric: bool
    """Whether the language's sentences are also ranked for each pivot sentence."""
    scored_weight: PositiveFloat
    """Weight of the ranking by scores (CoSENT); the cosine to the pivot's sentences has weight 1."""
    similarity_weight: NonNegativeFloat
    """Weight of a term that makes the cosines of a batch's sentences, with each other and with the pivot's,
    like the cosines between the pivot's sentences (0: paper)."""
    keep_weight: NonNegativeFloat
    """Weight of a term that keeps within-language cosines as stage 3 left them (0: paper): between passages
    and their queries, in batches of ``data.passages`` in turn with the others, or without such data between
    the sentences of translations and paraphrases."""
    strength: ShareAbove0
    """Share of the adapter's trained output that is kept, above 0 and up to 1 (paper). Less preserves more of
    the quality within the language; 0.5 also gained most across Kazakh and Azerbaijani. Compare WiSE-FT
    (Wortsman et al., 2022)."""


@dataclass(frozen=True)
class MonolithicSettings:
    """``modenc train --monolithic``, a baseline: all parameters of one model learn from all languages."""

    objective: Literal["pivot", "monolingual", "cross", "monolingual+cross", PaperObjective]
    """``pivot``: the pivot's paraphrases (paper: Full_en); ``monolingual``: each language's (Full_m);
    ``cross``: paraphrases across each language and the pivot (Full_c); ``monolingual+cross``: one after the
    other (Full_mc). Or another paper's objective, as in ``alignment``, on all languages' parallel pairs."""
    optimizer: OptimizerSettings
    """Steps, batches, rates; ``monolingual+cross`` has two phases of so many steps each."""
    max_length: Tokens
    """Tokens at which a sentence is cut."""
    scale: PositiveFloat
    """Inverse temperature of MNRL."""


@dataclass(frozen=True)
class DecoderSettings:
    """The decoder of ``musr``, ``bitranslation`` and ``vmsst``: it writes a sentence from a vector alone."""

    layers: PositiveInt
    """Transformer layers (MuSR: 3; VMSST: as many as its encoder has, and 1 beside 24 is better)."""
    heads: PositiveInt
    """Attention heads; a divisor of the hidden size."""
    inner_factor: PositiveInt
    """Inner size of a feed-forward block over the hidden size (MuSR: 8)."""
    dropout: ShareBelow1
    """Dropout in training (MuSR: 0.1; VMSST: 0)."""
    label_smoothing: ShareBelow1
    """``musr`` only: share of the target probability that is spread over all pieces (paper: 0.1)."""
    max_length: Tokens
    """Tokens at which a target is cut."""
    max_pieces: NonNegativeInt
    """Number of the targets' most frequent pieces that are written; rarer ones become unknown. 0: all."""
    learning_rate: PositiveFloat
    """Peak learning rate of the modules that are thrown away after training."""
    pivot_steps: NonNegativeInt
    """Modules only: first steps, in which the decoder alone learns to write the pivot's sentences from their
    cached vectors. In the papers encoder and decoder learn at the same time."""


@dataclass(frozen=True)
class MusrSettings:
    """``objective = "musr"`` (Gao et al., 2023): translation into the pivot, then CrossConST."""

    consistency: NonNegativeFloat
    """Weight α of CrossConST's divergence (paper: 1)."""
    consistency_share: Share
    """Share of the steps in the second phase."""
    copy_weight: NonNegativeFloat
    """Weight of the loss of writing each pivot sentence from its own vector. It is not in the paper, where
    the decoder reads the pivot's vectors only in the term with α; here they may be frozen."""
    sampling_exponent: Share
    """Exponent of a language's share of all pairs, to which its share of the batches is proportional
    (paper: 0.5)."""


@dataclass(frozen=True)
class VmsstSettings:
    """``objective = "vmsst"`` (Wieting et al., 2023): separate translations' meaning from their languages."""

    elbo_weight: NonNegativeFloat
    """Weight λ of the variational bound (paper: 0.025 on pretrained models, 0.1 from nothing)."""
    joint_weight: PositiveFloat
    """``vmsst_contrastive`` only: weight of all of VMSST's loss (paper: 0.0005)."""
    kl: bool
    """Whether the bound has the divergence from the prior (ablation "no KL": false)."""
    kl_steps: PositiveInt
    """Steps over which the divergence's weight rises to 1 (paper: 1,000,000)."""
    encoder_layers: NonNegativeInt
    """Layers of the language inference network (paper: as many as the sentence encoder has); 0: projections
    of the sentence vector take its place (ablation "1 enc.")."""
    language_encoders: NonNegativeInt
    """Number of language inference networks, given to languages in turn (ablation "4 enc."); 0: one each."""
    decoders: Literal["shared", "each"]
    """One decoder for all languages, or one for each (with ``language_encoders = 0``: the paper's A.2)."""
    encoder_language: bool
    """Whether the language is an input of its inference network (ablation "no enc. l.e.": false)."""
    decoder_language: bool
    """Whether the language is an input of the decoder (ablation "no dec. l.e.": false)."""
    factored: bool
    """Whether the logits' projection is a product of two (ablation "fact.")."""


@dataclass(frozen=True)
class EmmaXSettings:
    """``objective = "emma_x"`` (Guo et al., 2023): alignment on text without translations."""

    ranks: Annotated[int, at_least(2)]
    """N, the number of ranks of similarity that pairs are classified into (paper: 4; also 2 and 8)."""
    classifier: Literal["gmm", "fcn"]
    """Classifier of pairs: a mixture of Gaussians over the difference of two vectors, or a network."""
    warmup_share: Share
    """Share of the steps in phase 1, on translations."""
    queue: PositiveInt
    """K, the number of past vectors that each sentence is compared with (paper: 256)."""
    momentum: ShareBelow1
    """Decay of the momentum encoder's weights; it fills the queue (paper: 0.999, over many more steps)."""
    rank_momentum: ShareBelow1
    """ε, the decay of each rank's mean cosine."""
    temperature: PositiveFloat
    """τ of phase 1 and τ_1 of the closest rank (paper: 0.04)."""
    temperature_top: PositiveFloat
    """τ_{N-1}; the temperatures between rise evenly."""
    classifier_learning_rate: PositiveFloat
    """Peak learning rate of the classifier (paper: 3e-5, over many more steps)."""
    unpaired_rate_share: PositiveFloat
    """Peak learning rate of the encoder in phase 2, as a share of the optimizer's (paper: 1)."""


@dataclass(frozen=True)
class BaseSettings:
    """The frozen body that all languages share."""

    model: str
    """``me5-small``, a folder, or a Hugging Face id (``id@revision`` pins it)."""
    prompt: str
    """Text before every text, in training and in encoding."""
    pooling: Literal["mean", "cls", "max"]
    """Pooling of token vectors to a sentence vector."""
    max_length: Tokens
    """Tokens at which ``encode`` cuts a text."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of all trainings: folders, seed, precision, checkpoints."""

    work_dir: Path
    """Folder of checkpoints and finished stages; safe to delete when nothing is running."""
    seed: Annotated[int, SEED]
    """Seed of Python, NumPy and torch."""
    precision: Literal["auto", "fp32", "bf16"]
    """``auto``: bf16 where the processor has it, else fp32."""
    checkpoint_every: PositiveInt
    """Steps between checkpoints that a killed run resumes from."""
    evaluate_every: NonNegativeInt
    """Steps between evaluations on the dev set, whose best weights are kept; 0 for the end only."""
