"""Finding and loading of the base that a recipe or hub names."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property, partial
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

from modenc.base_model.me5_small import ME5_SMALL, convert_me5_small
from modenc.base_model.trust import (
    as_base_model_error,
    check_config,
    check_weights,
    model_folder,
    refuse_adapter,
)
from modenc.errors import BaseModelError
from modenc.storage import cache_dir, recall, remember

SUPPORTED_FAMILIES = ("bert", "xlm-roberta", "roberta")


@dataclass(frozen=True)
class BaseModel:
    """A base: its location, and methods to load it; made by :func:`resolve_base`."""

    id: str
    """Name in the recipe or hub."""
    location: str
    """Folder or Hugging Face id."""
    revision: str | None = None
    """Commit, tag or branch of a Hugging Face id; None: its main branch."""

    def load_body(self, attention: str | None = None) -> PreTrainedModel:
        """Load the body: the base's transformer in float32 and evaluation mode, without a pooling head.

        ``attention`` is transformers' ``attn_implementation``; None for the library's choice.

        Raises:
            BaseModelError: there is no model, or none of the BERT or XLM-R family.
        """
        refuse_adapter(self.id, self.folder)
        config = self._config()
        check_weights(self.id, self.folder)
        options = {"add_pooling_layer": False, "dtype": torch.float32, "use_safetensors": True}
        if attention:
            options["attn_implementation"] = attention
        # The checked object is passed on, since the file could change before it is read again.
        body: PreTrainedModel = self._load(AutoModel, config=config, **options)
        return body.eval()

    def load_with_fingerprint(self) -> tuple[PreTrainedModel, str]:
        """Load the body, and return its :attr:`fingerprint`, too.

        Raises:
            BaseModelError: as for :meth:`load_body`.
        """
        file = _fingerprint_file(self.folder)
        body, found = self.load_body(), recall(file)
        if not found:
            found = compute_fingerprint(body)
            remember(file, found)
        return body, found

    @property
    def hidden_size(self) -> int:
        """Width of the body's token vectors.

        Raises:
            BaseModelError: as for :meth:`load_body`.
        """
        return int(self._config().hidden_size)

    def _config(self) -> PretrainedConfig:
        config: PretrainedConfig = self._load(AutoConfig)
        if config.model_type not in SUPPORTED_FAMILIES:
            raise BaseModelError(
                f"base {self.id!r} is a {config.model_type!r} model; modenc composes modules on "
                f"{', '.join(SUPPORTED_FAMILIES)}. Choose such a base, for example {ME5_SMALL!r}."
            )
        positions = getattr(config, "position_embedding_type", None) or "absolute"
        if positions != "absolute" or getattr(config, "is_decoder", False):
            raise BaseModelError(
                f"base {self.id!r}: expected an encoder with absolute positions in its config.json, found "
                f"position_embedding_type {positions!r:.60}, is_decoder {config.is_decoder}; choose another "
                f"base, for example {ME5_SMALL!r}"
            )
        check_config(self.id, config)
        return config

    def load_tokenizer(self) -> PreTrainedTokenizerFast:
        """Load the base's own tokenizer.

        Raises:
            BaseModelError: there is none, or it is not a fast one.
        """
        tokenizer: PreTrainedTokenizerFast = self._load(AutoTokenizer, fix_mistral_regex=False)
        if not tokenizer.is_fast:
            raise BaseModelError(f"base {self.id!r} has no fast tokenizer (tokenizer.json); modenc needs one")
        # A base's file may cut and pad, and pieces could not be counted.
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        return tokenizer

    def _load(self, auto_class: Any, **options: Any) -> Any:
        with as_base_model_error(partial(_not_found, self.id)):
            # Without trust_remote_code, transformers would prompt at the terminal.
            loaded = auto_class.from_pretrained(self.folder, trust_remote_code=False, **options)
        return loaded

    @cached_property
    def folder(self) -> Path:
        """Folder of its files; those of a Hugging Face id are fetched first, all of one commit.

        Raises:
            BaseModelError: they cannot be fetched.
        """
        with as_base_model_error(partial(_not_found, self.id)):
            folder = model_folder(self.location, self.revision)
        return folder

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the body's parameters, see :func:`compute_fingerprint`."""
        return recall(_fingerprint_file(self.folder)) or self.load_with_fingerprint()[1]


def _fingerprint_file(folder: Path) -> Path:
    """Return the cache's file for the fingerprint of a folder whose files are in this state."""
    # No file in a subfolder is read: see `check_weights`.
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".safetensors"))
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    state = [(name, stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats]
    key = hashlib.sha256(repr((str(folder.resolve()), state)).encode()).hexdigest()
    return cache_dir() / "fingerprints" / key


def compute_fingerprint(body: torch.nn.Module) -> str:
    """Return the SHA-256 of a body's parameters as float32, sorted by name, without a pooling head."""
    hasher = hashlib.sha256()
    for name, tensor in sorted(body.named_parameters()):
        if not name.startswith("pooler."):
            hasher.update(name.encode())
            hasher.update(tensor.detach().float().contiguous().cpu().numpy().data)
    return hasher.hexdigest()


def resolve_base(model: str) -> BaseModel:
    """Find a base by its name in a recipe or hub.

    Args:
        model: ``me5-small``, a folder with a saved model, or a Hugging Face id, optionally with ``@`` and a
            revision (a commit, tag or branch).

    Raises:
        BaseModelError: the name is of a folder (it has a path separator or exists) without a model.
    """
    if not isinstance(model, str):
        raise BaseModelError(
            f"base: expected {ME5_SMALL!r}, a folder or a Hugging Face id, found {model!r:.60}"
        )
    if model == ME5_SMALL:
        return BaseModel(model, str(convert_me5_small()))
    folder = Path(os.path.expanduser(model))
    if os.path.isdir(folder):  # Path.is_dir would raise for a name that is too long
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
    return (
        f"base {model!r} cannot be loaded ({reason}). Expected {ME5_SMALL!r}, a saved model's folder, "
        "or a Hugging Face id that this machine can reach or has in its cache."
    )
