"""From what a recipe or a hub names as base to a body and a tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

from modenc.base_model.me5_small import ME5_SMALL, converted_me5_small
from modenc.base_model.safety import check_config, check_weights, folder_of, refuse_adapter
from modenc.cache import cache_dir
from modenc.errors import BaseModelError
from modenc.storage import whole_file

logger = logging.getLogger(__name__)

SUPPORTED_FAMILIES = ("bert", "xlm-roberta", "roberta")
_STORE = "fingerprints.json"
_CLOCK_NS = 2_000_000_000


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
        refuse_adapter(self.id, self.folder)
        config = self._config()
        check_weights(self.id, self.folder)
        options = {"add_pooling_layer": False, "dtype": torch.float32, "use_safetensors": True}
        # The object that was checked, since what is read a second time may be another.
        body: PreTrainedModel = self._loaded(AutoModel, config=config, **options)
        return body.eval()

    def load_with_fingerprint(self) -> tuple[PreTrainedModel, str]:
        """The body, and the :attr:`fingerprint` of this very body.

        Raises:
            BaseModelError: as for :meth:`load_body`.
        """
        state = self._state()
        body = self.load_body()
        if state != self._state():  # changed while it was read
            return body, fingerprint_of(body)
        known = _known_fingerprints()
        if state.key not in known:
            known[state.key] = fingerprint_of(body)
            if state.settled():
                _keep_fingerprints(known)
        return body, known[state.key]

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
        check_config(self.id, config)
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
        with self._clear_errors():
            # Said, since transformers would ask at the terminal where it is left open.
            loaded = kind.from_pretrained(self.folder, trust_remote_code=False, **options)
        return loaded

    @cached_property
    def folder(self) -> Path:
        """Where its files are; those of a Hugging Face id are fetched first, all of one commit.

        Raises:
            BaseModelError: they cannot be had.
        """
        with self._clear_errors():
            folder = folder_of(self.location, self.revision)
        return folder

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseModelError:
            raise
        except Exception as error:  # of several libraries, and whatever a damaged file makes of it
            raise BaseModelError(_not_found(self.id, error)) from error

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the body's tensors as float32, in the order of their names."""
        state = self._state()
        known = _known_fingerprints()
        return known[state.key] if state.key in known else self.load_with_fingerprint()[1]

    def _state(self) -> _FolderState:
        with self._clear_errors():
            state = _FolderState.of(self.folder)
        return state


@dataclass(frozen=True)
class _FolderState:
    """A folder's files that loading a body may read, as far as is seen without reading them."""

    key: str
    changed_ns: int

    @classmethod
    def of(cls, folder: Path) -> _FolderState:
        """Name, size, place and times of each: the last of these cannot be set back."""
        # No file below a subfolder is read: see `check_weights`.
        files = sorted({file for pattern in ("*.json", "*.safetensors") for file in folder.glob(pattern)})
        stats = [(file.name, file.stat()) for file in files if file.is_file()]
        listed = [
            (name, stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats
        ]
        key = hashlib.sha256(repr((str(folder.resolve()), listed)).encode()).hexdigest()
        return cls(key, max((max(stat.st_mtime_ns, stat.st_ctime_ns) for _, stat in stats), default=0))

    def settled(self) -> bool:
        """Whether a later change would show: clocks of disks stand still for up to two seconds."""
        return time.time_ns() - self.changed_ns > _CLOCK_NS


def _known_fingerprints() -> dict[str, str]:
    store = cache_dir() / _STORE
    try:
        known = json.loads(store.read_text()) if store.is_file() else {}
    except (OSError, ValueError):
        known = None
    if not isinstance(known, dict):
        logger.warning("%s cannot be read; fingerprints are computed again", store)
        return {}
    return known


def _keep_fingerprints(known: dict[str, str]) -> None:
    store = cache_dir() / _STORE
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(store) as temporary:
            temporary.write_text(json.dumps(known, indent=1))
    except OSError as error:
        logger.warning("%s cannot be kept, and is computed again each time: %s", store, error)


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
    if os.path.isdir(folder):  # not Path.is_dir, which raises where a name is too long
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
