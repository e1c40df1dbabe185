"""Identification of each text's language, among all that a model knows and among a hub's.

A model knows a hundred or more languages and errs on short texts. The script, and a prior for the languages
of a hub, narrow its choice. The script of a text's words (:func:`language_evidence`) decides first: if any
language is written in it, the text is identified as one that is.
"""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import regex
from langcodes import Language
from langcodes.data_dicts import ALL_SCRIPTS, LIKELY_SUBTAGS
from numpy.typing import NDArray

from modenc.errors import LanguageError, require_extra
from modenc.languages import find_code, normalize_code, script_of_code

# Log odds. Uzbek is written in Cyrillic too, but of two Cyrillic words among en az kk ky ug uz Kyrgyz
# is identified correctly 91 % of the time with these odds against a second script, 82 % without.
_SECOND_SCRIPT = -2.0
_FOREIGN_SCRIPT = -1000.0

# Log odds, in nats, of a text being in a language of the hub. With 13, at most 0.2 % of the texts of each of
# six languages that are identified correctly among the six are taken for another language that py3langid
# knows, and 98.5 % of sentences in other languages (87 % of Tatoeba's Turkish ones) are kept out of the hub
# (first halves of the files of benchmarks/language_identification.py). With 10: 1.9 % of Uzbek, 99.1 %, 92 %.
_HUB_PRIOR = 13.0

UNDETERMINED = "und"
"""ISO 639's code for a text without letters, or without those of a known script."""

# Characters of a text that are read for its language.
_READ = 100_000
# Characters of them that are kept, after what is no evidence was left out.
_KEPT = 2000

# Each starts where no other of its kind can, or reads to the end, so that no text takes quadratic time.
_CODE = r"(?P<fence>```|~~~).*?(?P=fence)|(?<!\w)`[^`\n]+`(?!\w)"  # not Uzbek's o`zbek go`zal
_MARKUP = r"<(?P<tag>script|style)\b.*?(?:</(?P=tag)|\Z)|<!--.*?(?:-->|\Z)|</?[a-z!][^<>]*>|&#?\w{1,31};"
_IN_LINK = r"[!#-;=?-~]"  # printable ASCII but for quotes and <>: Chinese goes on without a blank
_LINK = rf"\b[a-z]{{2,10}}://{_IN_LINK}+|\bwww\.{_IN_LINK}+"
_EMAIL = r"(?<![a-z0-9_.+-])[a-z0-9_.+-]+@[a-z0-9.-]+"
_HOST = rf"(?<![a-z0-9.-])(?:[a-z0-9-]+\.)+(?-i:[a-z]{{2,}})(?![a-z0-9])(?:/{_IN_LINK}*)?"
_TAG = r"(?<!\w)[@#]\w+"  # @name, #tag
_PROMPT = r"\A\s*(?:query|passage)\s*:"  # e5's
_NO_WORDS = re.compile(
    "|".join([_PROMPT, _CODE, _MARKUP, _LINK, _EMAIL, _HOST, _TAG, r"\d+"]), re.IGNORECASE | re.DOTALL
)
_GAP = re.compile(r"[\W_]{5,}")  # what is left between them

# Names and terms in Latin script are found in texts of any script. So capitalized Latin words say nothing
# beside another script, and a letter of that, perhaps a syllable or word, counts as several Latin ones.
_CAPITALIZED = re.compile(r"(?<![a-z])[A-Z][A-Za-z]*")
_JAPANESE = ("Hani", "Hira", "Kana")  # written together
_WEIGHTS = {"Latn": 1.0, "Cyrl": 1.5, "Grek": 1.5, **dict.fromkeys(_JAPANESE, 5.0)}
_OTHER = 3.0

# Codes of writing systems that mix several Unicode scripts or narrow one down.
_WRITING_SYSTEMS: dict[str, frozenset[str]] = {
    "Hans": frozenset({"Hani"}),
    "Hant": frozenset({"Hani"}),
    "Jpan": frozenset({"Hira", "Kana", "Hani"}),
    "Kore": frozenset({"Hang", "Hani"}),
}

# Languages in daily use in more scripts than CLDR's likely one.
_SEVERAL_SCRIPTS: dict[str, frozenset[str]] = {
    "bs": frozenset({"Latn", "Cyrl"}),
    "crh": frozenset({"Latn", "Cyrl"}),
    "ks": frozenset({"Arab", "Deva"}),
    "ku": frozenset({"Latn", "Arab"}),
    "mn": frozenset({"Cyrl", "Mong"}),
    "pa": frozenset({"Guru", "Arab"}),
    "sd": frozenset({"Arab", "Deva"}),
    "sr": frozenset({"Cyrl", "Latn"}),
    "uz": frozenset({"Latn", "Cyrl"}),
}

