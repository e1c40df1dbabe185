"""Which language's modules a text goes to: the code given, the language identified, or a fallback."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from modenc.composition.engine import BASE
from modenc.errors import LanguageError, OptionError
from modenc.hub.store import Hub
from modenc.langid import Identification, LanguageIdentifier, get_identifier
from modenc.languages import dominant_script, expected_scripts, language_name, normalize_code
from modenc.texts import TaggedText, is_missing

ERROR = "error"
_IDENTIFY_CHARACTERS = 2000
_SCRIPT_CHARACTERS = 200


@dataclass(frozen=True)
class ChoiceSettings:
    """How languages are chosen."""

    fallback: str = BASE
    """For a language without modules: ``base``, ``error``, or the code of a language that has some."""
    min_confidence: float = 0.0
    """Texts identified with less than this (0 to 1) go to the fallback."""
    identifier: LanguageIdentifier | str | Path | None = None
    """A language identifier, a fastText file, or ``None`` for py3langid."""


class LanguageChooser:
    """Chooses a language of a hub, or :data:`BASE`, for every text.

    Raises:
        LanguageError: the fallback is no language of the hub.
        OptionError: the confidence is not within 0 to 1, or the identifier does not identify.
    """

    def __init__(self, hub: Hub, settings: ChoiceSettings) -> None:
        least: Any = settings.min_confidence
        identifier: Any = settings.identifier
        if not isinstance(least, Real) or not 0.0 <= float(least) <= 1.0:
            raise OptionError(f"min_confidence: expected 0 to 1, found {least!r:.60}")
        if not (identifier is None or isinstance(identifier, str | Path) or hasattr(identifier, "identify")):
            raise OptionError(
                "identifier: expected a fastText file, an object with a method identify, or None, "
                f"found {identifier!r:.60}"
            )
        self._hub = hub
        self._settings = settings
        self._warned: set[tuple[str, str]] = set()
        self._identifier: LanguageIdentifier | None = None
        self._fallback = settings.fallback
        if settings.fallback not in (BASE, ERROR):
            self._fallback = self.require(settings.fallback)

    def require(self, code: str) -> str:
        """The normalised code of a language that the hub has.

        Raises:
            LanguageError: ``code`` names no language, or one without modules.
        """
        language = normalize_code(code)
        available = self._hub.languages()
        if language not in available:
            raise LanguageError(
                f"{code!r}: no modules for {language_name(language)} ({language}) in {self._hub.path}; "
                f"it has {', '.join(available) or 'no languages'}. "
                f"Train or install {language}, or use fallback='base'"
            )
        return language

    def identify(self, texts: Sequence[str]) -> list[Identification]:
        """The most likely of the hub's languages for each text; equal texts are looked at once.

        Raises:
            LanguageError: the hub has no languages.
        """
        available = self._hub.languages()
        if not available:
            raise LanguageError(
                f"{self._hub.path} has no languages to choose from; train or install one first"
            )
        if not texts:
            return []
        if self._identifier is None:
            given = self._settings.identifier
            self._identifier = (
                get_identifier(given) if given is None or isinstance(given, str | Path) else given
            )
        distinct = list(dict.fromkeys(str(text[:_IDENTIFY_CHARACTERS]) for text in texts))
        found = dict(zip(distinct, self._identifier.identify(distinct, available), strict=True))
        return [found[text[:_IDENTIFY_CHARACTERS]] for text in texts]

    def choose(self, texts: Sequence[str], lang: str | Sequence[str | None] | None = None) -> list[str]:
        """One code a text, :data:`BASE` where no modules are to act.

        Args:
            texts: plain texts, or :class:`~modenc.texts.TaggedText` that know their language.
            lang: the language of all, or of each (``None``: identify it).

        Raises:
            LanguageError: a code is unknown, ``lang`` has another length than ``texts``, or a text has no
                modules and the fallback is ``error``.
        """
        given = _codes_given(texts, lang)
        resolved = {code: self._resolve(code) for code in dict.fromkeys(given) if code is not None}
        if lang is not None:
            self._check_scripts(texts, given)
        open_rows = [row for row, code in enumerate(given) if code is None]
        identified = iter(self._choose_identified([texts[row] for row in open_rows], open_rows))
        return [next(identified) if code is None else resolved[code] for code in given]

    def _choose_identified(self, texts: Sequence[str], positions: Sequence[int]) -> list[str]:
        if not texts:
            return []
        available = self._hub.languages()
        if not available:
            return [self._without_modules("any language") for _ in texts]
        chosen = []
        for position, found in zip(positions, self.identify(texts), strict=True):
            if found.confidence < self._settings.min_confidence:
                if self._fallback == ERROR:
                    raise LanguageError(
                        f"text {position}: taken for {found.code} with confidence {found.confidence:.2f}, "
                        f"below min_confidence={self._settings.min_confidence}; "
                        "name its language with lang=, or use fallback='base'"
                    )
                chosen.append(self._fallback)
            elif found.confidence == 0.0 and self._hub.info.pivot in available:
                # Digits and emoji are of no language: the one that all others are aligned to reads them.
                chosen.append(self._hub.info.pivot)
            else:
                chosen.append(found.code)
        return chosen

    def _resolve(self, code: str) -> str:
        if code == BASE:
            return BASE
        language = normalize_code(code)
        if language in self._hub.languages():
            return language
        if self._fallback == ERROR:
            return self.require(code)
        return self._without_modules(f"{language_name(language)} ({language})")

    def _without_modules(self, language: str) -> str:
        if self._fallback == ERROR:
            raise LanguageError(f"{self._hub.path} has no modules for {language}; train or install some")
        by = "the base alone" if self._fallback == BASE else f"the modules of {self._fallback}"
        self._warn_once(
            ("modules", language),
            f"no modules for {language} in {self._hub.path}: its texts are encoded by {by}",
        )
        return self._fallback

    def _check_scripts(self, texts: Sequence[str], given: Sequence[str | None]) -> None:
        for position, (text, code) in enumerate(zip(texts, given, strict=True)):
            if code is None or code == BASE or ("script", code) in self._warned:
                continue
            expected = expected_scripts(code)
            script = dominant_script(text[:_SCRIPT_CHARACTERS])
            if expected and script and script not in expected:
                self._warn_once(
                    ("script", code),
                    f"text {position} is given as {code!r}, written in {', '.join(sorted(expected))}, but it "
                    f"is in {script}; check lang=, or leave it out to have languages identified",
                )

    def _warn_once(self, key: tuple[str, str], message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, stacklevel=6)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_identifier": None}


def _codes_given(texts: Sequence[str], lang: str | Sequence[str | None] | None) -> list[str | None]:
    if lang is None:
        return [text.lang if isinstance(text, TaggedText) else None for text in texts]
    if isinstance(lang, str):
        return [str(lang)] * len(texts)
    if not isinstance(lang, Iterable) or isinstance(lang, Mapping | Set):
        raise LanguageError(
            f"lang: expected one code, or a list with one for each text, found {type(lang).__name__}"
        )
    codes = [None if is_missing(code) else code for code in lang]
    for row, code in enumerate(codes):
        if not (code is None or isinstance(code, str)):
            raise LanguageError(f"lang: expected codes or None, found {short_repr(code)} for text {row}")
    if len(codes) != len(texts):
        raise LanguageError(
            f"lang: expected one code, or a list with one for each of the {len(texts)} texts, "
            f"found {len(codes)} codes"
        )
    return codes
