"""Routing of texts to languages: the given code, the identified language, or a fallback."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from modenc.errors import HubError, LanguageError, OptionError
from modenc.hub.store import Hub
from modenc.langid import UNDETERMINED, Identification, LanguageIdentifier, get_identifier
from modenc.languages import BASE, is_undetermined, language_name, normalize_code
from modenc.texts import TaggedText, is_missing

ERROR = "error"


class LanguageRouter:
    """Router that chooses a language of a hub, or :data:`BASE`, for each text.

    It lists the hub's languages once, and again for a code that is not among them.

    Args:
        hub: the hub.
        fallback: modules for a language that has none: ``base``, ``error``, or another language's code;
            ``None``: see :attr:`fallback`.
        min_confidence: texts that are identified with less confidence (0 to 1) go to the fallback.
        identifier: a language identifier, a fastText file, or ``None`` for py3langid; its model is loaded for
            the first text without a language.

    Raises:
        LanguageError: the fallback is no language of the hub.
        OptionError: ``min_confidence`` is not from 0 to 1.
    """

    def __init__(
        self,
        hub: Hub,
        fallback: str | None = None,
        min_confidence: float = 0.0,
        identifier: LanguageIdentifier | str | Path | None = None,
    ) -> None:
        if not 0.0 <= min_confidence <= 1.0:
            raise OptionError(f"min_confidence: expected 0 to 1, found {min_confidence!r:.60}")
        self._hub = hub
        self._min_confidence = min_confidence
        self._given_identifier = identifier
        self._warned: set[str] = set()
        self._given_fallback = fallback
        if fallback not in (None, BASE, ERROR):
            self._given_fallback = self.require(fallback)

    @cached_property
    def _languages(self) -> list[str]:
        return self._hub.languages()

    def languages(self) -> list[str]:
        """List the hub's languages, the pivot first."""
        self._languages = self._hub.languages()
        return self._languages

    def _has(self, language: str) -> bool:
        return language in self._languages or language in self.languages()

    @cached_property
    def _identifier(self) -> LanguageIdentifier:
        """The identifier; warns of languages of the hub that it does not know.

        Raises:
            LanguageError: the hub has no languages.
        """
        if not self._languages:
            raise LanguageError(
                f"{self._hub.path} has no languages to choose from; train or install one first, "
                "or use lang='base'"
            )
        identifier = get_identifier(self._given_identifier)
        known = identifier.languages_known
        unknown = [f"{language_name(code)} ({code})" for code in self._languages if code not in known]
        # An identifier that knows none of these raises an error later.
        if unknown and len(unknown) < len(self._languages):
            self._warn_once(
                f"{self._hub.path} has languages that the identifier does not know, so no text is identified "
                f"as one of them: {', '.join(unknown)}. Give lang= for their texts, or use a fastText model "
                "that knows them, such as GlotLID's"
            )
        return identifier

    @cached_property
    def fallback(self) -> str:
        """Modules for a language that has none: ``base``, ``error``, or a language's code.

        By default the pivot, if it has only a sentence-encoding adapter, which serves other languages better
        than the base without modules (``docs/encoding.md``). A vocabulary or language adapter
        fits one language only: then the base.
        """
        if self._given_fallback is not None:
            return self._given_fallback
        pivot = self._hub.info.pivot
        with suppress(HubError):  # a damaged pivot is reported when it is used
            if pivot in self._languages and self._hub.card(pivot).parts == ("se",):
                return pivot
        return BASE

    def require(self, code: str) -> str:
        """Return the normalized code of a language, which has to be in the hub.

        Raises:
            LanguageError: ``code`` names no language, or one without modules.
        """
        language = normalize_code(code)
        if not self._has(language):
            raise LanguageError(
                f"{code!r}: no modules for {language_name(language)} ({language}) in {self._hub.path}; "
                f"it has {', '.join(self._languages) or 'no languages'}. "
                f"Train or install {language}, or use fallback='base'"
            )
        return language

    def identify(self, texts: Sequence[str]) -> list[Identification]:
        """Identify the language of each text, and choose its modules.

        Raises:
            LanguageError: the hub has no languages, or the identifier knows none of them.
        """
        fallback = None if self.fallback == ERROR else self.fallback
        return [found if found.modules else replace(found, modules=fallback) for found in self._match(texts)]

    def _match(self, texts: Sequence[str]) -> list[Identification]:
        """Identify texts; ``modules`` is None where the fallback serves. The model is read for the first."""
        return self._identifier.match(texts, self._languages, self._min_confidence) if texts else []

    def route(self, texts: Sequence[str], lang: str | Sequence[str | None] | None = None) -> list[TaggedText]:
        """Tag each text with the code of its modules, or :data:`BASE`; one tagged so already stays as it is.

        Args:
            texts: plain texts, or :class:`~modenc.texts.TaggedText`, which have a language.
            lang: the language of all texts, or of each; ``None``, ``und`` or blank: that of a tagged text, or
                else it is identified.

        Raises:
            LanguageError: a code is unknown, ``lang`` has another length than ``texts``, or a text has no
                modules and the fallback is ``error``.
        """
        given = [lang] * len(texts) if lang is None or isinstance(lang, str) else list(lang)
        if len(given) != len(texts):
            raise LanguageError(
                f"lang: expected one code, or a list with one for each of the {len(texts)} texts, "
                f"found {len(given)} codes"
            )
        for row, (text, code) in enumerate(zip(texts, given, strict=True)):
            if is_missing(code) or is_undetermined(code):
                given[row] = text.lang if isinstance(text, TaggedText) else None
        resolved = {code: self._resolve(code) for code in dict.fromkeys(given) if code is not None}
        modules = {row: resolved[code] for row, code in enumerate(given) if code is not None}
        unknown = [row for row, code in enumerate(given) if code is None]
        identified = self._match([texts[row] for row in unknown])
        for row, found in zip(unknown, identified, strict=True):
            if found.modules is None and self.fallback == ERROR:
                raise LanguageError(
                    f"{short_repr(texts[row])}: identified as {_named(found.code)}, with confidence "
                    f"{found.confidence:.2f} beside the languages in {self._hub.path} "
                    f"({', '.join(self._languages)}); name its language with lang=, or use fallback='base'"
                )
            if found.modules is None and found.code not in self._languages:
                self._without_modules(found.code, self.fallback)
            modules[row] = found.modules or self.fallback
        codes = [modules[row] for row in range(len(texts))]
        return [
            text if isinstance(text, TaggedText) and text.lang == code else TaggedText(text, code)
            for text, code in zip(texts, codes, strict=True)
        ]

    def _resolve(self, code: str) -> str:
        if code == BASE:
            return BASE
        language = normalize_code(code)
        if self._has(language):
            return language
        if self.fallback == ERROR:
            return self.require(code)
        self._without_modules(language, self.fallback)
        return self.fallback

    def _without_modules(self, language: str, fallback: str) -> None:
        by = "the base alone" if fallback == BASE else f"the modules of {fallback}"
        self._warn_once(
            f"no modules for {_named(language)} in {self._hub.path}: its texts are encoded by {by}",
        )

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=2)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_identifier"}


def _named(code: str) -> str:
    return "an unknown language" if code == UNDETERMINED else f"{language_name(code)} ({code})"
