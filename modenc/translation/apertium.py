"""Rule-based translation by the program Apertium; each of its modes is a direction, such as ``eng-kaz``."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modenc.errors import DataError, MissingExtraError
from modenc.languages import find_code
from modenc.suggest import closest_match
from modenc.translation.apertium_stream import from_stream, to_stream
from modenc.translation.null_flush import NullFlushProgram
from modenc.translation.steps import Translation

SECONDS = 30.0
"""Default time limit for one sentence."""

_DATA = Path("/usr/share/apertium")
_DIGITS = 16


class Apertium:
    """One mode of Apertium.

    Args:
        mode: name of the mode, one of :func:`installed_modes`.
        folder: folder of a language pair that was built from source (``apertium -d``).
        seconds: time limit for one sentence.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such folder or mode.
    """

    def __init__(self, mode: str, folder: Path | None = None, seconds: float = SECONDS) -> None:
        modes = installed_modes(folder)
        if mode not in modes:
            raise DataError(_no_mode(mode, modes, folder))
        self.mode = mode
        self._folder = folder
        # "-f none": Apertium's deformatter would drop the null bytes. The probe is a number, which any mode
        # copies.
        command = [*_command(folder), "-f", "none", "-z", mode]
        self._program = NullFlushProgram(command, seconds, to_stream("1").encode())

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text.

        Raises:
            DataError: the mode translates nothing at all.
        """
        answers = self._program.ask([to_stream(text).encode() for text in texts])
        return [
            Translation("", failed=answer)
            if isinstance(answer, str)
            else from_stream(answer.decode("utf-8", "replace"), text)
            for answer, text in zip(answers, texts, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Describe Apertium's version, the mode, and a fingerprint of the mode's dictionaries and rules."""
        version = re.search(r"\d+(?:\.\d+)+", _output_of([*_command(None), "-V"]))
        return {
            "tool": f"apertium {version.group() if version else 'of unknown version'}",
            "name": self.mode,
            "data": _fingerprint(self.mode, self._folder),
        }


def installed_modes(folder: Path | None = None) -> list[str]:
    """List the installed modes, or the modes of a pair built in ``folder``.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give the folder of a built language pair with --data-dir")
    lines = _output_of([*_command(folder), "-l"]).splitlines()
    return sorted({line.strip() for line in lines if line.strip() and "*" not in line})


def languages_of(mode: str) -> tuple[str, str] | None:
    """Return the normalized codes in a mode's name; None if it does not have two (``eng-kaz-tagger``)."""
    if mode.count("-") != 1:
        return None
    source, target = map(find_code, mode.split("-"))
    return (source, target) if source and target else None


def mode_between(source: str, target: str, folder: Path | None = None) -> str:
    """Find the installed mode that translates between two languages, by normalized codes.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such mode, or there are several.
    """
    modes = installed_modes(folder)
    found = [mode for mode in modes if languages_of(mode) == (source, target)]
    # A mode of a variant, such as spa-eng_US, is chosen only if there is no other.
    found = [mode for mode in found if "_" not in mode] or found
    if len(found) > 1:
        raise DataError(f"several modes from {source} to {target} ({', '.join(found)}); name one with --mode")
    if not found:
        raise DataError(_no_mode(f"{source}-{target}", modes, folder))
    return found[0]


def _no_mode(mode: str, modes: Sequence[str], folder: Path | None) -> str:
    near = closest_match(mode, modes)
    meant = f"did you mean {near!r}? Or " if near else ""
    hint = f"install its pair (apt-get install apertium-{mode}), or build it and give --data-dir"
    if folder is not None:
        hint = "build the pair (make), or give another folder"
    return (
        f"expected a mode that apertium has ({', '.join(modes) or 'there are none'}), found {mode!r}; "
        f"{meant}{hint}"
    )


def _command(folder: Path | None) -> list[str]:
    if (program := shutil.which("apertium")) is None:
        raise MissingExtraError(
            "apertium: no such program on PATH; install it with the pair of languages: "
            "apt-get install apertium apertium-eng-spa (apertium.org has others)"
        )
    return [program] if folder is None else [program, "-d", str(folder.resolve())]


def _output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout


def _fingerprint(mode: str, folder: Path | None) -> str:
    """Compute a fingerprint of the files in a mode's pipeline; empty if the mode's file is not found."""
    data = folder or Path(os.environ.get("APERTIUM_DATADIR", _DATA))
    path = data / "modes" / f"{mode}.mode"
    if not path.is_file():
        return ""
    pipeline = path.read_text(encoding="utf-8", errors="replace")
    hasher = hashlib.sha256(re.sub(r"'[^']*/", "'", pipeline).encode())
    for name in re.findall(r"'([^']+)'", pipeline):
        if (file := Path(name)).is_file():
            hasher.update(file.read_bytes())
    return hasher.hexdigest()[:_DIGITS]
