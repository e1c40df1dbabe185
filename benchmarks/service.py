"""A service's traffic: requests of ever new sizes to one process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import torch
from measure import Row, resident_mb, seconds_of
from peers import HUB, PROMPT, gflop_of, stock, texts_of

from modenc import ModularEncoder

REQUESTS = 200
SIZES = (1, 1, 1, 2, 4, 8, 16, 32)
_LINES_A_TEXT = (1, 1, 1, 2, 3)


def ours(data: Path, compute: str) -> Row:
    """Kazakh through its modules, in ``compute``."""
    encoder = ModularEncoder(HUB, compute=compute)
    return _served(data, lambda texts: encoder.encode(texts, lang="kk"))


def peer(data: Path, compute: str) -> Row:
    """Load the base with sentence-transformers, in ``compute``."""
    model = stock(model_kwargs={"dtype": torch.bfloat16} if compute == "bf16" else {})
    return _served(data, lambda texts: model.encode(texts, prompt=PROMPT))


def _served(data: Path, encode: Callable[[list[str]], object]) -> Row:
    rng, lines = random.Random(0), texts_of(data, "kk", 3000)
    requests = [
        [" ".join(rng.sample(lines, rng.choice(_LINES_A_TEXT))) for _ in range(rng.choice(SIZES))]
        for _ in range(REQUESTS)
    ]
    encode(requests[0])
    before = resident_mb()
    seconds = seconds_of(lambda: [encode(texts) for texts in requests[1:]])
    grown, texts = resident_mb() - before, [text for request in requests[1:] for text in request]
    return {"seconds": seconds, "MB": grown, "texts": len(texts), "gflop": gflop_of(texts)}
