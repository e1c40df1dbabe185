"""Which languages are in memory: loaded on first use, least recently used ones freed when it is full."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.batched_engine import BatchedEngine
from modenc.composition.int8 import Int8Engine
from modenc.composition.modules import LanguageModules, modules_of
from modenc.composition.settings import ComputeSettings
from modenc.hub.store import Hub
from modenc.languages import BASE

logger = logging.getLogger(__name__)

Engine = BatchedEngine | Int8Engine
"""In floating point, or in 8-bit integers on CPUs; both have the same methods."""


@dataclass
class LoadedLanguage:
    """A language in memory; its weights are the engine's."""

    tokenizer: PreTrainedTokenizerFast | None
    """``None``: the language keeps the base's vocabulary."""
    digest: str
    """Of its files: other modules have another."""
    users: int = 0
    """Batches that it may not be freed under."""
    unload: bool = False
    """Whether to free it once it has no users."""


class LanguageCache:
    """The languages of a hub that are in memory, and the engine that runs them.

    Threads may share it. A language that a batch is using is not freed before the batch is done.

    Args:
        hub: the hub folder.
        base: where its base's tokenizer comes from.
        body: its base's model, used in place.
        settings: what it computes in, and how much memory it may take.
    """

    def __init__(self, hub: Hub, base: BaseModel, body: PreTrainedModel, settings: ComputeSettings) -> None:
        self._hub = hub
        self._base = base
        self._body = body
        self.settings = settings
        self._base_tokenizer: PreTrainedTokenizerFast | None = None
        self._lock, self._tokenizer_lock = RLock(), RLock()
        self.restart()

    def __reduce__(self) -> tuple[type[LanguageCache], tuple[Any, ...]]:
        # Another process reads what it needs from the hub; the locks and the engine stay here.
        return LanguageCache, (self._hub, self._base, self._body, self.settings)

    def loaded(self) -> list[str]:
        """Codes of the languages in memory, sorted."""
        return sorted(code for code, language in list(self._languages.items()) if not language.unload)

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the base's own weights not counted."""
        with self._lock:
            return self._running().nbytes

    def load(self, code: str) -> None:
        """Read and check a language's modules, unless they are in memory.

        Raises:
            LanguageGoneError: the hub lacks it.
            HubError: a file is missing, foreign or damaged, or made for another base.
        """
        with self.using([code]):
            pass

    def unload(self, code: str) -> None:
        """Free a language, now or when the batches that use it are done; it may be out of memory already."""
        with self._lock:
            if code in self._languages:
                self._languages[code].unload = True
                self._free_unloaded()

    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer."""
        # Not the other lock, under which engines take theirs: they ask for this while they hold it.
        with self._tokenizer_lock:
            if self._base_tokenizer is None:
                self._base_tokenizer = self._base.load_tokenizer()
            return self._base_tokenizer

    @contextmanager
    def using(self, codes: Sequence[str]) -> Iterator[tuple[Engine, dict[str, LoadedLanguage]]]:
        """Languages in memory as long as the context lasts: the engine that has them, and themselves by code.

        Those that are not in memory are read; :data:`~modenc.languages.BASE`, which is none, is passed over.

        Raises:
            LanguageGoneError: the hub lacks a language.
            HubError: a file is missing, foreign or damaged, or made for another base.
        """
        needed = [code for code in dict.fromkeys(codes) if code != BASE]
        used: dict[str, LoadedLanguage] = {}
        engine: Engine | None = None
        try:
            with self._lock:
                engine = self._running()
                # Those in memory first, so that none of them makes room for the others.
                for code in sorted(needed, key=lambda code: code not in self._languages):
                    if code not in self._languages:
                        logger.debug("loading the modules of %s from %s", code, self._hub.path)
                        # Weights made in inference mode could never be trained on or moved by others.
                        with torch.inference_mode(False), torch.no_grad():
                            read = self._hub.read(code, checksums=self.settings.verify == "full")
                            modules = modules_of(read)
                            self._make_room(engine, modules)
                            engine.put(modules)
                        self._languages[code] = LoadedLanguage(modules.tokenizer, read.digest)
                    # The most recently used one by now.
                    self._languages[code] = used[code] = self._languages.pop(code)
                    used[code].users += 1
                    used[code].unload = False
            yield engine, used
        finally:
            with self._lock:
                for language in used.values():
                    language.users -= 1
                if engine is not None and engine is self._engine:
                    self._free_unloaded()
                    self._make_room(engine)

    def restart(self) -> None:
        """Load all languages again on their next use, because the base has moved or changed type."""
        with self._lock:
            self._engine: Engine | None = None
            # The least recently used first.
            self._languages: dict[str, LoadedLanguage] = {}

    def reset(self) -> None:
        """Compute the next batch, to the last digit, as if none had been run; languages stay in memory."""
        with self._lock:
            self._running().reset()

    def _running(self) -> Engine:
        if self._engine is None:
            if self.settings.compute == "int8":
                self._engine = Int8Engine(self._body, self.base_tokenizer)
            else:
                precision = self.settings.precision(self._body.device)
                self._engine = BatchedEngine(self._body, precision, self.settings.memory_limit)
        return self._engine

    def _free_unloaded(self) -> None:
        for code, language in list(self._languages.items()):
            if language.unload and not language.users:
                self._free(code)
                self._running().shrink()

    def _make_room(self, engine: Engine, modules: LanguageModules | None = None) -> None:
        """Free what no batch uses until all, with ``modules`` to come, is within the limit."""
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
        self._running().remove(code)
