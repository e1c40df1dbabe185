"""Languages in memory, each read on its first use."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.batched_engine import BatchedEngine
from modenc.composition.modules import to_modules
from modenc.composition.options import EncoderSettings
from modenc.hub.store import Hub
from modenc.languages import BASE

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedLanguage:
    """A language in memory, except its weights, which the engine holds."""

    tokenizer: PreTrainedTokenizerFast | None
    """``None``: the language keeps the base's vocabulary."""
    fingerprint: str
    """Fingerprint of its modules, as on its card."""


@dataclass(frozen=True)
class _Loaded:
    engine: BatchedEngine
    languages: dict[str, LoadedLanguage] = field(default_factory=dict)
    reading: dict[str, Lock] = field(default_factory=dict)


class LanguageCache:
    """A hub's languages in memory, with the engine that computes with them. Threads may share it.

    Args:
        hub: the hub folder.
        base: the hub's base, for its tokenizer.
        body: the base's body, used in place.
        settings: precision.
    """

    def __init__(self, hub: Hub, base: BaseModel, body: PreTrainedModel, settings: EncoderSettings) -> None:
        self._hub, self._base, self._body = hub, base, body
        self.settings = settings
        self.restart()

    def __reduce__(self) -> tuple[type[LanguageCache], tuple[Any, ...]]:
        # Locks and engine stay here; another process reads the languages it needs from the hub.
        return LanguageCache, (self._hub, self._base, self._body, self.settings)

    def restart(self) -> None:
        """Start with no language and a new engine, because the body has moved or changed type."""
        self._loaded = _Loaded(BatchedEngine(self._body, self.settings.precision(self._body.device)))

    def loaded(self) -> list[str]:
        """Return the codes of the languages in memory, sorted."""
        return sorted(self._loaded.languages)

    @cached_property
    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer."""
        return self._base.load_tokenizer()

    def load(self, codes: Iterable[str]) -> tuple[BatchedEngine, dict[str, LoadedLanguage]]:
        """Read and check the modules of languages that are not in memory.

        Returns:
            The engine that holds them, and code → loaded language, without :data:`~modenc.languages.BASE`.

        Raises:
            HubError: the hub lacks a language, or one cannot be used.
        """
        # Taken once: the engine holds these languages, even after a restart.
        loaded = self._loaded
        for code in dict.fromkeys(codes):
            if code != BASE and code not in loaded.languages:
                # Threads that use other languages do not wait while this one is read, or even downloaded.
                with loaded.reading.setdefault(code, Lock()):
                    if code not in loaded.languages:
                        loaded.languages[code] = self._read(code, loaded.engine)
        return loaded.engine, loaded.languages

    def _read(self, code: str, engine: BatchedEngine) -> LoadedLanguage:
        logger.debug("loading the modules of %s from %s", code, self._hub.path)
        # Weights made in inference mode could not be trained or moved to another device.
        with torch.inference_mode(False), torch.no_grad():
            stored = self._hub.read(code)
            modules = to_modules(stored)
            engine.put(modules)
        return LoadedLanguage(modules.tokenizer, stored.fingerprint)
