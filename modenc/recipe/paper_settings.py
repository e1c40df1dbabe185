"""Settings of the other papers' objectives (MuSR, VMSST, EMMA-X); read as ``settings.py`` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DecoderSettings:
    """The decoder of ``musr``, ``bitranslation`` and ``vmsst``: writes a sentence from a vector alone."""

    layers: int
    """Transformer layers (MuSR: 3; VMSST: as many as its encoder has, and 1 beside 24 is better)."""
    heads: int
    """Attention heads; they share the hidden size."""
    inner_factor: int
    """Inner size of a feed-forward block over the hidden size (MuSR: 8)."""
    dropout: float
    """While training (MuSR: 0.1; VMSST: 0)."""
    label_smoothing: float
    """``musr`` only: share of the target probability that is spread over all pieces (paper: 0.1)."""
    max_length: int
    """Tokens at which a target is cut."""
    max_pieces: int
    """The targets' most frequent pieces are written, rarer ones as unknown; 0: all that occur."""
    learning_rate: float
    """Peak learning rate of all that is thrown away after training."""
    pivot_steps: int
    """Modules only: steps that the decoder first learns on the pivot's sentences alone, from their cached
    vectors. In the papers encoder and decoder learn together."""


@dataclass(frozen=True)
class MusrSettings:
    """``objective = "musr"`` (Gao et al., 2023): translation into the pivot, then CrossConST."""

    consistency: float
    """Weight α of CrossConST's divergence (paper: 1)."""
    consistency_share: float
    """Share of the steps that are its second phase."""
    copy_weight: float
    """Weight of writing each pivot sentence from its own vector too. The paper has no such term: there the
    decoder meets the pivot's vectors through α alone; here they may be frozen."""
    sampling_exponent: float
    """A language with the share p of all pairs is shown in proportion to p to this power (paper: 0.5)."""


@dataclass(frozen=True)
class VmsstSettings:
    """``objective = "vmsst"`` (Wieting et al., 2023): what translations share, apart from what each adds."""

    elbo_weight: float
    """Weight λ of the variational bound (paper: 0.025 on pretrained models, 0.1 from nothing)."""
    joint_weight: float
    """``vmsst_contrastive`` only: weight of all of VMSST's loss (paper: 0.0005)."""
    kl: bool
    """Whether the bound has its divergence from the prior (ablation "no KL": false)."""
    kl_steps: int
    """Steps over which the divergence's weight rises to 1 (paper: 1,000,000)."""
    encoder_layers: int
    """Layers of the language inference network (paper: as many as the semantic one's); 0: language variables
    are read off the sentence encoder too (ablation "1 enc.")."""
    language_encoders: int
    """Language inference networks, languages dealt to them in turn (ablation "4 enc."); 0: one for each."""
    decoders: Literal["shared", "each"]
    """One decoder for all languages, or one for each (with ``language_encoders = 0``: the paper's A.2)."""
    encoder_language: bool
    """Whether the language inference network is told the language (ablation "no enc. l.e.": false)."""
    decoder_language: bool
    """Whether the decoder is told the language (ablation "no dec. l.e.": false)."""
    factored: bool
    """Whether the logits' projection is a product of two (ablation "fact.")."""


@dataclass(frozen=True)
class EmmaXSettings:
    """``objective = "emma_x"`` (Guo et al., 2023): alignment on text without translations."""

    ranks: int
    """N, the degrees of likeness that pairs are sorted into (paper: 4; also 2 and 8)."""
    classifier: Literal["gmm", "fcn"]
    """What sorts them: a mixture of Gaussians over the difference of two vectors, or a network."""
    warmup_share: float
    """Share of the steps that are phase 1, on translations."""
    warmup_languages: tuple[str, ...]
    """Modules only: in phase 1 the classifier alone learns, from these languages' translations and modules in
    the hub; nothing is taken from the language's own translations. Empty: phase 1 on the language's own."""
    queue: int
    """K, past vectors that each sentence is compared with (paper: 256)."""
    momentum: float
    """Of the encoder that fills the queue (paper: 0.999, over many more steps)."""
    rank_momentum: float
    """ε, of each rank's mean cosine."""
    temperature: float
    """τ of phase 1 and τ_1 of the closest rank (paper: 0.04)."""
    temperature_top: float
    """τ_{N-1}; those between rise evenly."""
    classifier_learning_rate: float
    """Peak learning rate of the classifier (paper: 3e-5, over many more steps)."""
    unpaired_rate_share: float
    """Peak learning rate of the encoder in phase 2, as a share of the optimizer's (paper: 1)."""
    chunk: int
    """Queue entries whose differences are held in memory at once; changes no result."""
