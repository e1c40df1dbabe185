"""A hub's base as a system, and vectors kept on disk, so that an interrupted run goes on where it was."""

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
    """A hub's base alone, no modules of any language, computed as the hub computes.

    Args:
        encoder: the hub's encoder.
        name: in tables.
        batch_size: texts in a forward pass.
    """

    def __init__(self, encoder: ModularEncoder, *, name: str = "base", batch_size: int = 32) -> None:
        self.name = name
        self.encoder = encoder
        self.batch_size = batch_size

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden], the same whatever ``lang`` is."""
        vectors: Vectors = self.encoder.encode(
            texts, lang=BASE, batch_size=self.batch_size, show_progress_bar=False
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Base, by name and by a fingerprint of its weights, and what the hub puts around texts."""
        info = self.encoder.hub.info
        return {
            "kind": "base",
            "base": info.base_id,
            "fingerprint": info.base_fingerprint,
            "prompt": info.prompt,
            "max_length": info.max_length,
        }


class CachedSystem:
    """A system that encodes each distinct text of a language once, over all runs that share a folder.

    Args:
        system: what encodes.
        folder: for the vectors, a file a key; made where it is missing.
        key: language → names all that its vectors depend on; another key, another file.
    """

    def __init__(self, system: System, folder: Path, key: Callable[[str], str]) -> None:
        self.name = system.name
        self.system = system
        self.folder = folder
        self.key = key

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden], those that are stored already as they are stored."""
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
        """That of the system."""
        return self.system.describe()


def vectors_key(hub: Hub, compute: str, lang: str | None, *, align: bool = True) -> str:
    """Names all that vectors of a language depend on: base, prompt, length, computation and weights.

    A language without alignment has one key whether ``align`` or not.

    Args:
        hub: the hub.
        compute: how the encoder computes.
        lang: the language; ``None`` for the base alone.
        align: whether its alignment is applied.
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
