"""Conditions for keeping rows, checks of their language, and counts of the rows kept and dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from langcodes import Language, tag_distance

from modenc.data.formats import Row
from modenc.data.text import count_letters, sentence_key, stable_hash
from modenc.errors import DataError
from modenc.langid import UNDETERMINED, expected_scripts, get_identifier, language_evidence
from modenc.languages import language_name, normalize_code
from modenc.ranges import NonNegativeInt, PositiveInt, Share
from modenc.texts import normalize

if TYPE_CHECKING:
    from modenc.data.kinds import DataKind

_BATCH = 1024

# Of 14,000 lines with 20 letters or more, in ten languages, the identifier gets 57 wrong; of the lines with
# this confidence, 2.
MIN_CONFIDENCE = 0.9
MIN_LETTERS = 20

# Fewer lines that are long enough to identify say nothing about a corpus.
_MIN_LONG_LINES = 20

# CLDR's distance: Bokmål to Nynorsk 20, Malay to Indonesian 14, Croatian to Serbian 8, written in
# the same script; Azerbaijani to Turkish and Kazakh to Russian are above 30.
_SAME_LANGUAGE = 25


@dataclass(frozen=True)
class Filters:
    """Conditions for keeping rows, with the defaults of recipes."""

    min_chars: NonNegativeInt = 5
    """Shortest line that is kept, in characters."""
    max_chars: PositiveInt = 1000
    """Longest line that is kept, in characters."""
    check_script: bool = True
    """Drop lines mostly in a script the language is not written in."""
    check_language: bool = True
    """Drop lines that are identified as another language with confidence."""
    min_language_share: Share = 0.5
    """Smallest share of a corpus that must be in the language's script and language."""


DEFAULT_FILTERS = Filters()


class LanguageCheck:
    """Check of lines against the script and language that they should be in.

    Args:
        lang: code of the expected language; with a script in it (``ace_Arab``), only that one is expected.
        pivot: language of the other side, for translations. If the identifier does not know ``lang``, lines
            are at least checked not to be in the pivot (MuSR, section 4.1).
        filters: settings of the checks.
    """

    def __init__(self, lang: str, pivot: str | None = None, filters: Filters = DEFAULT_FILTERS) -> None:
        self._scripts = expected_scripts(lang) if filters.check_script else {}
        self.lang = lang = normalize_code(lang)
        self._min_share = filters.min_language_share
        identifier = get_identifier() if filters.check_language else None
        # An identifier that does not know the language identifies each line as another.
        knows_lang = identifier is not None and lang in identifier.languages_known
        self._pivot = None if knows_lang else pivot
        self._identifier = identifier if knows_lang or pivot is not None else None
        self._long_lines = 0
        self._others: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def reasons(self, texts: Sequence[str]) -> list[str]:
        """Return the reason to drop each text, ``wrong_script`` or ``wrong_language``; empty to keep it.

        With too few letters, or at low confidence, its language counts as right.
        """
        reasons, others = [""] * len(texts), dict[int, str]()
        for i, text in enumerate(texts):
            if self._scripts and (script := language_evidence(text).script) not in self._scripts:
                reasons[i], others[i] = "wrong_script", f"script {script}"
        long = [i for i, text in enumerate(texts) if count_letters(text) >= MIN_LETTERS]
        identified = self._identifier.identify([texts[i] for i in long]) if self._identifier else ()
        for i, found in zip(long, identified, strict=False):
            if found.code == UNDETERMINED:
                continue  # the identifier knows no language of its script
            fits = found.code != self._pivot if self._pivot else is_same_language(self.lang, found.code)
            if not fits:
                others[i] = f"{found.code} ({language_name(found.code)})"
                if found.confidence >= MIN_CONFIDENCE and not reasons[i]:
                    reasons[i] = "wrong_language"
        self._long_lines += len(long)
        for i in long:
            if i in others:
                self._others[others[i]] += 1
                self._examples.setdefault(others[i], texts[i])
        return reasons

    def check_language_share(self) -> None:
        """Check that a large enough share of the lines so far is in the language.

        Raises:
            DataError: the share is below ``min_language_share``; the message states both.
        """
        lines = self._long_lines
        share = (lines - self._others.total()) / max(lines, 1)
        if lines < _MIN_LONG_LINES or share >= self._min_share:
            return
        label, count = self._others.most_common(1)[0]
        raise DataError(
            f"{self.lang}: {count / lines:.0%} of {lines:,} lines look like {label}, e.g. "
            f"{self._examples[label][:80]!r}; expected at least {self._min_share:.0%} "
            f"{language_name(self.lang)}, found {share:.0%}. Check the sources and their columns; if the "
            "texts are right, lower data.min_language_share or set data.check_language = false "
            "(or data.check_script)"
        )


