"""Which languages are in memory: loaded on first use, least recently used ones freed when it is full."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.engine import BASE, Engine, make_engine
from modenc.composition.modules import LanguageModules, modules_of
from modenc.composition.settings import ComputeSettings
from modenc.errors import OptionError
from modenc.hub.store import Hub, LanguageGoneError
from modenc.texts import TaggedText

logger = logging.getLogger(__name__)

# Busy threads meet four replacements in one call where a language is replaced twice a second.
_TRIES = 10


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
        self._settings = settings
        self._base_tokenizer: PreTrainedTokenizerFast | None = None
        self._lock, self._tokenizer_lock = RLock(), RLock()
        self._start()

    def _start(self) -> None:
        self._engine: Engine | None = None
        # The least recently used first.
        self._languages: dict[str, LoadedLanguage] = {}

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
        with self._using([code]):
            pass

    def unload(self, code: str) -> None:
        """Free a language, now or when the batches that use it are done; it may be out of memory already."""
        with self._lock:
            if code in self._languages:
                self._languages[code].unload = True
                self._free_unloaded()

    def tokenizer(self, code: str) -> tuple[PreTrainedTokenizerFast, str]:
        """The tokenizer of a language, its own or the base's, and the digest of its modules."""
        if code == BASE:
            return self.base_tokenizer(), ""
        with self._using([code]) as (_, used):
            return used[code].tokenizer or self.base_tokenizer(), used[code].digest

    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer."""
        # Not the other lock, under which engines take theirs: they ask for this while they hold it.
        with self._tokenizer_lock:
            if self._base_tokenizer is None:
                self._base_tokenizer = self._base.load_tokenizer()
            return self._base_tokenizer

    def run(
        self, ids: Tensor, mask: Tensor, languages: Sequence[str], digests: Sequence[str], *, align: bool
    ) -> Tensor:
        """Token vectors of a padded batch: see :meth:`BatchedEngine.run`.

        Raises:
            LanguageGoneError: a row was tokenized for other modules than its language has now.
            OptionError: the rows were split without their languages, as ``torch.nn.DataParallel`` does.
        """
        if not len(languages) == len(digests) == len(ids):
            raise OptionError(
                f"expected a language for each of {len(ids)} rows, found {len(languages)}; encode with "
                "device=[...] or a pool of processes instead of DataParallel"
            )
        with self._using(languages) as (engine, used):
            for code, digest in dict.fromkeys(zip(languages, digests, strict=True)):
                if code != BASE and used[code].digest != digest:
                    raise LanguageGoneError(
                        f"{self._hub.path}: {code} was replaced while its texts were encoded; "
                        "encode them again"
                    )
            return engine.run(ids, mask, languages, align=align)

    @contextmanager
    def _using(self, codes: Sequence[str]) -> Iterator[tuple[Engine, dict[str, LoadedLanguage]]]:
        """Languages in memory as long as the context lasts: the engine that has them, and themselves.

        Raises:
            LanguageGoneError: the hub lacks a language.
            HubError: a language cannot be loaded.
        """
        needed = [code for code in dict.fromkeys(codes) if code != BASE]
        used: dict[str, LoadedLanguage] = {}
        engine: Engine | None = None
        try:
            with self._lock:
                engine = self._running()
                # Those in memory first, so that none of them makes room for the others.
                for code in sorted(needed, key=lambda code: code not in self._languages):
                    used[code] = self._load(code, engine)
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
            self._start()

    def reset(self) -> None:
        """Compute the next batch, to the last digit, as if none had been run; languages stay in memory."""
        with self._lock:
            self._running().reset()

    def _running(self) -> Engine:
        if self._engine is None:
            self._engine = make_engine(self._body, self._settings, self.base_tokenizer)
        return self._engine

    def _load(self, code: str, engine: Engine) -> LoadedLanguage:
        """A language, now the most recently used one."""
        if code in self._languages:
            self._languages[code] = self._languages.pop(code)
            return self._languages[code]
        logger.debug("loading the modules of %s from %s", code, self._hub.path)
        # Weights made in inference mode could never be trained on or moved by others.
        with torch.inference_mode(False), torch.no_grad():
            language = self._hub.read(code, checksums=self._settings.verify == "full")
            modules = modules_of(language)
            self._make_room(engine, modules)
            engine.put(modules)
        self._languages[code] = LoadedLanguage(modules.tokenizer, language.digest)
        return self._languages[code]

    def _free_unloaded(self) -> None:
        for code, language in list(self._languages.items()):
            if language.unload and not language.users:
                self._free(code)
                self._running().shrink()

    def _make_room(self, engine: Engine, modules: LanguageModules | None = None) -> None:
        """Free what no batch uses until all, with ``modules`` to come, is within the limit."""
        limit = self._settings.memory_limit
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

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads what it needs from the hub; the lock and the engine stay here.
        return {name: getattr(self, name) for name in ("_hub", "_base", "_body", "_settings")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._base_tokenizer = None
        self._lock, self._tokenizer_lock = RLock(), RLock()
        self._start()


def in_one_state(
    attempt: Callable[[], Any], texts: Sequence[TaggedText], choose: Callable[[], list[str]]
) -> Any:
    """Vectors of one state of each language: tried again if one is replaced in the hub or removed.

    Args:
        attempt: computes them.
        texts: what of.
        choose: the languages that the texts go to now.
    """
    for _ in range(_TRIES - 1):
        with suppress(LanguageGoneError):
            return attempt()
        for text, code in zip(texts, choose(), strict=True):
            text.lang, text.tokens = code, None
    return attempt()
