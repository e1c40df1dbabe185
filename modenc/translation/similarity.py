"""How alike a text and its translation are to an encoder: the cosine of their vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from modenc.translation.filters import Similarity


class System(Protocol):
    """What makes vectors, as the systems of :mod:`modenc.evaluate.systems` do."""

    def encode(self, texts: list[str], lang: str) -> npt.NDArray[np.float32]:
        """Vectors [texts, hidden] of texts in a language."""
        ...

    def describe(self) -> dict[str, Any]:
        """What makes the vectors what they are."""
        ...


def cosines_by(system: System, source: str, target: str) -> tuple[Similarity, str]:
    """What makes cosines of texts in one language and their translations in another.

    Args:
        system: what makes the vectors.
        source: code of the texts' language.
        target: code of the translations'.

    Returns:
        The function, and a digest of what makes the vectors.
    """

    def cosines(texts: Sequence[str], translations: Sequence[str]) -> npt.NDArray[np.float32]:
        sides = [system.encode(list(texts), source), system.encode(list(translations), target)]
        left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
        found: npt.NDArray[np.float32] = (left * right).sum(axis=1)
        return found

    return cosines, sha256(json.dumps(system.describe(), sort_keys=True).encode()).hexdigest()
