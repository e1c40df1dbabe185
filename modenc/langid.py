"""Identification of each text's language, among all that a model knows or among a few.

A model knows a hundred or more languages and errs on short texts. The script, and a prior for the languages
of a hub, narrow its choice. The script of a text's words (:mod:`modenc.evidence`) decides first: if any
candidate is written in it, the text is identified as one that is.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from modenc.errors import LanguageError
from modenc.evidence import language_evidence
from modenc.extras import require_extra
from modenc.languages import expected_scripts, find_code, main_scripts, normalize_code

# Log odds. Uzbek is written in Cyrillic too, but of two Cyrillic words among en az kk ky ug uz Kyrgyz
# is identified correctly 91 % of the time with these odds against a second script, 82 % without.
_SECOND_SCRIPT = -2.0
_FOREIGN_SCRIPT = -7.0

# Log odds, in nats, of a text being in a language of the hub. With 13, at most 0.2 % of the texts of each of
# six languages that are identified correctly among the six are taken for another language that py3langid
# knows, and 98.5 % of sentences in other languages (87 % of Tatoeba's Turkish ones) are kept out of the hub
# (first halves of the files of benchmarks/language_identification.py). With 10: 1.9 % of Uzbek, 99.1 %, 92 %.
_HUB_PRIOR = 13.0

# Candidates up to this number are computed in float32, see _restricted_to.
_FEW = 24

UNDETERMINED = "und"
"""ISO 639's code for a text without letters, or without those of a known script."""

# A py3langid model, and a matrix of 0 and 1 that maps its classes (rows) to candidates (columns).
_Restricted = tuple[Any, NDArray[np.float32]]


@dataclass(frozen=True)
class Identification:
    """Identified language of a text."""

    code: str
    """Normalized language code."""
    confidence: float
    """Probability among the languages compared (all that the model knows, or the candidates), 0 to 1; 0
    without letters of a script that fits."""


@dataclass(frozen=True)
class Match:
    """A text's language among all that a model knows, and among a hub's."""

    found: Identification
    """Language among all, without a prior; :data:`UNDETERMINED` without letters of a known script."""
    language: str | None
    """Hub's language that is likelier, prior included, than any language outside the hub."""
    share: float
    """Probability of the hub's likeliest language, among these and the likeliest other language."""


class LanguageIdentifier(Protocol):
    """Protocol of an object that identifies the language of texts.

    An identifier may also have ``match`` (as :class:`Py3LangidIdentifier` does), to compare a hub's languages
    with all others itself; otherwise the likeliest of all languages is taken.
    """

    def identify(
        self, texts: Sequence[str], languages: Collection[str] | None = None
    ) -> list[Identification]:
        """Return the likeliest of ``languages`` (None: of all it knows) for each text."""
        ...


