"""Settings of the other papers' objectives (MuSR, VMSST, EMMA-X); read as ``settings.py`` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from modenc.recipe.parse import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    ShareBelow1,
    Tokens,
    at_least,
)

PaperObjective = Literal["contrastive", "bitranslation", "vmsst", "vmsst_contrastive", "musr", "emma_x"]

PAPER_SECTIONS: dict[str, tuple[str, ...]] = {
    "contrastive": (),
    "bitranslation": ("decoder", "vmsst"),
    "vmsst": ("decoder", "vmsst"),
    "vmsst_contrastive": ("decoder", "vmsst"),
    "musr": ("decoder", "musr"),
    "emma_x": ("emma_x",),
}
"""The other papers' objectives, each with the sections that it reads besides."""

_READS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PAPER_SECTIONS, ("parallel",)),
    "joint": ("cross_paraphrases", "parallel"),
    "paraphrase": ("cross_paraphrases",),
    "parallel": ("parallel",),
    "scored": ("cross_scored_pairs",),
    "scored+parallel": ("cross_scored_pairs", "parallel"),
}


@dataclass(frozen=True)
class DecoderSettings:
    """The decoder of ``musr``, ``bitranslation`` and ``vmsst``: writes a sentence from a vector alone."""

    layers: PositiveInt
    """Transformer layers (MuSR: 3; VMSST: as many as its encoder has, and 1 beside 24 is better)."""
    heads: PositiveInt
    """Attention heads; they share the hidden size."""
    inner_factor: PositiveInt
    """Inner size of a feed-forward block over the hidden size (MuSR: 8)."""
    dropout: ShareBelow1
    """While training (MuSR: 0.1; VMSST: 0)."""
    label_smoothing: ShareBelow1
    """``musr`` only: share of the target probability that is spread over all pieces (paper: 0.1)."""
    max_length: Tokens
    """Tokens at which a target is cut."""
    max_pieces: NonNegativeInt
    """The targets' most frequent pieces are written, rarer ones as unknown; 0: all that occur."""
    learning_rate: PositiveFloat
    """Peak learning rate of all that is thrown away after training."""
    pivot_steps: NonNegativeInt
    """Modules only: steps that the decoder first learns on the pivot's sentences alone, from their cached
    vectors. In the papers encoder and decoder learn together."""


@dataclass(frozen=True)
class MusrSettings:
    """``objective = "musr"`` (Gao et al., 2023): translation into the pivot, then CrossConST."""

    consistency: NonNegativeFloat
    """Weight α of CrossConST's divergence (paper: 1)."""
    consistency_share: Share
    """Share of the steps that are its second phase."""
    copy_weight: NonNegativeFloat
    """Weight of writing each pivot sentence from its own vector too. The paper has no such term: there the
    decoder meets the pivot's vectors through α alone; here they may be frozen."""
    sampling_exponent: Share
    """A language with the share p of all pairs is shown in proportion to p to this power (paper: 0.5)."""


@dataclass(frozen=True)
class VmsstSettings:
    """``objective = "vmsst"`` (Wieting et al., 2023): what translations share, apart from what each adds."""

    elbo_weight: NonNegativeFloat
    """Weight λ of the variational bound (paper: 0.025 on pretrained models, 0.1 from nothing)."""
    joint_weight: PositiveFloat
    """``vmsst_contrastive`` only: weight of all of VMSST's loss (paper: 0.0005)."""
    kl: bool
    """Whether the bound has its divergence from the prior (ablation "no KL": false)."""
    kl_steps: PositiveInt
    """Steps over which the divergence's weight rises to 1 (paper: 1,000,000)."""
    encoder_layers: NonNegativeInt
    """Layers of the language inference network (paper: as many as the semantic one's); 0: language variables
    are read off the sentence encoder too (ablation "1 enc.")."""
    language_encoders: NonNegativeInt
    """Language inference networks, languages dealt to them in turn (ablation "4 enc."); 0: one for each."""
    decoders: Literal["shared", "each"]
    """One decoder for all languages, or one for each (with ``language_encoders = 0``: the paper's A.2)."""
    encoder_language: bool
    """Whether the language inference network knows the language (ablation "no enc. l.e.": false)."""
    decoder_language: bool
    """Whether the decoder knows the language (ablation "no dec. l.e.": false)."""
    factored: bool
    """Whether the logits' projection is a product of two (ablation "fact.")."""


@dataclass(frozen=True)
class EmmaXSettings:
    """``objective = "emma_x"`` (Guo et al., 2023): alignment on text without translations."""

    ranks: Annotated[int, at_least(2)]
    """N, the degrees of likeness that pairs are sorted into (paper: 4; also 2 and 8)."""
    classifier: Literal["gmm", "fcn"]
    """What sorts them: a mixture of Gaussians over the difference of two vectors, or a network."""
    warmup_share: Share
    """Share of the steps that are phase 1, on translations."""
    warmup_languages: tuple[str, ...]
    """Modules only: in phase 1 the classifier alone learns, from these languages' translations and modules in
    the hub; nothing is taken from the language's own translations. Empty: phase 1 on the language's own."""
    queue: PositiveInt
    """K, past vectors that each sentence is compared with (paper: 256)."""
    momentum: ShareBelow1
    """Of the encoder that fills the queue (paper: 0.999, over many more steps)."""
    rank_momentum: ShareBelow1
    """ε, of each rank's mean cosine."""
    temperature: PositiveFloat
    """τ of phase 1 and τ_1 of the closest rank (paper: 0.04)."""
    temperature_top: PositiveFloat
    """τ_{N-1}; those between rise evenly."""
    classifier_learning_rate: PositiveFloat
    """Peak learning rate of the classifier (paper: 3e-5, over many more steps)."""
    unpaired_rate_share: PositiveFloat
    """Peak learning rate of the encoder in phase 2, as a share of the optimizer's (paper: 1)."""
    chunk: PositiveInt
    """Queue entries whose differences are held in memory at once; changes no result."""


def data_for_alignment(objective: str, emma_x: EmmaXSettings) -> tuple[str, ...]:
    """The lists of ``data`` that stage 4, or a paper's monolithic training, reads of each language's own."""
    if objective != "emma_x":
        return _READS.get(objective, ())
    pairs = ("parallel",) if emma_x.warmup_share > 0 and not emma_x.warmup_languages else ()
    return (*pairs, *(("text",) if emma_x.warmup_share < 1 else ()))
