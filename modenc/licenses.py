"""Licenses of texts: which may be trained on, and whether what was made of them may be used commercially."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The prefix of several licenses, as in "mixed: CC-BY-4.0, MIT".
_MIXED = re.compile(r"^\s*mixed\s*:\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
# Licenses that allow commercial use, in any version, and signs of one that does not, as _key() writes them.
_COMMERCIAL = re.compile(
    r"(cc0|cc-by|cc-by-sa|mit|apache|mpl|bsd|isc|odc-by|unlicense)(-v?\d[\w.-]*)?(-licen[sc]e)?"
)
_NOT_COMMERCIAL = re.compile(r"\bnc\b|research|no[nt]-?commercial")


def is_allowed(license_: str, licenses: Sequence[str]) -> bool:
    """Check whether texts under ``license_`` may be trained on; for ``mixed: A, B`` both must be listed.

    Case, spaces and hyphens make no difference. An empty list allows everything.
    """
    if not licenses:
        return True
    allowed = set(map(_key, licenses))
    names = _names(license_)
    # One license's own name may have "and" or a comma in it.
    return _key(license_) in allowed or (bool(names) and names <= allowed)


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


def _names(license_: str) -> set[str]:
    return {_key(name) for name in _BETWEEN.split(_MIXED.sub("", license_)) if name}


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())
