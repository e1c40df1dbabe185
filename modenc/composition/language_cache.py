"""Cache of the languages in memory: loaded on first use, and freed least recently used first."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.batched_engine import BatchedEngine
from modenc.composition.modules import LanguageModules, to_modules
from modenc.composition.options import EncoderSettings
from modenc.hub.store import Hub
from modenc.languages import BASE

logger = logging.getLogger(__name__)


@dataclass
class LoadedLanguage:
    """A language in memory, except its weights, which the engine holds."""

    tokenizer: PreTrainedTokenizerFast | None
    """``None``: the language keeps the base's vocabulary."""
    fingerprint: str
    """Fingerprint of its modules, as on its card."""
    users: int = 0
    """Number of running calls and batches that use it."""
    unload: bool = False
    """Whether to free it once it has no users."""


class LanguageCache:
    """Cache of a hub's languages, with the engine that computes with them.

    Threads may share it. A language that a call is using is not freed before the call is done.

    Args:
        hub: the hub folder.
        base: the hub's base, for its tokenizer.
        body: the base's body, used in place.
        settings: precision and memory limit.
    """

    def __init__(self, hub: Hub, base: BaseModel, body: PreTrainedModel, settings: EncoderSettings) -> None:
        self._hub = hub
        self._base = base
        self._body = body
        self.settings = settings
        self._base_tokenizer: PreTrainedTokenizerFast | None = None
        self._lock = RLock()
        self._reading: defaultdict[str, RLock] = defaultdict(RLock)
        self.restart()

    def __reduce__(self) -> tuple[type[LanguageCache], tuple[Any, ...]]:
        # Locks and engine stay here; another process reads the languages it needs from the hub.
        return LanguageCache, (self._hub, self._base, self._body, self.settings)

    def loaded(self) -> list[str]:
        """Return the codes of the languages in memory, sorted."""
        return sorted(code for code, language in list(self._languages.items()) if not language.unload)

    @property
    def nbytes(self) -> int:
        """Bytes of all languages, without the base's own weights."""
        with self._lock:
            return self._get_engine().nbytes

    def load(self, code: str) -> None:
        """Read and check a language's modules, unless they are in memory.

        Raises:
            HubError: the hub lacks it, or a file is missing, foreign or damaged, or made for another base.
        """
        with self.using([code]):
            pass

    def unload(self, code: str) -> None:
        """Free a language, if it is in memory, now or when the calls that use it are done."""
        with self._lock:
            if code in self._languages:
                self._languages[code].unload = True
                self._free_unloaded()

    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the base's own tokenizer."""
        with self._lock:
            if self._base_tokenizer is None:
                self._base_tokenizer = self._base.load_tokenizer()
            return self._base_tokenizer

    @contextmanager
    def using(self, codes: Sequence[str]) -> Iterator[tuple[BatchedEngine, dict[str, LoadedLanguage]]]:
        """Load languages and keep them in memory during the context.

        Gives the engine that holds them, and code → loaded language, without :data:`~modenc.languages.BASE`.

        Raises:
            HubError: the hub lacks a language, or one cannot be used.
        """
        needed = [code for code in dict.fromkeys(codes) if code != BASE]
        used: dict[str, LoadedLanguage] = {}
        engine: BatchedEngine | None = None
        try:
            with self._lock:
                engine = self._get_engine()
                # Languages in memory come first, so that none of these is freed to make room for the others.
                used |= {code: self._use(code) for code in needed if code in self._languages}
                reading = {code: self._reading[code] for code in needed if code not in used}
            for code, lock in reading.items():
                # Other threads may use the languages in memory while this one is read, or even downloaded.
                with lock:
                    used[code] = self._read(code)
            with self._lock:
                engine = self._get_engine()
                moved = any(self._languages.get(code) is not language for code, language in used.items())
            if moved:  # the base, to another device
                with self.using(codes) as again:
                    yield again
            else:
                yield engine, used
        finally:
            with self._lock:
                for language in used.values():
                    language.users -= 1
                if engine is not None and engine is self._engine:
                    self._free_unloaded()
                    self._make_room(engine)

    def _read(self, code: str) -> LoadedLanguage:
        """Return a language to be used, and read it first unless another thread has."""
        with self._lock:
            if code in self._languages:
                return self._use(code)
        logger.debug("loading the modules of %s from %s", code, self._hub.path)
        # Weights made in inference mode could not be trained or moved to another device.
        with torch.inference_mode(False), torch.no_grad():
            stored = self._hub.read(code)
            modules = to_modules(stored)
            with self._lock:
                engine = self._get_engine()
                self._make_room(engine, modules)
                engine.put(modules)
                self._languages[code] = LoadedLanguage(modules.tokenizer, stored.fingerprint)
                return self._use(code)

    def _use(self, code: str) -> LoadedLanguage:
        """Count one more user of a language in memory, the most recently used from now on."""
        language = self._languages[code] = self._languages.pop(code)
        language.users += 1
        return language

    def restart(self) -> None:
        """Drop all languages and the engine, because the body has moved or changed type."""
        with self._lock:
            self._engine: BatchedEngine | None = None
            # Least recently used first.
            self._languages: dict[str, LoadedLanguage] = {}

    def _get_engine(self) -> BatchedEngine:
        if self._engine is None:
            precision = self.settings.precision(self._body.device)
            self._engine = BatchedEngine(self._body, precision, self.settings.memory_limit)
        return self._engine

    def _free_unloaded(self) -> None:
        for code, language in list(self._languages.items()):
            if language.unload and not language.users:
                self._free(code)
                self._get_engine().shrink()

    def _make_room(self, engine: BatchedEngine, modules: LanguageModules | None = None) -> None:
        """Free memory that no batch uses, until the rest and ``modules`` to be added are within the limit."""
        limit = self.settings.memory_limit
        if limit is None:
            return

        def excess() -> int:
            return engine.nbytes + (0 if modules is None else engine.cost(modules)) - limit

        if excess() > 0:
            engine.shrink(excess())
        for code in [code for code, language in self._languages.items() if not language.users]:
            if excess() > 0:
                self._free(code)
            if excess() > 0:
                engine.shrink(excess())

    def _free(self, code: str) -> None:
        del self._languages[code]
        self._get_engine().remove(code)
