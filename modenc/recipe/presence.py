"""Whether what a recipe names is there: data files, packages with catalogues, the pivot in the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from modenc.recipe.conflicts import Conflict, sources
from modenc.recipe.faults import MOST_FAULTS, Place
from modenc.recipe.settings import LanguagePlan


def absences(plan: LanguagePlan) -> Iterator[Conflict]:
    """Files and packages of one language's sources that are not there."""
    for path, _, source in sources(plan):
        for key in ("path", "pivot_path"):
            name = getattr(source, key)
            if name and "{" not in (filled := fill(name, plan)):
                # Files of a kind differ by the language: another language's is no misspelling.
                must_have = plan.lang if "{lang}" in name else None
                yield from _absent_file((*path, key), filled, plan.data.root, must_have)
        absent = (package for package in source.gettext if not _is_installed(package))
        if missing := list(islice(absent, MOST_FAULTS)):
            names = " ".join(missing)
            message = f"expected installed Python packages, found no {names}; run: pip install {names}"
            yield Conflict((*path, "gettext"), message)


def is_in_hub(hub: Path, lang: str) -> bool:
    """Whether a hub folder already holds a language's modules."""
    return os.path.isfile(hub / lang / "card.json")


def fill(text: str, plan: LanguagePlan) -> str:
    """``text`` with ``{lang}`` and ``{pivot}`` filled in."""
    return text.replace("{lang}", plan.lang).replace("{pivot}", plan.pivot)


def _absent_file(path: Place, name: str, root: Path, must_have: str | None) -> Iterator[Conflict]:
    file = root / os.path.expanduser(name)
    # os.path, for which a name that no system takes is just none that is there.
    if os.path.isfile(file):
        return
    reads: tuple[Place, ...] = (("data", "root"),)
    if not os.path.isdir(root) and not Path(name).is_absolute():
        # One line for the folder instead of one for every file below it.
        message = f"expected a folder, found none at '{root}'; override it with data.root=DIR"
        yield Conflict(("data", "root"), message)
        return
    match = _near_file(file, must_have)
    hint = f"did you mean {match!r}?" if match else f"files are sought below data.root = '{root}'"
    yield Conflict(path, f"expected a file, found none at '{file}'; {hint}", reads)


def _near_file(file: Path, must_have: str | None) -> str | None:
    """A file of the same folder that is probably meant: another ending first, then another spelling.

    ``must_have`` is a word, a language's code, that stands in the name of any file that can be meant.
    """
    names = [entry.name for entry in file.parent.iterdir()] if os.path.isdir(file.parent) else []
    if must_have is not None and must_have in _words(file.name):
        names = [name for name in names if must_have in _words(name)]
    same_stem = [name for name in names if name.split(".")[0] == file.name.split(".")[0]]
    return next(iter(sorted(same_stem) or get_close_matches(file.name, names, n=1, cutoff=0.93)), None)


def _words(name: str) -> list[str]:
    return re.split(r"[^\w]|_", name)


def _is_installed(package: str) -> bool:
    try:
        # Of a name with dots, the packages before the last would be imported. A distribution's may be no
        # identifier, as in scikit-learn.
        if package.isidentifier() and find_spec(package) is not None:
            return True
        return distribution(package) is not None
    except (PackageNotFoundError, ValueError):
        return False
