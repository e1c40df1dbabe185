"""Outputs of long jobs: one file, or the parts of a folder, which a rerun completes."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from modenc.cli.text_io import STDIN, check_output, source_files
from modenc.errors import DataError, OptionError
from modenc.storage import disk_errors, exclusive_lock, write_atomically

logger = logging.getLogger(__name__)

KEPT = "what was finished before is kept"
"""Part of error messages about failures to write."""
RECORD = ".modenc.json"
"""File in an output folder with the settings that its parts were made with."""


@dataclass(frozen=True)
class Part:
    """An output file, and the rows of the input that it is made of."""

    path: Path
    files: list[str]
    """Input files: one, unless this is the only output file."""
    first: int
    """First row, from 0."""
    rows: int | None
    """Number of rows; None: all of standard input."""

    def is_done(self) -> bool:
        """Say whether the part is there, and not older than its input."""
        newest = max(Path(file).stat().st_mtime for file in self.files)
        return self.path.is_file() and self.path.stat().st_mtime >= newest


def check_place(args: argparse.Namespace, endings: tuple[str, ...]) -> None:
    """Check the output before hours of work; sets ``output`` and ``in_parts``.

    Raises:
        DataError: the output cannot be written, or is the input.
        OptionError: standard input is to be written to a folder.
    """
    word, output = args.output, Path(args.output)
    args.output = output
    args.in_parts = output.is_dir() or word.endswith(("/", os.sep)) or not output.suffix
    if args.in_parts and args.input == STDIN:
        raise OptionError(
            f"--output {output}: expected a file or folder for --input, found -, which a rerun cannot read; "
            f"write to {' or '.join(endings)}"
        )
    if not args.in_parts and output.suffix not in endings:
        raise DataError(
            f"{output}: expected an output ending in {' or '.join(endings)}, or a folder, found "
            f"{output.suffix!r}; rename it, or add / for a folder"
        )
    check_output(output, args.input)


def list_parts(args: argparse.Namespace, ending: str, count: Callable[[str], int]) -> list[Part]:
    """List the output files; all rows are read, so that faults are found before hours of work.

    A single output file is made of all input files. An output folder has for each input file a part for each
    ``--part-size`` rows.

    Args:
        args: the command's arguments, checked by :func:`check_place`.
        ending: that of parts.
        count: checks the rows of a file; returns their number.

    Raises:
        DataError: a file cannot be read.
    """
    files = source_files(args.input)
    if not args.in_parts:
        return [Part(args.output, files, 0, None if args.input == STDIN else sum(map(count, files)))]
    parts = []
    for file in files:
        rows = count(file)
        for number, first in enumerate(range(0, max(1, rows), args.part_size)):
            path = args.output / f"{Path(file).name}-{number:05}{ending}"
            parts.append(Part(path, [file], first, min(args.part_size, rows - first)))
    return parts


@contextmanager
def missing_parts(folder: Path, parts: Sequence[Part], settings: Mapping[str, Any]) -> Iterator[list[Part]]:
    """Lock a folder, remove what a killed process left there, and yield the parts that are to be made.

    Args:
        folder: the output folder; it is made if it is missing.
        parts: its parts, one or more.
        settings: what the parts depend on besides their input, as JSON can hold it.

    Raises:
        DataError: another process writes the folder, it has other files with the parts' ending, or its parts
            were made with other settings.
        StorageError: the disk is full or read-only.
    """
    ending = parts[0].path.suffix
    busy = DataError(f"{folder}: another process writes it; wait until it is done, or write elsewhere")
    with disk_errors(folder, KEPT), exclusive_lock(folder, busy):
        for leftover in folder.glob(f".*.tmp-*{ending}"):
            leftover.unlink(missing_ok=True)
        found = {path for path in folder.glob(f"*{ending}") if path.name[0] not in "._"}
        if others := sorted(path.name for path in found - {part.path for part in parts}):
            raise DataError(
                f"{folder}: expected {ending} files of the present input, found {len(others)} others "
                f"({', '.join(others[:3])}); move them away, or write to another folder"
            )
        if found:
            _check_settings(folder, settings)
        else:
            write_atomically(folder / RECORD, json.dumps(settings, indent=1) + "\n")
        missing = [part for part in parts if not part.is_done()]
        logger.info("%s: %d of %d parts are done", folder, len(parts) - len(missing), len(parts))
        yield missing


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    try:
        found = dict(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        found = {}
    differences = [
        f"{name} {short_repr(found.get(name))} instead of {short_repr(value)}"
        for name, value in settings.items()
        if found.get(name) != value
    ]
    if differences:
        raise DataError(
            f"{folder}: expected parts of the present settings, found {', '.join(differences)}; write to "
            "another folder, or delete the parts to make them again"
        )
