"""Whether a hub's files are what their cards say, whole, and fit for its base."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from modenc.errors import HubError, LanguageError
from modenc.hub.atomic_folder import STAGING_FOLDER
from modenc.hub.checks.folder import PICKLES, Problem
from modenc.hub.files import files_below
from modenc.hub.layout import CARD_FILE
from modenc.hub.reader import read_language
from modenc.hub.st_files import POOLING_FOLDER, sentence_transformers_faults
from modenc.hub.store import Hub
from modenc.languages import normalize_code


def verify_hub(hub: Hub, lang: str | None = None, base_fingerprint: str | None = None) -> list[Problem]:
    """Recompute every checksum and check every part; an empty list means that all is well.

    Args:
        hub: The hub.
        lang: Check this language alone.
        base_fingerprint: Fingerprint of the base at hand, where it should be checked too.

    Raises:
        HubError: the hub lacks the language ``lang``.
    """
    problems: list[Problem] = []
    if base_fingerprint is not None and base_fingerprint != hub.info.base_fingerprint:
        message = f"expected the base {hub.info.base_fingerprint}, found {base_fingerprint}"
        problems.append(Problem(None, "hub.json", message))
    if lang is not None:
        hub.layout(lang)
    else:
        problems += _root_problems(hub.path, hub.languages())
        root_faults = sentence_transformers_faults(hub.path, hub.info)
        problems += [Problem(None, name, message) for name, message in root_faults]
    for code in hub.languages() if lang is None else [normalize_code(lang)]:
        try:
            layout, card = hub.layout(code), hub.card(code)
        except (HubError, LanguageError) as error:
            problems.append(Problem(code, CARD_FILE, str(error)))
            continue
        _, found = read_language(layout, card, hub.info, code)
        problems += [replace(problem, lang=code) for problem in found]
    return problems


def _root_problems(root: Path, languages: list[str]) -> Iterator[Problem]:
    """Things in the hub's own folder that do not belong there."""
    for path in sorted(root.iterdir()):
        name = path.name
        if STAGING_FOLDER.fullmatch(name) or name in (POOLING_FOLDER, *languages):
            continue
        if name.startswith("."):
            # Other programs keep files here, such as a download's cache; only code is reported.
            yield from _code_in(path, name)
        elif (path / CARD_FILE).is_file():
            yield Problem(name, None, _misnamed(name))
        elif path.is_dir():
            yield Problem(None, name, f"expected a language's folder, found one without {CARD_FILE}")
        elif path.suffix.lower() in PICKLES:
            yield from _code_in(path, name)
        elif name == "adapter_config.json":
            message = "sentence-transformers would take the hub for a peft adapter; delete it"
            yield Problem(None, name, message)
    # Not Path.resolve, which raises where a link leads to itself.
    yield from _code_in(Path(os.path.realpath(root / POOLING_FOLDER)), POOLING_FOLDER)


def _code_in(path: Path, name: str) -> Iterator[Problem]:
    """Files that can run code: ``path`` itself, or those below it; a link is not followed."""
    files = [(name, path)]
    if path.is_dir() and not path.is_symlink():
        try:
            files = [(f"{name}/{below}", file) for below, file in files_below(path)]
        except HubError as error:
            yield Problem(None, name, str(error))
            return
    for found, file in files:
        if file.suffix.lower() in PICKLES:
            yield Problem(None, found, "found a format that can run code; delete it")


def _misnamed(name: str) -> str:
    try:
        return f"expected the folder {normalize_code(name)}; rename it"
    except LanguageError as error:
        return f"no language's folder ({error}); move it out of the hub, or rename it"