class _ModelIdentifier(ABC):
    """Identifier that combines a model's probabilities, the scripts, and a prior for a hub's languages."""

    def __init__(self, name: str, labels: Iterable[str]) -> None:
        self._name = name  # in messages
        # Labels that are no language, such as zxx, are left out.
        codes = {label: find_code(label.removeprefix("__label__")) for label in labels}
        self._code_of = {label: code for label, code in codes.items() if code is not None}

    @property
    def languages_known(self) -> frozenset[str]:
        """Normalized codes of the languages that the model can identify."""
        return frozenset(self._code_of.values())

    def identify(
        self, texts: Sequence[str], languages: Collection[str] | None = None
    ) -> list[Identification]:
        """Return the likeliest of ``languages`` (None: of all known) for each text.

        Languages that the model does not know are never returned.

        Raises:
            LanguageError: the model knows none of ``languages``.
        """
        candidates = self._candidates(languages)
        evidence = [language_evidence(text) for text in texts]
        scores = self._probabilities([words for words, _ in evidence], tuple(candidates))
        return _decide([script for _, script in evidence], candidates, scores)

    def match(self, texts: Sequence[str], languages: Collection[str]) -> list[Match]:
        """Compare ``languages`` with all others that the model knows, for each text.

        Raises:
            LanguageError: the model knows none of ``languages``.
        """
        members, known = self._candidates(languages), sorted(self.languages_known)
        matches = [Match(Identification(UNDETERMINED, 0.0), None, 0.0)] * len(texts)
        rows_of: dict[str | None, list[int]] = {}
        words = []
        for row, text in enumerate(texts):
            evidence = language_evidence(text)
            words.append(evidence.words)
            rows_of.setdefault(evidence.script, []).append(row)
        for script, rows in rows_of.items():
            if not any(script in expected_scripts(code) for code in known):
                continue  # no letters, or a script of no known language
            fits = {code: fit for code in known if (fit := _script_fit(code, script)) > _FOREIGN_SCRIPT}
            same_script = [words[row] for row in rows]
            scores = np.maximum(self._probabilities(same_script, tuple(fits)), np.float32(1e-30))
            logits = np.log(scores) + np.array([*fits.values()], dtype=np.float32)
            priors = np.array([self._prior(text) for text in same_script], dtype=np.float32)
            for row, match in zip(
                rows, _matches_from_logits(logits, tuple(fits), members, priors), strict=True
            ):
                matches[row] = match
        return matches

    def _candidates(self, languages: Collection[str] | None) -> list[str]:
        """Return the given languages that the model knows, in the same order."""
        known = self.languages_known
        if languages is None:
            return sorted(known)
        asked = [normalize_code(code) for code in languages]
        if not isinstance(languages, Sequence):
            asked.sort()  # a set's order changes from run to run
        candidates = [code for code in dict.fromkeys(asked) if code in known]
        if not candidates:
            raise LanguageError(
                f"{self._name} cannot identify any of: {', '.join(asked) or 'no languages'}; name the texts' "
                "language with lang=, or use a fastText model that knows it, such as GlotLID's"
            )
        return candidates

    @abstractmethod
    def _probabilities(self, texts: Sequence[str], candidates: tuple[str, ...]) -> NDArray[np.float32]:
        """Return probabilities [texts, candidates], up to a factor for each text."""

    def _prior(self, text: str) -> float:
        """Return the prior log odds of a text being in a language of the hub."""
        return 0.0


class Py3LangidIdentifier(_ModelIdentifier):
    """Identifier by py3langid's naive Bayes model of byte n-grams: 139 languages, no download."""

    def __init__(self) -> None:
        from py3langid.langid import MODEL_FILE
        from py3langid.langid import LanguageIdentifier as Model

        self._model: Any = Model.from_model_file(MODEL_FILE, norm_probs=True)
        super().__init__("py3langid", self._model.labels)
        self._restricted: dict[tuple[str, ...], _Restricted] = {}

    def _prior(self, text: str) -> float:
        # The model divides its log odds by the square root of a text's bytes.
        return _HUB_PRIOR / math.sqrt(len(text.encode("utf-8", "surrogatepass")) + 2)

    def _probabilities(self, texts: Sequence[str], candidates: tuple[str, ...]) -> NDArray[np.float32]:
        model, owners = self._restricted_to(candidates)
        columns = np.zeros((len(texts), len(owners)), dtype=np.float32)
        for row, text in enumerate(texts):
            # Spaces at both ends make the n-grams of word boundaries match a single word: single words of
            # en az kk ky ug uz are identified correctly 89 % of the time with them, 85 % without.
            columns[row] = model._decide(f" {text} ")
        return columns @ owners

    def _restricted_to(self, candidates: tuple[str, ...]) -> _Restricted:
        """Return the model with the candidates' columns only."""
        if candidates not in self._restricted:
            model = copy.copy(self._model)
            model.set_languages([label for label, code in self._code_of.items() if code in candidates])
            # float32, the type of the sums, is a tenth faster; 89 languages would take 36 MB in it.
            dtype = np.float32 if len(candidates) <= _FEW else model.nb_ptc.dtype
            model.nb_ptc = np.ascontiguousarray(model.nb_ptc, dtype=dtype)
            codes = np.array([[self._code_of[label]] for label in model.nb_classes])
            self._restricted[candidates] = model, (codes == np.array(candidates)).astype(np.float32)
        return self._restricted[candidates]


