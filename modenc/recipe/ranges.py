"""Which numbers a setting can be, by the setting's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A set of numbers and how to say it."""

    holds: Callable[[float], bool]
    words: str


AT_LEAST_0 = Range(lambda value: value >= 0, "0 or more")
AT_LEAST_1 = Range(lambda value: value >= 1, "1 or more")
ABOVE_0 = Range(lambda value: value > 0, "a number above 0")
SHARE = Range(lambda value: 0 <= value <= 1, "a share between 0 and 1")
SHARE_BELOW_1 = Range(lambda value: 0 <= value < 1, "a share of at least 0 and below 1")
SHARE_WITHIN = Range(lambda value: 0 < value < 1, "a share above 0 and below 1")
# The base's special tokens, an alphabet and some pieces: fewer make no tokenizer.
VOCABULARY = Range(lambda value: value >= 300, "300 or more")
# More is refused in a hub: products of such adapters may be infinite.
ALPHA = Range(lambda value: 1 <= value <= 1000, "1 to 1000")
SEED = Range(lambda value: 0 <= value < 2**32, "a number from 0 to 4294967295")

RANGES: dict[str, Range] = {
    "limit": AT_LEAST_0,
    "repeat": AT_LEAST_1,
    "parallel_held_out": AT_LEAST_0,
    "text_held_out": AT_LEAST_0,
    "min_chars": AT_LEAST_0,
    "max_chars": AT_LEAST_1,
    "min_language_share": SHARE,
    "rank": AT_LEAST_1,
    "alpha": ALPHA,
    "dropout": SHARE_BELOW_1,
    "steps": AT_LEAST_0,
    "epochs": AT_LEAST_0,
    "batch_size": AT_LEAST_1,
    "gradient_accumulation": AT_LEAST_1,
    "learning_rate": ABOVE_0,
    "warmup_ratio": SHARE,
    "weight_decay": AT_LEAST_0,
    "max_grad_norm": ABOVE_0,
    "size": VOCABULARY,
    "new_pieces": AT_LEAST_0,
    "max_sentences": AT_LEAST_1,
    "fasttext_dim": AT_LEAST_1,
    "fasttext_epochs": AT_LEAST_1,
    "embedding_learning_rate": ABOVE_0,
    "block_length": Range(lambda value: value >= 8, "8 or more"),
    "max_length": Range(lambda value: value >= 8, "8 or more"),
    "mask_probability": SHARE_WITHIN,
    "mlm_weight": ABOVE_0,
    "scale": ABOVE_0,
    "mini_batch_size": AT_LEAST_0,
    "scored_steps": AT_LEAST_0,
    "simcse_max_chars": AT_LEAST_1,
    "reduction_factor": AT_LEAST_1,
    "pivot_negatives": AT_LEAST_0,
    "scored_weight": ABOVE_0,
    "similarity_weight": AT_LEAST_0,
    "keep_weight": AT_LEAST_0,
    "strength": Range(lambda value: 0 < value <= 1, "a share above 0, at most 1"),
    "layers": AT_LEAST_1,
    "heads": AT_LEAST_1,
    "inner_factor": AT_LEAST_1,
    "label_smoothing": SHARE_BELOW_1,
    "max_pieces": AT_LEAST_0,
    "pivot_steps": AT_LEAST_0,
    "consistency": AT_LEAST_0,
    "consistency_share": SHARE,
    "copy_weight": AT_LEAST_0,
    "sampling_exponent": SHARE,
    "elbo_weight": AT_LEAST_0,
    "joint_weight": ABOVE_0,
    "kl_steps": AT_LEAST_1,
    "encoder_layers": AT_LEAST_0,
    "language_encoders": AT_LEAST_0,
    "ranks": Range(lambda value: value >= 2, "2 or more"),
    "warmup_share": SHARE,
    "queue": AT_LEAST_1,
    "momentum": SHARE_BELOW_1,
    "rank_momentum": SHARE_BELOW_1,
    "temperature": ABOVE_0,
    "temperature_top": ABOVE_0,
    "classifier_learning_rate": ABOVE_0,
    "unpaired_rate_share": ABOVE_0,
    "chunk": AT_LEAST_1,
    "seed": SEED,
    "threads": AT_LEAST_0,
    "checkpoint_every": AT_LEAST_1,
    "evaluate_every": AT_LEAST_0,
}
"""Every numeric setting has its range here (a test holds the table to the settings)."""


_LARGEST = 1e300


def range_fault(name: str, value: float) -> str | None:
    """Why ``value`` cannot be the setting ``name``, or None if it can."""
    if abs(value) > _LARGEST or not math.isfinite(value):
        return f"expected a finite number, found {value}"
    allowed = RANGES.get(name)
    if allowed is None or allowed.holds(value):
        return None
    return f"expected {allowed.words}, found {value}"
