"""Settings of the other papers' objectives (MuSR, VMSST, EMMA-X); see ``settings.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from modenc.ranges import (
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