class FastTextIdentifier(_ModelIdentifier):
    """Identifier by a fastText model whose labels name a code and script, such as ``__label__kaz_Cyrl``."""

    def __init__(self, path: str | Path) -> None:
        if not Path(path).is_file():
            raise LanguageError(
                f"{path}: expected a fastText model file (.bin or .ftz), found no file; GlotLID's is "
                "model.bin of https://huggingface.co/cis-lmu/glotlid"
            )
        require_extra("train", "fasttext")
        import fasttext

        try:
            self._model = fasttext.load_model(str(path))
        except ValueError as error:
            raise LanguageError(f"{path}: expected a fastText model, found: {error}") from error
        super().__init__("the fastText model", self._model.get_labels())

    def _probabilities(self, texts: Sequence[str], candidates: tuple[str, ...]) -> NDArray[np.float32]:
        column = {code: position for position, code in enumerate(candidates)}
        scores = np.zeros((len(texts), len(candidates)), dtype=np.float32)
        for row, text in enumerate(texts):
            # The Python wrapper's predict() cannot run under numpy 2; its C++ object can.
            line = " ".join(text.split()) + "\n"
            for probability, label in self._model.f.predict(line, -1, 0.0, "replace"):
                position = column.get(self._code_of.get(label, ""))
                if position is not None:
                    scores[row, position] += probability
        return scores


def get_identifier(spec: str | Path | None = None) -> LanguageIdentifier:
    """Return the identifier for a setting: None or ``py3langid``, or else a fastText file's path.

    Raises:
        LanguageError: there is no such file, or it is no fastText model.
    """
    return _shared_py3langid() if spec in (None, "py3langid") else FastTextIdentifier(spec)


_shared_py3langid = cache(Py3LangidIdentifier)


def _decide(
    scripts: Sequence[str | None], candidates: Sequence[str], scores: NDArray[np.float32]
) -> list[Identification]:
    """Combine a model's probabilities [texts, candidates], up to a factor for each text, with the scripts."""
    if not scripts:
        return []
    scores[[script is None for script in scripts]] = 0.0  # digits say nothing: the first candidate
    fit_of = {script: [_script_fit(code, script) for code in candidates] for script in set(scripts)}
    fits = np.array([fit_of[script] for script in scripts], dtype=np.float32)
    fitting = fits > _FOREIGN_SCRIPT
    logits = np.log(np.maximum(scores, np.float32(1e-30))) + fits
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = weights.max(axis=1, where=fitting, initial=0.0) / weights.sum(axis=1)
    best = np.where(fitting, logits, logits - 1e3).argmax(axis=1)
    return [
        Identification(candidates[position], float(probability))
        for position, probability in zip(best.tolist(), confidence.tolist(), strict=True)
    ]


def _matches_from_logits(
    logits: NDArray[np.float32], codes: Sequence[str], members: Sequence[str], priors: NDArray[np.float32]
) -> list[Match]:
    """Make matches of log odds [texts, codes]; ``priors`` [texts] are added to those of the members."""
    best = logits.argmax(axis=1)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = weights.max(axis=1) / weights.sum(axis=1)
    found = [Identification(codes[at], float(p)) for at, p in zip(best.tolist(), confidence, strict=True)]
    is_member = np.isin(codes, list(members))
    if not is_member.any():
        return [Match(identified, None, 0.0) for identified in found]
    inside = logits[:, is_member] + priors[:, None]
    rival = logits[:, ~is_member].max(axis=1, initial=-np.inf)
    top, inner = inside.max(axis=1), np.array(codes)[is_member]
    whole = np.exp(inside - top[:, None]).sum(axis=1) + np.exp(rival - top)
    return [
        Match(identified, str(inner[at]) if wins else None, float(share))
        for identified, at, wins, share in zip(
            found, inside.argmax(axis=1).tolist(), top > rival, 1.0 / whole, strict=True
        )
    ]


@cache
def _script_fit(code: str, script: str | None) -> float:
    """Return the log odds of a language being written in a script; without letters no script fits."""
    if script is None:
        return _FOREIGN_SCRIPT
    scripts = expected_scripts(code)
    if scripts and script not in scripts:
        return _FOREIGN_SCRIPT
    return 0.0 if not scripts or script in main_scripts(code) else _SECOND_SCRIPT
