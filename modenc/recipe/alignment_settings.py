"""Settings of stage 4, and what it can learn from; read as ``settings.py`` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modenc.recipe.optimizer_settings import OptimizerSettings

PaperObjective = Literal["contrastive", "bitranslation", "vmsst", "vmsst_contrastive", "musr", "emma_x"]
AlignmentObjective = Literal[
    "none", "joint", "paraphrase", "parallel", "scored", "scored+parallel", PaperObjective
]


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
    reduction_factor: int
    """Hidden size over bottleneck size of the parallel adapter (``ParBnConfig``: 2)."""
    optimizer: OptimizerSettings
    """Steps, batches, rates."""
    max_length: int
    """Tokens at which a sentence is cut."""
    scale: float
    """Inverse temperature of MNRL."""
    parallel_loss: Literal["cosine", "mnrl", "cosine+mnrl"]
    """Loss on parallel pairs: ``cosine`` (paper), in-batch ranking, or their sum."""
    pivot_negatives: int
    """Extra pivot vectors each MNRL batch is ranked against; free, since they are cached."""
    symmetric: bool
    """Also rank the language's sentences for each pivot sentence."""
    scored_weight: float
    """Weight of the ranking by scores (CoSENT) beside the cosine to the pivot's sentences."""
    similarity_weight: float
    """Weight of a term that draws the cosines of a batch's sentences, with each other and with the pivot's,
    to those of the pivot's sentences (0: paper)."""
    keep_weight: float
    """Weight of a term that keeps within-language cosines where stage 3 left them (0: paper)."""
    strength: float
    """Share of the adapter's trained output that is kept, above 0 and up to 1 (paper). Less keeps more within
    the language; half of it also gained most across, in turkic. A step back towards the start, as WiSE-FT's
    (Wortsman et al., 2022)."""