Floats = NDArray[np.float32]


class Evidence(NamedTuple):
    """Words that tell a text's language, and the ISO 15924 code of their script; None without letters."""

    words: str
    script: str | None


@dataclass(frozen=True)
class Identification:
    """The identified language of a text, and whose modules encode it."""

    code: str
    """Likeliest of all languages that the model knows, those of the hub with a prior; :data:`UNDETERMINED`
    without letters of a known script."""
    confidence: float
    """Probability of ``code``, 0 to 1, among the hub's languages and the likeliest other one; 0 if
    undetermined. ``min_confidence`` is compared with it."""
    modules: str | None = None
    """Code of the language whose modules encode the text, or ``base``. None: ``code`` is no language of the
    hub, or not sure enough, and the fallback ``error`` refuses the text. A text without letters goes to the
    pivot."""


class LanguageIdentifier(ABC):
    """Identifier that combines a model's probabilities, the scripts, and a prior for a hub's languages."""

    def __init__(self, name: str, labels: Iterable[str]) -> None:
        self._name = name  # in messages
        # Labels that are no language, such as zxx, are left out.
        codes = {label: find_code(label.removeprefix("__label__")) for label in labels}
        self._code_of = {label: code for label, code in codes.items() if code is not None}
        self._known = sorted({*self._code_of.values()})
        self._script_odds = [expected_scripts(code) for code in self._known]
        self._scripts = frozenset[str]().union(*self._script_odds)

    @property
    def languages_known(self) -> frozenset[str]:
        """Normalized codes of the languages that the model can identify."""
        return frozenset(self._known)

    def identify(self, texts: Sequence[str]) -> list[Identification]:
        """Identify the likeliest of all known languages for each text."""
        return self.match(texts, self._known)

    def match(
        self, texts: Sequence[str], languages: Sequence[str], min_confidence: float = 0.0
    ) -> list[Identification]:
        """Compare ``languages`` with all others that the model knows, for each text; equal texts once.

        Returns:
            Identifications whose ``modules`` are the ``code`` if that is one of ``languages`` and its
            confidence not less than ``min_confidence``; the first of ``languages`` for a text
            without letters.

        Raises:
            LanguageError: the model knows none of ``languages``.
        """
        members = np.isin(self._known, list(languages))
        if not members.any():
            raise LanguageError(
                f"{self._name} cannot identify any of: {', '.join(languages)}; name the texts' language with "
                "lang=, or use a fastText model that knows it, such as GlotLID's"
            )
        evidence = {text: language_evidence(text) for text in dict.fromkeys(texts)}
        words = [each.words for each in evidence.values()]
        scores = np.maximum(self._probabilities(words), np.float32(1e-30))
        found: dict[str, Identification] = {}
        for (text, (kept, script)), logits in zip(evidence.items(), np.log(scores), strict=True):
            if script is None or script not in self._scripts:
                found[text] = Identification(UNDETERMINED, 0.0, languages[0] if script is None else None)
                continue
            logits += [odds.get(script, _FOREIGN_SCRIPT) if odds else 0.0 for odds in self._script_odds]
            logits[members] += self._prior(kept)
            best, rival = logits.argmax(), logits[~members].max(initial=-np.inf)
            compared = np.logaddexp(np.logaddexp.reduce(logits[members]), rival)
            confidence = float(np.exp(logits[best] - compared))
            sure = members[best] and confidence >= min_confidence
            code = self._known[best]
            found[text] = Identification(code, confidence, code if sure else None)
        return [found[text] for text in texts]

    @abstractmethod
    def _probabilities(self, texts: Sequence[str]) -> Floats:
        """Return probabilities [texts, known languages]."""

    def _prior(self, text: str) -> float:
        """Return the prior log odds of a text being in a language of the hub."""
        return 0.0


class Py3LangidIdentifier(LanguageIdentifier):
    """Identifier by py3langid's naive Bayes model of byte n-grams: 139 languages, no download."""

    def __init__(self) -> None:
        from py3langid.langid import MODEL_FILE
        from py3langid.langid import LanguageIdentifier as Model

        self._model: Any = Model.from_model_file(MODEL_FILE, norm_probs=True)
        super().__init__("py3langid", self._model.labels)
        codes = np.array([[self._code_of.get(label, "")] for label in self._model.nb_classes])
        # Several classes may be of one language.
        self._owners = (codes == np.array(self._known)).astype(np.float32)

    def _prior(self, text: str) -> float:
        # The model divides its log odds by the square root of a text's bytes.
        return _HUB_PRIOR / math.sqrt(len(text.encode("utf-8", "surrogatepass")) + 2)

    def _probabilities(self, texts: Sequence[str]) -> Floats:
        classes = np.zeros((len(texts), len(self._owners)), dtype=np.float32)
        for row, text in enumerate(texts):
            # Spaces at both ends make the n-grams of word boundaries match a single word: single words of
            # en az kk ky ug uz are identified correctly 89 % of the time with them, 85 % without.
            classes[row] = self._model._decide(f" {text} ")
        scores: Floats = classes @ self._owners
        return scores


