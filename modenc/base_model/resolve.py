"""From what a recipe or a hub names as base to a body and a tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import find_adapter_config_file

from modenc.base_model.me5_small import ME5_SMALL, converted_me5_small
from modenc.cache import cache_dir
from modenc.errors import BaseModelError

logger = logging.getLogger(__name__)

SUPPORTED_FAMILIES = ("bert", "xlm-roberta", "roberta")


@dataclass(frozen=True)
class BaseModel:
    """A base encoder: where it is and how to load it. Get one from :func:`resolve_base`."""

    id: str
    """What the recipe or hub calls it."""
    location: str
    """A folder, or a Hugging Face id."""
    revision: str | None = None
    """Commit, tag or branch of a Hugging Face id; None: its main branch."""

    def load_body(self) -> PreTrainedModel:
        """The transformer body in float32 and evaluation mode, without a pooling head.

        Raises:
            BaseModelError: nothing is found, or the model is not of the BERT or XLM-R family.
        """
        self._config()
        if self._is_adapter():
            raise BaseModelError(
                f"base {self.id!r} is a peft adapter (adapter_config.json), and transformers would take "
                "another model for it, and pickles; merge the adapter and save the whole model"
            )
        options = {"add_pooling_layer": False, "dtype": torch.float32, "use_safetensors": True}
        body: PreTrainedModel = self._loaded(AutoModel, **options)
        return body.eval()

    def _is_adapter(self) -> bool:
        try:
            return find_adapter_config_file(self.location, revision=self.revision or "main") is not None
        except Exception as error:  # of several libraries
            raise BaseModelError(_not_found(self.id, error)) from error

    @property
    def hidden_size(self) -> int:
        """Length of the body's vectors.

        Raises:
            BaseModelError: as for :meth:`load_body`.
        """
        return int(self._config().hidden_size)

    def _config(self) -> PretrainedConfig:
        config: PretrainedConfig = self._loaded(AutoConfig)
        if config.model_type not in SUPPORTED_FAMILIES:
            raise BaseModelError(
                f"base {self.id!r} is a {config.model_type!r} model; modenc composes modules on "
                f"{', '.join(SUPPORTED_FAMILIES)}. Choose such a base, for example {ME5_SMALL!r}."
            )
        return config

    def load_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer.

        Raises:
            BaseModelError: there is none, or it is not a fast one.
        """
        tokenizer: PreTrainedTokenizerFast = self._loaded(AutoTokenizer, fix_mistral_regex=False)
        if not tokenizer.is_fast:
            raise BaseModelError(f"base {self.id!r} has no fast tokenizer (tokenizer.json); modenc needs one")
        return tokenizer

    def _loaded(self, kind: Any, **options: Any) -> Any:
        try:
            # Said, since transformers would ask at the terminal where it is left open.
            return kind.from_pretrained(
                self.location, trust_remote_code=False, revision=self.revision or "main", **options
            )
        except Exception as error:  # whatever a damaged file makes of it
            raise BaseModelError(_not_found(self.id, error)) from error

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the body's tensors as float32, in the order of their names."""
        key = self._cache_key()
        store = cache_dir() / "fingerprints.json"
        known: dict[str, str] = {}
        if key and store.is_file():
            try:
                known = json.loads(store.read_text())
            except (OSError, ValueError):
                logger.warning("%s cannot be read; fingerprints are computed again", store)
            if key in known:
                return known[key]
        value = fingerprint_of(self.load_body())
        if key:
            try:
                store.parent.mkdir(parents=True, exist_ok=True)
                descriptor, temporary = tempfile.mkstemp(prefix=".fingerprints", dir=store.parent)
                with os.fdopen(descriptor, "w") as stream:
                    json.dump({**known, key: value}, stream, indent=1)
                os.replace(temporary, store)
            except OSError as error:
                logger.warning("%s cannot be kept, and is computed again each time: %s", store, error)
        return value

    def _cache_key(self) -> str | None:
        folder = Path(self.location)
        if not folder.is_dir():
            return None
        files = [
            file for pattern in ("config.json", "*.safetensors") for file in sorted(folder.glob(pattern))
        ]
        # The last of these cannot be set back.
        stats = [
            (file.name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            for file, stat in ((file, file.stat()) for file in files)
        ]
        return hashlib.sha256(repr((str(folder.resolve()), stats)).encode()).hexdigest()


def fingerprint_of(body: torch.nn.Module) -> str:
    """sha256 over a body's parameters as float32, in the order of their names (pooling head left out)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(body.named_parameters()):
        if not name.startswith("pooler."):
            digest.update(name.encode())
            digest.update(tensor.detach().float().contiguous().cpu().numpy().data)
    return digest.hexdigest()


def resolve_base(model: str) -> BaseModel:
    """Find a base by the name a recipe gives it.

    Args:
        model: ``me5-small``, a folder with a saved model, or a Hugging Face id, with ``@`` and a revision
            (a commit, tag or branch) where it is to be pinned.

    Raises:
        BaseModelError: a folder is meant (it has a path separator or exists) and holds no model.
    """
    if not isinstance(model, str):
        raise BaseModelError(
            f"base: expected {ME5_SMALL!r}, a folder or a Hugging Face id, found {model!r:.60}"
        )
    if model == ME5_SMALL:
        return BaseModel(model, str(converted_me5_small()))
    folder = Path(os.path.expanduser(model))
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise BaseModelError(
                f"base folder {folder} has no config.json; expected a folder written by save_pretrained"
            )
        return BaseModel(model, str(folder))
    name, pin, revision = model.partition("@")
    if pin and not revision:
        raise BaseModelError(f"base {model!r}: expected a revision after the @, found none")
    if model.startswith((".", "/", "~")) or name.count("/") > 1:
        raise BaseModelError(
            f"base folder {folder} does not exist; give a folder, a Hugging Face id or {ME5_SMALL!r}"
        )
    return BaseModel(model, name, revision or None)


def _not_found(model: str, error: Exception) -> str:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "trust_remote_code" in str(error):
        return (
            f"base {model!r} comes with code of its own, which modenc never runs (trust_remote_code is off). "
            f"Choose a base of the families {', '.join(SUPPORTED_FAMILIES)}"
        )
    if "safetensors" in str(error) or "pytorch_model.bin" in str(error):
        return (
            f"base {model!r} has no safetensors ({reason}). modenc reads no pickles: load the model with "
            "transformers where you trust it, save_pretrained() it into a folder, and give that folder"
        )
    return (
        f"base {model!r} cannot be loaded ({reason}). Expected {ME5_SMALL!r}, a saved model's folder, "
        "or a Hugging Face id that this machine can reach or has in its cache."
    )