@cache
def is_same_language(lang: str, code: str) -> bool:
    """Say whether two codes are the same language or so close that confusing them is no error."""
    if lang == code:
        return True
    script = Language.get(lang).maximize().script
    other = Language.get(code).maximize().script
    if script == other:
        return tag_distance(lang, code) < _SAME_LANGUAGE
    return {lang, code} <= {"bs", "hr", "sr"}


def summary(counts: Counter[str]) -> str:
    """Summarize the counts of a filter: ``read 1,000, kept 940 (40 too short, 20 duplicate)``."""
    reasons = [(reason, count) for reason, count in counts.most_common() if reason != "kept"]
    dropped = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons)
    text = f"read {counts.total():,}, kept {counts['kept']:,}"
    return f"{text} ({dropped})" if dropped else text


class TextFilter:
    """Normalizes rows and drops the bad ones, across all the sources of a corpus.

    Duplicates are rows of the same sentences, among all rows that the filter has seen. Rows with a text of
    ``not_in``, a set of :func:`~modenc.data.text.sentence_key`, are dropped.
    """

    def __init__(self, filters: Filters, lang: str, not_in: Set[str] = frozenset()) -> None:
        self._filters = filters
        self._not_in = not_in
        self.check = LanguageCheck(lang, filters=filters)
        """Check of the rows so far."""
        self.counts: Counter[str] = Counter()
        """Number of rows ``kept``, and of dropped rows by reason."""
        self._seen: set[int] = set()

    def select(self, rows: Iterable[Row], kind: DataKind[Any]) -> Iterator[Row]:
        """Yield the rows that pass the filters, normalized, in their order."""
        remaining = self._well_formed(rows, kind)
        while batch := list(islice(remaining, _BATCH)):
            reasons = self.check.reasons([row[role] for row in batch for role in kind.in_language])
            width = len(kind.in_language)
            for i, row in enumerate(batch):
                reason = next(filter(None, reasons[i * width : (i + 1) * width]), None)
                self.counts[reason or "kept"] += 1
                if not reason:
                    yield row

    def _well_formed(self, rows: Iterable[Row], kind: DataKind[Any]) -> Iterator[Row]:
        for row in rows:
            row = self._normalized(row, kind)
            if reason := self._drop_reason(row, kind):
                self.counts[reason] += 1
            else:
                yield row

    def _normalized(self, row: Row, kind: DataKind[Any]) -> Row:
        roles = kind.required if kind.optional is None else (*kind.required, kind.optional)
        normal = {role: normalize(row.get(role, "")) for role in roles}
        if (role := kind.optional) is not None and (
            self._length_reason(normal[role]) or self._key(normal[role], role, kind) in self._not_in
        ):
            normal[role] = ""
        return normal if kind.score is None else normal | {kind.score: row[kind.score]}

    def _key(self, text: str, role: str, kind: DataKind[Any]) -> str:
        return sentence_key(text, self.check.lang if role in kind.in_language else None)

    def _drop_reason(self, row: Row, kind: DataKind[Any]) -> str | None:
        texts = [row[role] for role in kind.required]
        if not all(any(map(str.isalpha, text)) for text in texts):
            return "empty"
        if reason := next(filter(None, map(self._length_reason, texts)), None):
            return reason
        keys = [self._key(row[role], role, kind) for role in kind.required]
        if len(set(keys)) < len(keys):
            return "identical"
        if not self._not_in.isdisjoint(keys):
            return "in_evaluation_data"
        # Hashes of 64 bits need a fifth of the memory of the strings, and collide in no corpus that fits.
        hashed = stable_hash("\n".join(keys))
        if hashed in self._seen:
            return "duplicate"
        self._seen.add(hashed)
        return None

    def _length_reason(self, text: str) -> str | None:
        if len(text) < self._filters.min_chars:
            return "too_short"
        return "too_long" if len(text) > self._filters.max_chars else None
