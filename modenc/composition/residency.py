"""Which languages are in memory: loaded on first use, composed once, freed on request."""

from __future__ import annotations

import logging
from threading import RLock
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules, read_modules
from modenc.hub.store import Hub
from modenc.hub.verify import check_language

logger = logging.getLogger(__name__)

BASE = "base"
"""In place of a language code: the base's own tokenizer and weights, no modules."""


class Residency:
    """The languages of a hub that are in memory, and their bodies.

    Threads may share it: what is there is read without waiting, one thread at a time adds to it.
    """

    def __init__(self, hub: Hub, base: BaseModel, body: PreTrainedModel) -> None:
        self._hub = hub
        self._base = base
        self._body = body
        self._base_tokenizer: PreTrainedTokenizerFast | None = None
        self._modules: dict[str, LanguageModules] = {}
        self._bodies: dict[tuple[str, bool], PreTrainedModel] = {}
        self._lock = RLock()

    def loaded(self) -> list[str]:
        """Codes of the languages in memory, sorted."""
        return sorted(self._modules)

    def load(self, code: str) -> LanguageModules:
        """The modules of a language, read and checked on first use.

        Raises:
            HubError: a file is missing, foreign or damaged, or made for another base.
        """
        if modules := self._modules.get(code):
            return modules
        with self._lock:
            if code not in self._modules:
                check_language(self._hub, code)
                logger.debug("loading the modules of %s from %s", code, self._hub.path)
                # Weights made in inference mode could never be trained on or moved by others.
                with torch.inference_mode(False):
                    self._modules[code] = read_modules(self._hub.layout(code))
            return self._modules[code]

    def unload(self, code: str) -> None:
        """Free a language's modules and bodies; nothing happens if they are not in memory."""
        with self._lock:
            self._modules.pop(code, None)
            for key in [key for key in self._bodies if key[0] == code]:
                del self._bodies[key]

    def tokenizer(self, code: str) -> PreTrainedTokenizerFast:
        """The tokenizer of a language: its own, or the base's."""
        tokenizer = None if code == BASE else self.load(code).tokenizer
        return tokenizer if tokenizer is not None else self.base_tokenizer()

    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer."""
        with self._lock:
            if self._base_tokenizer is None:
                self._base_tokenizer = self._base.load_tokenizer()
            return self._base_tokenizer

    def body(self, code: str, align: bool) -> PreTrainedModel:
        """The body of a language, composed on first use; the base itself for :data:`BASE`."""
        if code == BASE:
            return self._body
        modules = self.load(code)
        key = (code, align and bool(modules.parallel))
        if body := self._bodies.get(key):
            return body
        with self._lock:
            if key not in self._bodies:
                with torch.inference_mode(False), torch.no_grad():
                    composed = compose(self._body, modules, align=key[1])
                    self._bodies[key] = composed.to(self._body.device, self._body.dtype)
            return self._bodies[key]

    def forget_bodies(self) -> None:
        """Compose all bodies anew on their next use, because the base has moved or changed type."""
        with self._lock:
            self._bodies.clear()

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads what it needs from the hub; the lock and the bodies stay here.
        kept = {"_hub": self._hub, "_base": self._base, "_body": self._body}
        return {**kept, "_base_tokenizer": None, "_modules": {}, "_bodies": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()
