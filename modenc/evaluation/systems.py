"""Systems: encoders under evaluation, each with a name and a description for the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from sentence_transformers import SentenceTransformer

from modenc.base_model import ME5_SMALL, resolve_base
from modenc.base_model.resolve import compute_fingerprint
from modenc.base_model.trust import checked_sentence_model, model_errors
from modenc.composition.bert import choose_precision
from modenc.encoder import ModularEncoder
from modenc.evaluation.retrieval import Vectors


class System(Protocol):
    """An encoder under evaluation."""

    name: str

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Encode texts that, by the data set, are in ``lang``; returns vectors [texts, hidden]."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that determines the vectors, for the results."""
        ...


class ModularSystem:
    """A hub: each language with its modules.

    Args:
        encoder: the hub's encoder.
        name: name in tables; by default the hub's, and the settings that differ from the defaults.
        align: whether to use the alignment modules.
        identify: whether the encoder identifies each text's language; otherwise the data set states it.
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
        """Encode texts with the modules of ``lang``, or of each text's identified language."""
        vectors: Vectors = self.encoder.encode(
            texts,
            lang=None if self.identify else lang,
            align=self.align,
            batch_size=self.batch_size,
            show_progress_bar=False,
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe the base, the modules by their checksums, and the settings."""
        hub, compute = self.encoder.hub, self.encoder[0].cache.compute
        return {
            "kind": "modular",
            "base": hub.info.base_id,
            "compute": [compute, choose_precision(compute, self.encoder.device)],
            "align": self.align,
            "identify": self.identify,
            "fallback": self.encoder[0].router.fallback,
            "prompt": hub.info.prompt,
            "pooling": hub.info.pooling,
            "max_length": self.encoder.max_seq_length,
            "modules": {lang: hub.card(lang).fingerprint() for lang in hub.languages()},
        }


class SentenceTransformerSystem:
    """Any ``SentenceTransformer``: one model for all languages.

    Args:
        location: the model's name or folder, whose last part is its name in tables.
        model: the model.
        prompt: prefix of every text (``None``: the model's own default).
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
        """Encode texts, whatever ``lang`` is; returns vectors [texts, hidden]."""
        vectors: Vectors = self.model.encode(
            texts, prompt=self.prompt, batch_size=self.batch_size, show_progress_bar=False
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe the model: name, prompt, longest input, and a fingerprint of the weights."""
        return {
            "kind": "sentence-transformers",
            "model": self.location,
            "prompt": self.prompt,
            "max_length": self.model.max_seq_length,
            "fingerprint": compute_fingerprint(self.model),
        }


def open_model(name: str, prompt: str | None = None, batch_size: int = 32) -> SentenceTransformerSystem:
    """Open me5-small without modules, or a sentence-transformers model by name or folder.

    Raises:
        BaseModelError: there is no such model, its weights are pickles, or it has code of its own.
    """
    with model_errors(name, "a sentence-transformers model's folder, or its name on Hugging Face"):
        if name == ME5_SMALL:
            # E5 was trained with this prompt, and with mean pooling, which is the default.
            prompt = "query: " if prompt is None else prompt
            folder, options = resolve_base(name).folder, {"add_pooling_layer": False}
        else:
            folder, options = checked_sentence_model(name), {"use_safetensors": True}
        # Otherwise transformers would warn of an error in tokenizers of Mistral models.
        other = {"fix_mistral_regex": False}
        model = SentenceTransformer(str(folder), model_kwargs=options, processor_kwargs=other)
    return SentenceTransformerSystem(name, model, prompt=prompt, batch_size=batch_size)
