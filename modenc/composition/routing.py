"""Routing of texts to languages: the given code, the identified language, or a fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from modenc.errors import HubError, LanguageError, OptionError
from modenc.evidence import READ, count_words, language_evidence
from modenc.hub.store import Hub, LanguageGoneError
from modenc.langid import UNDETERMINED, Identification, LanguageIdentifier, Match, get_identifier
from modenc.languages import (
    BASE,
    expected_scripts,
    is_undetermined,
    language_name,
    normalize_code,
    script_of_letter,
)
from modenc.texts import TaggedText, is_missing
from modenc.user_warnings import warn_user

ERROR = "error"
# Words of which a text is warned of that is in another script than its language is.
_FEWEST_WORDS = 3
# Tries if a language is replaced during a call; four were seen with two replacements a second.
_TRIES = 10


@dataclass(frozen=True)
class RoutingSettings:
    """Settings of the routing of texts to languages."""

    fallback: str | None = None
    """Modules for a language that has none: ``base``, ``error``, or another language's code; ``None``: see
    :attr:`LanguageRouter.fallback`."""
    min_confidence: float = 0.0
    """Texts whose :attr:`Routing.share` is less than this (0 to 1) go to the fallback."""
    identifier: LanguageIdentifier | str | Path | None = None
    """A language identifier, a fastText file, or ``None`` for py3langid."""


@dataclass(frozen=True)
class Routing(Identification):
    """The identified language of a text, and the language whose modules encode it.

    ``code`` and ``confidence`` are of the likeliest of all languages that the identifier knows; ``und``
    (undetermined) and 0 if a text has no letters, or none of a known script.
    """

    modules: str | None
    """Code of the language whose modules encode the text, or ``base``; None: the fallback ``error`` refuses
    it."""
    share: float
    """Probability, 0 to 1, of the hub's likeliest language, given that the text is in one of the hub's
    languages, which get a prior, or in the likeliest other one. ``min_confidence`` is compared with it. It is
    0 for texts without letters, which always go to the pivot."""


class LanguageRouter:
    """Router that chooses a language of a hub, or :data:`BASE`, for each text.

    Raises:
        LanguageError: the fallback is no language of the hub.
        OptionError: the confidence is not from 0 to 1, or the identifier has no method ``identify``.
    """

    def __init__(self, hub: Hub, settings: RoutingSettings) -> None:
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
        self._given_fallback = settings.fallback
        if settings.fallback not in (None, BASE, ERROR):
            self._given_fallback = self.require(settings.fallback)

    @cached_property
    def _identifier(self) -> LanguageIdentifier:
        """The identifier, whose model is loaded for the first text without a language."""
        given = self._settings.identifier
        return get_identifier(given) if given is None or isinstance(given, str | Path) else given

    @property
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
            if pivot in self._hub.languages() and self._hub.parts(pivot) == ("se",):
                return pivot
        return BASE

    def require(self, code: str) -> str:
        """Return the normalized code of a language, which has to be in the hub.

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

    def identify(self, texts: Sequence[str]) -> list[Routing]:
        """Identify the language of each text, and choose its modules; equal texts are identified once.

        Raises:
            LanguageError: the hub has no languages, or the identifier knows none of them.
        """
        if not (available := self._hub.languages()):
            raise LanguageError(
                f"{self._hub.path} has no languages to choose from; train or install one first"
            )
        return [routing for routing, _ in self._routed(texts, available)] if texts else []

    def _routed(self, texts: Sequence[str], available: Sequence[str]) -> list[tuple[Routing, Match]]:
        excerpts = [text[:READ] for text in texts]
        distinct = list(dict.fromkeys(excerpts))
        self._warn_of_unknown(available, getattr(self._identifier, "languages_known", None))
        matches: Sequence[Match]
        if (match_all := getattr(self._identifier, "match", None)) is not None:
            matches = match_all(distinct, available)
        else:
            matches = [_match_of(found, available) for found in self._identifier.identify(distinct)]
        found: dict[str, tuple[Routing, Match]] = {}
        fallback: str | None = None
        for text, match in zip(distinct, matches, strict=True):
            match = self._without_letters(text, match, available)
            code, sure = match.found.code, match.share >= self._settings.min_confidence
            modules = match.language if sure or code == UNDETERMINED else None
            if modules is None:
                fallback = fallback or self.fallback
                modules = None if fallback == ERROR else fallback
            found[text] = Routing(code, match.found.confidence, modules, match.share), match
        return [found[excerpt] for excerpt in excerpts]

    def _warn_of_unknown(self, available: Sequence[str], known: Set[str] | None) -> None:
        """Warn of languages of the hub that the identifier does not know."""
        # An identifier that knows none of these raises an error later.
        if not isinstance(known, Set) or known.isdisjoint(available):
            return
        if unknown := [f"{language_name(code)} ({code})" for code in available if code not in known]:
            names = ", ".join(unknown)
            self._warn_once(
                ("identifier", names),
                f"{self._hub.path} has languages that the identifier does not know, so no text is identified "
                f"as one of them: {names}. Give lang= for their texts, or use a fastText model that knows "
                "them, such as GlotLID's",
            )

    def _without_letters(self, text: str, match: Match, available: Sequence[str]) -> Match:
        """Give texts of no language, such as digits and emoji, to the pivot; keep other matches."""
        if match.found.confidence > 0 or language_evidence(text).script is not None:
            return match
        pivot = self._hub.info.pivot
        return Match(Identification(UNDETERMINED, 0.0), pivot if pivot in available else available[0], 0.0)

    def route(
        self, texts: Sequence[str], lang: str | Sequence[str | None] | None = None, *, first: int = 0
    ) -> list[TaggedText]:
        """Tag each text with the code of its modules, or :data:`BASE`; one tagged so already stays as it is.

        Args:
            texts: plain texts, or :class:`~modenc.texts.TaggedText`, which have a language.
            lang: the language of all texts, or of each; ``None``, ``und`` or blank: that of a tagged text, or
                else it is identified.
            first: number of the first text, for messages.

        Raises:
            LanguageError: a code is unknown, ``lang`` has another length than ``texts``, or a text has no
                modules and the fallback is ``error``.
        """
        given = _codes_given(texts, lang)
        self._check_scripts(texts, given, first)
        tags = (text.lang if isinstance(text, TaggedText) else None for text in texts)
        given = [tag if code is None else code for code, tag in zip(given, tags, strict=True)]
        resolved = {code: self._resolve(code) for code in dict.fromkeys(given) if code is not None}
        open_rows = [row for row, code in enumerate(given) if code is None]
        numbers = [first + row for row in open_rows]
        identified = iter(self._route_identified([texts[row] for row in open_rows], numbers))
        codes = (next(identified) if code is None else resolved[code] for code in given)
        return [
            text if isinstance(text, TaggedText) and text.lang == code else TaggedText(text, code)
            for text, code in zip(texts, codes, strict=True)
        ]

    def _route_identified(self, texts: Sequence[str], positions: Sequence[int]) -> list[str]:
        if not texts:
            return []
        if not (available := self._hub.languages()):
            return [self._without_modules("any language", self.fallback)] * len(texts)
        routed = self._routed(texts, available)
        chosen: list[str] = []
        for position, (found, match) in zip(positions, routed, strict=True):
            if found.modules is None:
                raise LanguageError(self._refusal(position, found, match.language))
            chosen.append(found.modules)
        fallbacks = {found.code: found.modules for found, match in routed if match.language is None}
        for code, fallback in fallbacks.items():
            self._without_modules(_named(code), fallback or ERROR)
        return chosen

    def _refusal(self, position: int, found: Routing, language: str | None) -> str:
        """Return the message for a text without modules if the fallback is ``error``."""
        advice = "name its language with lang=, or use fallback='base'"
        if language is not None:
            return (
                f"text {position}: identified as {language} with share {found.share:.2f}, "
                f"below min_confidence={self._settings.min_confidence}; {advice}"
            )
        return (
            f"text {position}: identified as {_named(found.code)} with confidence "
            f"{found.confidence:.2f}; {self._hub.path} has modules for "
            f"{', '.join(self._hub.languages())} alone; {advice}"
        )

    def _resolve(self, code: str) -> str:
        if code == BASE:
            return BASE
        language = normalize_code(code)
        if language in self._hub.languages():
            return language
        if (fallback := self.fallback) == ERROR:
            return self.require(code)
        return self._without_modules(_named(language), fallback)

    def _without_modules(self, language: str, fallback: str) -> str:
        if fallback == ERROR:
            raise LanguageError(f"{self._hub.path} has no modules for {language}; train or install some")
        by = "the base alone" if fallback == BASE else f"the modules of {fallback}"
        self._warn_once(
            ("modules", language),
            f"no modules for {language} in {self._hub.path}: its texts are encoded by {by}",
        )
        return fallback

    def _check_scripts(self, texts: Sequence[str], given: Sequence[str | None], first: int) -> None:
        for position, (text, code) in enumerate(zip(texts, given, strict=True), first):
            # Once for all its codes, of which a server's clients can send any number (``kk-x-...``).
            if code is None or code == BASE or (key := ("script", normalize_code(code))) in self._warned:
                continue
            expected = expected_scripts(code)
            if not expected or any(script_of_letter(character) in expected for character in text):
                continue
            words, script = language_evidence(text)
            # Names, units and terms are written alike in all languages.
            if script is not None and sum(count_words(words).values()) >= _FEWEST_WORDS:
                self._warn_once(
                    key,
                    f"text {position} is given as {code!r}, written in {', '.join(sorted(expected))}, but it "
                    f"is in {script}; check lang=, or leave it out to have languages identified",
                )

    def _warn_once(self, key: tuple[str, str], message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warn_user(message)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_identifier"}


def _named(code: str) -> str:
    return "an unknown language" if code == UNDETERMINED else f"{language_name(code)} ({code})"


def _match_of(found: Identification, available: Sequence[str]) -> Match:
    """Make the match for an identifier that has no method ``match``."""
    try:
        code = normalize_code(found.code)
    except LanguageError:
        return Match(replace(found, code=UNDETERMINED), None, 0.0)
    language = code if code in available else None
    return Match(replace(found, code=code), language, found.confidence if language else 0.0)


def _codes_given(texts: Sequence[str], lang: str | Sequence[str | None] | None) -> list[str | None]:
    """Return the code given for each text; None where none is."""
    if lang is None or is_undetermined(lang):
        return [None] * len(texts)
    if isinstance(lang, str):
        return [str(lang)] * len(texts)
    if not isinstance(lang, Iterable) or isinstance(lang, Mapping | Set):
        raise LanguageError(
            f"lang: expected one code, or a list with one for each text, found {type(lang).__name__}"
        )
    codes = [None if is_missing(code) or is_undetermined(code) else code for code in lang]
    for row, code in enumerate(codes):
        if not (code is None or isinstance(code, str)):
            raise LanguageError(f"lang: expected codes or None, found {short_repr(code)} for text {row}")
    if len(codes) != len(texts):
        raise LanguageError(
            f"lang: expected one code, or a list with one for each of the {len(texts)} texts, "
            f"found {len(codes)} codes"
        )
    return codes


def with_retries(
    vectors_of: Callable[[list[TaggedText]], Any],
    tagged: list[TaggedText],
    route: Callable[[list[TaggedText]], list[TaggedText]],
) -> tuple[Any, list[TaggedText]]:
    """Encode texts; if a language is replaced meanwhile, route and encode all of them again.

    Returns the vectors, all of one version of each language, and the texts as they were routed for them.
    """
    for _ in range(_TRIES - 1):
        with suppress(LanguageGoneError):
            return vectors_of(tagged), tagged
        for text in tagged:
            text.tokens = None
        tagged = route(tagged)
    return vectors_of(tagged), tagged
