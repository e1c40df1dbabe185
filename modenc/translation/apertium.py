"""Translation by rules: apertium, a program beside modenc, and its modes (``eng-kaz``)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from modenc.errors import DataError, LanguageError, MissingExtraError
from modenc.languages import normalize_code
from modenc.translation.answering import AnsweringProgram
from modenc.translation.apertium_stream import from_stream, to_stream
from modenc.translation.steps import Translated

SECONDS = 30.0
"""That one sentence may take, if not told otherwise."""

_PROGRAM = "apertium"
_SECONDS_TO_LIST = 60.0
_DATA = Path("/usr/share/apertium")
_DIGITS = 16
# Every mode passes a number on.
_PROBE = "1"


class Apertium:
    """One mode of apertium.

    Args:
        mode: such as ``eng-kaz``; :func:`installed_modes` has those that there are.
        folder: of a pair that was built, not installed (``apertium -d``).
        seconds: that one sentence may take.

    Raises:
        MissingExtraError: there is no apertium.
        DataError: there is no such folder or mode.
    """

    def __init__(self, mode: str, folder: Path | None = None, seconds: float = SECONDS) -> None:
        modes = installed_modes(folder)
        if mode not in modes:
            raise DataError(_no_mode(mode, modes, folder))
        self.mode = mode
        self._folder = folder
        # Deformatted here, since apertium's own deformatter drops the null bytes.
        command = [*_command(folder), "-f", "none", "-z", mode]
        self._program = AnsweringProgram(command, seconds, to_stream(_PROBE).encode("utf-8"))

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text.

        Raises:
            DataError: the mode has never translated anything.
        """
        answers = self._program.ask([to_stream(text).encode("utf-8") for text in texts])
        return [
            Translated("", failed=answer)
            if isinstance(answer, str)
            else from_stream(answer.decode("utf-8", "replace"), text)
            for answer, text in zip(answers, texts, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Apertium's version, the mode, and a digest of the mode's dictionaries and rules."""
        return {"tool": f"apertium {_version()}", "name": self.mode, "data": _digest(self.mode, self._folder)}


def installed_modes(folder: Path | None = None) -> list[str]:
    """The modes of apertium's own folder, or of a built pair's.

    Raises:
        MissingExtraError: there is no apertium.
        DataError: there is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give --data-dir the folder of a pair that was built")
    done = _run([*_command(folder), "-l"])
    return sorted({line.strip() for line in done.splitlines() if line.strip() and "*" not in line})


def languages_of(mode: str) -> tuple[str, str] | None:
    """The normalised codes that a mode's name states; None where it states none (``eng-kaz-tagger``)."""
    parts = mode.split("-")
    if len(parts) != 2:
        return None
    try:
        source, target = map(normalize_code, parts)
    except LanguageError:
        return None
    return source, target


def mode_between(source: str, target: str, modes: Sequence[str], folder: Path | None = None) -> str:
    """The one of the installed modes that translates between two languages, by normalised codes.

    Raises:
        DataError: there is none, or there are several.
    """
    found = [mode for mode in modes if languages_of(mode) == (source, target)]
    # Those with a variant, such as spa-eng_US, are for whom they are named by.
    found = [mode for mode in found if "_" not in mode] or found
    if len(found) > 1:
        raise DataError(f"several modes from {source} to {target} ({', '.join(found)}); name one with --mode")
    if not found:
        raise DataError(_no_mode(f"{source}-{target}", modes, folder))
    return found[0]


def _no_mode(mode: str, modes: Sequence[str], folder: Path | None) -> str:
    near = get_close_matches(mode, modes, n=1, cutoff=0.6)
    if folder is not None:
        hint = "build the pair (make), or give another folder"
    else:
        hint = f"install its pair (apt-get install apertium-{mode}), or build it and give --data-dir"
    meant = f"did you mean {near[0]!r}? Or " if near else ""
    return (
        f"expected a mode that apertium has ({', '.join(modes) or 'there are none'}), found {mode!r}; "
        f"{meant}{hint}"
    )


def _command(folder: Path | None) -> list[str]:
    if (found := shutil.which(_PROGRAM)) is None:
        raise MissingExtraError(
            "apertium: no such program on PATH; install it with the pair of languages: "
            "apt-get install apertium apertium-eng-spa (apertium.org has others)"
        )
    return [found] if folder is None else [found, "-d", str(folder.resolve())]


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS_TO_LIST, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(
            f"{' '.join(command)}: no answer within {_SECONDS_TO_LIST:g} s; check the installation"
        ) from error
    return done.stdout


def _version() -> str:
    found = re.search(r"\d+(?:\.\d+)+", _run([*_command(None), "-V"]))
    return found.group() if found else "of unknown version"


def _digest(mode: str, folder: Path | None) -> str:
    """Of the files that a mode's pipeline names; of none where these are not found."""
    data = folder or Path(os.environ.get("APERTIUM_DATADIR", _DATA))
    path = data / "modes" / f"{mode}.mode"
    if not path.is_file():
        return ""
    pipeline = path.read_text(encoding="utf-8", errors="replace")
    digest = hashlib.sha256(re.sub(r"'[^']*/", "'", pipeline).encode())
    for name in re.findall(r"'([^']+)'", pipeline):
        if (file := Path(name)).is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:_DIGITS]
