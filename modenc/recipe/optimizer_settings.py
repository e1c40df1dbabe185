"""How a stage walks; read as ``settings.py`` is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OptimizerSettings:
    """How one stage walks: shared by stages 2, 3 and 4."""

    steps: int
    """Optimiser steps; 0 means ``epochs`` decides."""
    epochs: float
    """Passes over the data where ``steps`` is 0. Of several sets: those of one task (triplets, and pairs
    without a hard negative) are read in proportion to their rows, tasks (``joint``'s paraphrases and
    translations, ``mnrl+simcse``'s two, a monolithic model's languages) batch by batch in turn until all of
    the largest was read, the smaller ones again meanwhile."""
    batch_size: int
    """Sentences, pairs or blocks a forward pass."""
    gradient_accumulation: int
    """Forward passes an optimiser step."""
    learning_rate: float
    """Peak learning rate of the adapter."""
    warmup_ratio: float
    """Share of the steps that the learning rate rises."""
    schedule: Literal["linear", "cosine", "constant_with_warmup"]
    """Course of the learning rate after warm-up."""
    weight_decay: float
    """AdamW's."""
    max_grad_norm: float
    """Gradients are clipped to this norm."""
