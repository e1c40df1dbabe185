"""What is evaluated: anything that turns texts of a known language into vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from modenc.base_model import ME5_SMALL, resolve_base
from modenc.base_model.resolve import compute_fingerprint
from modenc.base_model.trust import checked_sentence_model, clear_errors
from modenc.encoder import ModularEncoder
from modenc.hub.card import Card

Vectors = npt.NDArray[np.float32]

E5_PROMPT = "query: "


class System(Protocol):
    """An encoder under test."""

    name: str

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden] of texts that the data set says are in ``lang``."""
        ...

    def describe(self) -> dict[str, Any]:
        """What makes the system what it is, for the results."""
        ...


class ModularSystem:
    """A hub's modules.

    Args:
        encoder: the hub's encoder.
        name: in tables; by default the hub's, and which settings differ from the defaults.
        align: use the alignment modules.
        identify: let the encoder identify each text's language, instead of passing the test set's.
        batch_size: texts in a forward pass.
    """

    def __init__(
        self,
        encoder: ModularEncoder,
        *,
        name: str | None = None,
        align: bool = True,
        identify: bool = False,
        batch_size: int = 32,
    ) -> None:
        parts = [encoder.hub.name.rpartition("/")[2], "modular"]
        parts += ["not-aligned"] * (not align) + ["identified"] * identify
        self.name = name or "-".join(parts)
        self.encoder = encoder
        self.align = align
        self.identify = identify
        self.batch_size = batch_size

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden] with the modules of ``lang``, or of each text's identified language."""
        vectors: Vectors = self.encoder.encode(
            texts,
            lang=None if self.identify else lang,
            align=self.align,
            batch_size=self.batch_size,
            show_progress_bar=False,
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Base, modules by their checksums, their trainings' dev scores, and how languages are chosen."""
        hub, settings = self.encoder.hub, self.encoder[0].cache.settings
        return {
            "kind": "modular",
            "base": hub.info.base_id,
            "compute": [settings.compute, settings.precision(self.encoder.device)],
            "align": self.align,
            "identify": self.identify,
            "modules": {lang: hub.card(lang).fingerprint() for lang in hub.languages()},
            "dev_curves": {lang: _dev_curves(hub.card(lang)) for lang in hub.languages()},
        }


def _dev_curves(card: Card) -> dict[str, list[list[float]]]:
    """Stage → [step, dev score] of a language's training; scored pairs have a curve of their own."""
    curves = {}
    for stage, record in card.stages.items():
        metrics = record.get("metrics", {})
        phases = {stage: metrics, f"{stage}-scored-pairs": metrics.get("scored", {})}
        for name, figures in phases.items():
            if points := [[entry["step"], entry["score"]] for entry in figures.get("dev", [])]:
                curves[name] = points
    return curves


class SentenceTransformerSystem:
    """Any ``SentenceTransformer``: one model for all languages.

    Args:
        location: its name or folder; the tables call it by the last part.
        model: the model.
        prompt: what it wants before every text (``None``: the model's own default).
        batch_size: texts in a forward pass.
    """

    def __init__(
        self, location: str, model: SentenceTransformer, *, prompt: str | None = None, batch_size: int = 32
    ) -> None:
        self.name = Path(location).name
        self.location = location
        self.model = model
        default = model.prompts.get(model.default_prompt_name or "", "")
        self.prompt = default if prompt is None else prompt
        self.batch_size = batch_size

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden]."""
        vectors: Vectors = self.model.encode(
            texts, prompt=self.prompt, batch_size=self.batch_size, show_progress_bar=False
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Name, prompt, longest input, and a fingerprint of the weights."""
        return {
            "kind": "sentence-transformers",
            "model": self.location,
            "prompt": self.prompt,
            "max_length": self.model.max_seq_length,
            "fingerprint": compute_fingerprint(self.model),
        }


def load_model(name: str, prompt: str | None = None, batch_size: int = 32) -> SentenceTransformerSystem:
    """A base of modenc's without any modules, or a sentence-transformers model, by name or folder.

    Raises:
        BaseModelError: there is no such model, it has pickles for weights, or it has code of its own.
    """
    if name == ME5_SMALL:
        # E5 was trained with this in front of every text, and with mean pooling, which is the default.
        prompt = E5_PROMPT if prompt is None else prompt
        model = SentenceTransformer(
            str(resolve_base(name).folder),
            model_kwargs={"add_pooling_layer": False},
            processor_kwargs={"fix_mistral_regex": False},
        )
    else:
        expected = "a sentence-transformers model's folder, or its name on Hugging Face"
        with clear_errors(lambda error: f"{name}: expected {expected}; found {error}"):
            folder, options = checked_sentence_model(name)
            model = SentenceTransformer(str(folder), **options)
    return SentenceTransformerSystem(name, model, prompt=prompt, batch_size=batch_size)


def open_system(hub: str | None) -> tuple[System, str]:
    """What makes vectors for another tool, and its base: a hub's modules, or the bare base me5-small.

    Raises:
        HubError: there is no such hub.
        BaseModelError: the base cannot be had.
    """
    if hub is None:
        return load_model(ME5_SMALL), ME5_SMALL
    encoder = ModularEncoder(hub)
    return ModularSystem(encoder, name="hub"), encoder.hub.info.base_id
