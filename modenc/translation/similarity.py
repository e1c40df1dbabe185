"""How alike a text and its translation are to an encoder: the cosine of their vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from modenc.evaluate.systems import open_system
from modenc.translation.filters import Similarity


def cosines_by(hub: str | None, source: str, target: str) -> tuple[Similarity, str]:
    """What makes cosines of texts in one language and their translations in another.

    Args:
        hub: folder whose modules make the vectors; None: the bare base me5-small.
        source: code of the texts' language.
        target: code of the translations'.

    Returns:
        The function, and a digest of what makes the vectors.

    Raises:
        HubError: there is no such hub.
        BaseModelError: its base cannot be had.
    """
    system, _ = open_system(hub)

    def cosines(texts: Sequence[str], translations: Sequence[str]) -> npt.NDArray[np.float32]:
        sides = [system.encode(list(texts), source), system.encode(list(translations), target)]
        left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
        found: npt.NDArray[np.float32] = (left * right).sum(axis=1)
        return found

    return cosines, sha256(json.dumps(system.describe(), sort_keys=True).encode()).hexdigest()
