"""A hub's base as a system, and a cache of vectors on disk, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modenc.encoder import ModularEncoder
from modenc.evaluation.systems import System
from modenc.hub.store import Hub
from modenc.languages import BASE
from modenc.storage import whole_file

Vectors = npt.NDArray[np.float32]


class BaseSystem:
    """A hub's base alone, without modules, with the hub's settings.

    Args:
        encoder: the hub's encoder.
        name: name in tables.
        batch_size: texts in a forward pass.
    """

    def __init__(self, encoder: ModularEncoder, *, name: str = "base", batch_size: int = 32) -> None:
        self.name = name
        self.encoder = encoder
        self.batch_size = batch_size

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Encode texts, whatever ``lang`` is; returns vectors [texts, hidden]."""
        vectors: Vectors = self.encoder.encode(
            texts, lang=BASE, batch_size=self.batch_size, show_progress_bar=False
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe the base, a fingerprint of its weights, the prompt and the longest input."""
        info = self.encoder.hub.info
        return {
            "kind": "base",
            "base": info.base_id,
            "fingerprint": info.base_fingerprint,
            "prompt": info.prompt,
            "max_length": info.max_length,
        }


class CachedSystem:
    """A system that encodes each distinct text of a language once in all runs that share a folder.

    Args:
        system: encodes the texts.
        folder: folder of the cached vectors, with a file for each key; created if it is missing.
        key: returns for a language a key of all that its vectors depend on.
    """

    def __init__(self, system: System, folder: Path, key: Callable[[str], str]) -> None:
        self.name = system.name
        self.system = system
        self.folder = folder
        self.key = key

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Encode the texts that are not cached yet; returns vectors [texts, hidden]."""
        path = self.folder / f"{lang}-{self.key(lang)}.npz"
        known = _read(path)
        names = [_name(text) for text in texts]
        if new := {name: text for name, text in zip(names, texts, strict=True) if name not in known}:
            known |= dict(zip(new, self.system.encode(list(new.values()), lang), strict=True))
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as temporary, temporary.open("wb") as stream:
                np.savez(stream, names=np.array(list(known)), vectors=np.stack(list(known.values())))
        return np.stack([known[name] for name in names])

    def describe(self) -> dict[str, Any]:
        """Describe the system."""
        return self.system.describe()


def vectors_key(hub: Hub, compute: str, lang: str | None, *, align: bool = True) -> str:
    """Return a key of all that vectors of a language depend on: base, prompt, length, precision and weights.

    The key of a language without alignment does not depend on ``align``.

    Args:
        hub: the hub.
        compute: precision of the computation.
        lang: the language; ``None`` for the base alone.
        align: whether to use its alignment.
    """
    files = {} if lang is None else hub.card(lang).files
    parts = [vars(hub.info), compute]
    parts += [
        [name, record["sha256"]]
        for name, record in sorted(files.items())
        if name != "README.md" and (align or not name.startswith("cla"))
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(path: Path) -> dict[str, Vectors]:
    if not path.is_file():
        return {}
    with np.load(path) as stored:
        return dict(zip(stored["names"].tolist(), stored["vectors"], strict=True))
