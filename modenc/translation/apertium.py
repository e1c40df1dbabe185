"""Rule-based translation by the program Apertium; each of its modes is a direction, such as ``eng-kaz``."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from modenc.errors import DataError, MissingExtraError
from modenc.languages import find_code, normalize_code
from modenc.texts import normalize
from modenc.translation import Translation

_MOST_SHOWN = 500
# A blank line ends a sentence for Apertium, so that no word moves into the next text.
_BETWEEN = "\n\n"
# What means something in Apertium's output is sent as private characters, which every mode copies. So a "*",
# "@" or "#" that comes back marks a word that the analyzer, the bilingual dictionary or the generator does
# not know.
_HIDDEN = {ord(character): 0xF0000 + number for number, character in enumerate("*#@/~^")}
_SHOWN = {hidden: character for character, hidden in _HIDDEN.items()}
_MARKS = re.compile(r"[*#@]+(?=\S)")


class Apertium:
    """One mode of Apertium, between two languages.

    Args:
        source: code of the texts' language, or as the mode has it (``eng``).
        target: code of the translations' language, or as the mode has it (``hbs_HR``).
        folder: folder of a language pair that was built from source (``apertium -d``).

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such mode, or it translates nothing at all.
    """

    def __init__(self, source: str, target: str, folder: Path | None = None) -> None:
        if (program := shutil.which("apertium")) is None:
            raise MissingExtraError(
                "apertium: no such program on PATH; install it with the pair of languages: "
                "apt-get install apertium apertium-eng-spa (apertium.org has others)"
            )
        command = [program] if folder is None else [program, "-d", str(folder.resolve())]
        self.name = _mode(source, target, command)
        self._command = [*command, self.name]
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

    def _run(self, texts: Sequence[str]) -> subprocess.CompletedProcess[str]:
        given = "".join(text.translate(_HIDDEN) + _BETWEEN for text in texts)
        return subprocess.run(
            self._command, input=given, capture_output=True, encoding="utf-8", errors="replace", check=False
        )


def _mode(source: str, target: str, command: Sequence[str]) -> str:
    """Find the mode from one language to another among those of a command."""
    listed = subprocess.run([*command, "-l"], capture_output=True, text=True, errors="replace", check=False)
    modes = sorted({line.strip() for line in listed.stdout.splitlines() if line.strip() and "*" not in line})
    if (name := f"{source}-{target}") in modes:
        return name
    wanted = [normalize_code(source), normalize_code(target)]
    found = [mode for mode in modes if list(map(find_code, mode.split("-"))) == wanted]
    if not found:
        raise DataError(
            f"expected a mode that apertium has ({', '.join(modes) or 'there are none'}), found {name!r}; "
            f"install its pair (apt-get install apertium-{name}), or build it and give --data-dir"
        )
    # A mode of a variant, such as spa-eng_US, is chosen only if there is no other.
    return min(found, key=lambda mode: ("_" in mode, mode))


def _read(answer: str) -> Translation:
    """Read an answer; marks of unknown words are counted and removed."""
    words = [word for word in answer.split() if any(map(str.isalnum, word))]
    marked = sum(bool(_MARKS.search(word)) for word in words)
    shown = _MARKS.sub("", answer).translate(_SHOWN)
    return Translation(normalize(shown), marked / len(words) if words else 0.0)
