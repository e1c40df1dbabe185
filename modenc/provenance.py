"""Names of licenses, and records beside files that ``modenc translate`` wrote: translator and license.

``kk.tsv.translation.json`` is beside ``kk.tsv``. A recipe that names the file takes the license from it, and
the cards of modules trained on it the translator.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from modenc.storage import disk_errors, write_atomically

logger = logging.getLogger(__name__)

_ENDING = ".translation.json"
_PACKED = (".gz", ".zst")
_MOST_BYTES = 1 << 20
_TEXTS = ("translator", "license", "text", "source", "target")
# The prefix of several licenses, as in "mixed: CC-BY-4.0, MIT".
_MIXED = re.compile(r"^\s*mixed\s*:\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
# Licenses that allow commercial use, in any version, and signs of one that does not, as _key() writes them.
_COMMERCIAL = re.compile(
    r"(cc0|cc-by|cc-by-sa|mit|apache|mpl|bsd|isc|odc-by|unlicense)(-v?\d[\w.-]*)?(-licen[sc]e)?"
)
_NOT_COMMERCIAL = re.compile(r"\bnc\b|research|no[nt]-?commercial")


@dataclass(frozen=True)
class TranslationRecord:
    """Record of how a file of translations was made."""

    translator: str
    """Tools with their versions, and modes or models: ``apertium 3.8.3 (eng-kaz)``.

    If the source was a translation itself, its translator comes first (``…, then …``).
    """
    license: str
    """License of the source text; empty if it was not stated."""
    text: str
    """File name of the source text."""
    source: str
    """Code of the source language."""
    target: str
    """Code of the target language."""
    made_by: str
    """Version of modenc."""
    steps: list[dict[str, Any]]
    """Description of each step by its engine, with the source's own steps first."""
    columns: list[str]
    """Translated columns."""
    filters: dict[str, Any]
    """Conditions for keeping a row."""
    counts: dict[str, Any]
    """Counts of kept and removed rows."""
    input: dict[str, Any] = field(default_factory=dict)
    """Rows, and size and time of the source file, by which a rerun knows them."""


def record_path(path: Path) -> Path:
    """Return the path of a file's record."""
    return path.with_name(f"{path.name}{_ENDING}")


def write_record(path: Path, record: TranslationRecord) -> None:
    """Write the record of a file.

    Raises:
        StorageError: the disk is full or read-only.
    """
    place = record_path(path)
    with disk_errors(place, "what was finished before is kept"):
        write_atomically(place, json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")


def read_record(path: Path) -> TranslationRecord | None:
    """Read the record of a file; returns None if it has none or, with a warning, a damaged one.

    A compressed file (``kk.tsv.gz``) may have the record of the name without the ending. Fields that a later
    version of modenc adds are ignored.
    """
    place = record_path(path)
    try:
        if not place.is_file() and path.suffix in _PACKED:
            place = record_path(path.with_suffix(""))
        if not place.is_file():
            return None
        with place.open("rb") as stream:
            content = json.loads(stream.read(_MOST_BYTES))
        if not all(isinstance(content[key], str) for key in _TEXTS):
            raise TypeError("expected texts")
        known = {key.name for key in fields(TranslationRecord)}
        return TranslationRecord(**{key: value for key, value in content.items() if key in known})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        logger.warning(
            "%s: not what modenc translate writes (%s), and ignored; translate again, or state the source's "
            "license in the recipe",
            place,
            error,
        )
        return None


def is_allowed(license_: str, licenses: Sequence[str]) -> bool:
    """Check whether texts under ``license_`` may be trained on; for ``mixed: A, B`` both must be listed.

    Case, spaces and hyphens make no difference. An empty list allows everything.
    """
    if not licenses:
        return True
    allowed = set(map(_key, licenses))
    names = _names(license_)
    # One license's own name may have "and" or a comma in it.
    return _key(license_) in allowed or (bool(names) and names.keys() <= allowed)


def joint_license(licenses: Sequence[str]) -> str:
    """Join the licenses of several files: ``mixed: A, B`` if they differ, empty if one is not stated."""
    if not all(licenses):
        return ""
    if len(set(map(_key, licenses))) <= 1:
        return licenses[0] if licenses else ""
    names: dict[str, str] = {}
    for license_ in licenses:
        names = {**names, **_names(license_), **names}
    return f"mixed: {', '.join(names.values())}"


def commercial_use(licenses: Iterable[str]) -> str:
    """Say whether what was made of texts may be used commercially: ``yes``, ``no`` or ``unknown``.

    ``yes`` if all licenses are known to allow it, ``no`` if one says that it does not. No legal advice: terms
    such as naming the authors and sharing alike remain.
    """
    # Cards come from anyone, and a long run of blanks takes long to split.
    stated = [" ".join(license_.split()) for license_ in licenses]
    if any(map(_NOT_COMMERCIAL.search, map(_key, stated))):
        return "no"
    known = (bool(names) and all(map(_COMMERCIAL.fullmatch, names)) for names in map(_names, stated))
    return "yes" if stated and all(known) else "unknown"


def _names(license_: str) -> dict[str, str]:
    return {_key(name): name for name in _BETWEEN.split(_MIXED.sub("", license_)) if name}


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())