class FastTextIdentifier(LanguageIdentifier):
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

    def _probabilities(self, texts: Sequence[str]) -> Floats:
        column = {label: self._known.index(code) for label, code in self._code_of.items()}
        scores = np.zeros((len(texts), len(self._known)), dtype=np.float32)
        for row, text in enumerate(texts):
            # The Python wrapper's predict() cannot run under numpy 2; its C++ object can.
            line = " ".join(text.split()) + "\n"
            for probability, label in self._model.f.predict(line, -1, 0.0, "replace"):
                if label in column:
                    scores[row, column[label]] += probability
        return scores


def get_identifier(spec: LanguageIdentifier | str | Path | None = None) -> LanguageIdentifier:
    """Return ``spec`` itself if it is an identifier, py3langid for None, or the fastText model in that file.

    Raises:
        LanguageError: there is no such file, or it is no fastText model.
    """
    if isinstance(spec, LanguageIdentifier):
        return spec
    if not isinstance(spec, str | Path | None):
        raise LanguageError(
            f"identifier: expected a fastText file or None, found {type(spec).__name__}; give languages that "
            "another program identifies as lang="
        )
    return _shared_py3langid() if spec is None else FastTextIdentifier(spec)


_shared_py3langid = cache(Py3LangidIdentifier)


@lru_cache(maxsize=1024)
def expected_scripts(code: str) -> dict[str, float]:
    """Return the Unicode scripts that a language is usually written in, each with log odds.

    Codes of scripts are ISO 15924's. The main one has 0; a second one less: ``uz`` gives ``Latn`` 0 and
    ``Cyrl`` -2. A script given in the code itself is the only one expected: ``uz_Cyrl`` gives ``Cyrl``.
    Composite writing systems are split into what letters can be: ``ja`` gives ``Hira``, ``Kana`` and
    ``Hani``. Empty where no script is known.

    Raises:
        LanguageError: ``code`` names no language.
    """
    language = normalize_code(code)
    script, several = script_of_code(code), frozenset[str]()
    if script is None:
        several = _SEVERAL_SCRIPTS.get(language, several)
        # langcodes falls back to Latin for languages that are not in CLDR.
        script = Language.get(language).maximize().script if language in LIKELY_SUBTAGS else None
    main = _WRITING_SYSTEMS.get(script, frozenset({script})) if script else ()
    return dict.fromkeys(several, _SECOND_SCRIPT) | dict.fromkeys(main, 0.0)


def language_evidence(text: str) -> Evidence:
    """Return the words that tell a text's language, and their script.

    Left out are links, e-mail addresses, markup, code, @names, #tags, numbers, e5's prompts, and the words of
    all scripts but the main one. Compatibility characters, such as full-width letters, are read as tokenizers
    do (NFKC).
    """
    text = unicodedata.normalize("NFKC", text[:_READ])[:_READ]
    text = _GAP.sub(" ", _NO_WORDS.sub(" ", text))[:_KEPT]
    letters = _letters(text)
    if not letters:
        return Evidence("", None)
    counted = _letters(_CAPITALIZED.sub("", text)) or letters
    script = max(counted, key=lambda name: counted[name] * _WEIGHTS.get(name, _OTHER))
    kept = _JAPANESE if script in _JAPANESE else (script,)
    if not letters.keys() <= set(kept):
        text = "".join(c if script_of_letter(c) in (None, *kept) else " " for c in text)
    return Evidence(text, script)


def _letters(text: str) -> Counter[str]:
    """Count the letters of each script."""
    found: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if (script := script_of_letter(character)) is not None:
            found[script] += count
    return found


@lru_cache(maxsize=65536)
def script_of_letter(character: str) -> str | None:
    """Return the ISO 15924 code of a letter's script; None for other characters.

    None, too, for letters that all scripts share (``ʻ``, ``ー``).
    """
    if not character.isalpha():
        return None
    match = _script_pattern().match(character)
    return match.lastgroup if match else None


@cache
def _script_pattern() -> regex.Pattern[str]:
    """Return a pattern for one letter; the name of the matching group is its script's code."""
    groups = []
    for script in sorted(ALL_SCRIPTS - {"Zyyy", "Zinh", "Zzzz", "Qaai"}):
        group = rf"(?P<{script}>\p{{Script={script}}})"
        with suppress(regex.error):  # an ISO 15924 code that is no Unicode script, such as Jpan
            regex.compile(group)
            groups.append(group)
    return regex.compile("|".join(groups))
