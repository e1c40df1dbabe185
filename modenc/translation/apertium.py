"""Rule-based translation by the program Apertium; each of its modes is a direction, such as ``eng-kaz``."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from modenc.errors import DataError, MissingExtraError
from modenc.languages import find_code, normalize_code
from modenc.suggest import closest_match
from modenc.texts import normalize
from modenc.translation import Chain, Translation

_MOST_SHOWN = 500
# A blank line ends a sentence for Apertium, so that no word moves into the next text.
_BETWEEN = "\n\n"
# What means something in Apertium's output is sent as private characters, which every mode copies. So a "*",
# "@" or "#" that comes back marks a word that the analyzer, the bilingual dictionary or the generator does
# not know, and a "/" separates alternatives.
_HIDDEN = {ord(character): 0xF0000 + number for number, character in enumerate("*#@/~^")}
_SHOWN = {hidden: character for character, hidden in _HIDDEN.items()}
_MARKS = re.compile(r"[*#@]+(?=\S)")
_ALTERNATIVES = re.compile(r"([^\s/]+)(?:/[^\s/]+)+")


class Apertium:
    """One mode of Apertium.

    Args:
        mode: name of the mode, one of :func:`installed_modes`.
        folder: folder of a language pair that was built from source (``apertium -d``).

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such folder or mode, or the mode translates nothing at all.
    """

    def __init__(self, mode: str, folder: Path | None = None) -> None:
        modes = installed_modes(folder)
        if mode not in modes:
            raise DataError(_no_mode(mode, modes, folder))
        self.mode = mode
        version = re.search(r"\d+(?:\.\d+)+", _output_of([*_command(None), "-V"]))
        self._version = version.group() if version else "of unknown version"
        self._command = [*_command(folder), mode]
        # A number, which any mode copies.
        done = self._run(["1"])
        if not done.stdout.strip():
            output = " ".join(done.stderr.split())[-_MOST_SHOWN:] or "nothing"
            raise DataError(
                f"{' '.join(self._command)}: expected translations, found none; its error output: {output}"
            )

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text; one that makes the program fail costs no other its translation."""
        done = self._run(texts)
        # Where a program of its pipeline crashes, the output ends early.
        *answers, rest = done.stdout.split(_BETWEEN)
        if done.returncode == 0 and len(answers) == len(texts) and not rest:
            return [_read(answer) for answer in answers]
        if len(texts) == 1:
            return [Translation("", failed=True)]
        half = len(texts) // 2
        return self.translate(texts[:half]) + self.translate(texts[half:])

    def describe(self) -> dict[str, Any]:
        """Describe Apertium's version and the mode."""
        return {"tool": f"apertium {self._version}", "name": self.mode}

    def _run(self, texts: Sequence[str]) -> subprocess.CompletedProcess[str]:
        given = "".join(text.translate(_HIDDEN) + _BETWEEN for text in texts)
        return subprocess.run(
            self._command, input=given, capture_output=True, encoding="utf-8", errors="replace", check=False
        )


def apertium_chain(languages: Sequence[str], modes: Sequence[str], folder: Path | None) -> Chain:
    """Make a chain of Apertium's modes.

    Args:
        languages: all languages of the chain, two or more.
        modes: a mode for each step; if empty, the installed modes between the languages.
        folder: folder of a language pair that was built from source.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such folder or mode, or the number of modes is wrong.
    """
    steps = list(pairwise(map(normalize_code, languages)))
    if not modes:
        modes = [mode_between(source, target, folder) for source, target in steps]
    if len(modes) != len(steps):
        raise DataError(f"expected a --mode for each of the {len(steps)} steps, found {len(modes)}")
    return Chain(tuple(Apertium(mode, folder) for mode in modes))


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


def mode_between(source: str, target: str, folder: Path | None = None) -> str:
    """Find the installed mode that translates between two languages, by normalized codes.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such mode, or there are several.
    """
    modes = installed_modes(folder)
    found = [mode for mode in modes if [find_code(code) for code in mode.split("-")] == [source, target]]
    # A mode of a variant, such as spa-eng_US, is chosen only if there is no other.
    found = [mode for mode in found if "_" not in mode] or found
    if len(found) > 1:
        raise DataError(f"several modes from {source} to {target} ({', '.join(found)}); name one with --mode")
    if not found:
        raise DataError(_no_mode(f"{source}-{target}", modes, folder))
    return found[0]


def _read(answer: str) -> Translation:
    """Read an answer: marks of unknown words are counted and removed, the first alternative is chosen."""
    chosen = _ALTERNATIVES.sub(r"\1", answer)
    words = [word for word in chosen.split() if any(map(str.isalnum, word))]
    marked = sum(bool(_MARKS.search(word)) for word in words)
    shown = _MARKS.sub("", chosen).translate(_SHOWN)
    return Translation(normalize(shown), marked / len(words) if words else 0.0)


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
