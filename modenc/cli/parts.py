"""Outputs of long jobs: one file, or the parts of a folder, which a rerun completes."""

from __future__ import annotations

import argparse
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
from modenc.storage import disk_errors, exclusive_lock

logger = logging.getLogger(__name__)

KEPT = "what was finished before is kept"
"""Part of error messages about failures to write."""


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
    made_of: dict[str, Any]
    """What a rerun compares: the rows, the state of the files before they were counted, and settings."""

    def input(self) -> dict[str, Any]:
        """Return what :attr:`made_of` has under ``input``, as the files are now."""
        return _input(_states(self.files), self.first, self.rows)

    def difference(self, found: Mapping[str, Any]) -> str:
        """Say in a message what differs from :attr:`made_of`; nothing if nothing does."""
        pairs = ((name, found.get(name), value) for name, value in self.made_of.items())
        return ", ".join(
            f"{name} {short_repr(there)} instead of {short_repr(value)}"
            for name, there, value in pairs
            if there != value
        )


def check_place(args: argparse.Namespace, endings: tuple[str, ...], part_size: int) -> None:
    """Check the output before hours of work; sets ``output``, ``in_parts``, and ``part_size`` if it is None.

    Raises:
        DataError: the output cannot be written, or is the input.
        OptionError: an option is given that changes nothing.
    """
    word, source, output = args.output, Path(args.input), Path(args.output)
    args.output = output
    args.in_parts = output.is_dir() or word.endswith(("/", os.sep)) or not output.suffix
    if not args.in_parts:
        if not output.name.endswith(endings):
            raise DataError(
                f"{output}: expected an output ending in {' or '.join(endings)}, or a folder, found "
                f"{output.suffix!r}; rename it, or add / for a folder"
            )
        check_output(output, args.input)
    elif args.input == STDIN:
        raise OptionError(
            f"--output {output}: expected a file or folder for --input, found -, which a rerun cannot read; "
            f"write to {' or '.join(endings)}"
        )
    elif output.exists() and not output.is_dir():
        raise DataError(f"{output}: expected a folder, found a file; choose another name")
    elif not output.absolute().parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    elif output.resolve() == (source if source.is_dir() else source.parent).resolve():
        raise DataError(f"{output}: expected another folder than the input's; write the output elsewhere")
    if args.part_size and (source.is_dir() or not args.in_parts):
        raise OptionError("--part-size: expected a file for --input and a folder for --output; leave it out")
    args.part_size = args.part_size or part_size


def list_parts(args: argparse.Namespace, ending: str, count: Callable[[str], int]) -> list[Part]:
    """List the output files; all rows are read, so that faults are found before hours of work.

    A single output file is made of all input files. In an output folder there is a part for each file of an
    input folder, or for each ``--part-size`` rows of an input file.

    Args:
        args: the command's arguments, checked by :func:`check_place`.
        ending: that of parts.
        count: checks the rows of a file; returns their number.

    Raises:
        DataError: a file cannot be read, or a part would have two files.
    """
    files, is_folder = source_files(args.input), Path(args.input).is_dir()
    if not args.in_parts:
        states = _states(files)
        rows = None if args.input == STDIN else sum(map(count, files))
        return [Part(args.output, files, 0, rows, {"input": _input(states, 0, rows)})]
    parts: dict[Path, Part] = {}
    for file in files:
        states, rows = _states([file]), count(file)
        size = max(1, rows) if is_folder else args.part_size
        for number, first in enumerate(range(0, max(1, rows), size)):
            name = Path(file).name.removesuffix(ending) if is_folder else f"part-{number:05}"
            path = args.output / f"{name}{ending}"
            if path in parts:
                raise DataError(f"{args.input}: expected one file for {path.name}, found two; rename one")
            own = min(size, rows - first)
            parts[path] = Part(path, [file], first, own, {"input": _input(states, first, own)})
    return list(parts.values())


def _states(files: Sequence[str]) -> dict[str, list[int]]:
    found = {path.name: path.stat() for path in map(Path, files) if path.is_file()}
    return {name: [one.st_size, one.st_mtime_ns] for name, one in found.items()}


def _input(states: dict[str, list[int]], first: int, rows: int | None) -> dict[str, Any]:
    return {"files": states, "rows": [first, rows]}


@contextmanager
def missing_parts(
    folder: Path, parts: Sequence[Part], made_of: Callable[[Path], Mapping[str, Any]]
) -> Iterator[list[Part]]:
    """Lock a folder, remove what a killed process left there, and yield the parts that are not there yet.

    Args:
        folder: the output folder; it is made if it is missing.
        parts: its parts, one or more.
        made_of: reads what a file there was made of; nothing if it is no part.

    Raises:
        DataError: another process writes the folder, or it has other files with the parts' ending, or a part
            that was made of anything else.
        StorageError: the disk is full or read-only.
    """
    ending = parts[0].path.suffix
    busy = DataError(f"{folder}: another process writes it; wait until it is done, or write elsewhere")
    with disk_errors(folder, KEPT), exclusive_lock(folder, busy):
        for leftover in folder.glob(f".*.tmp-*{ending}"):
            leftover.unlink(missing_ok=True)
        found = {path for path in folder.glob(f"*{ending}") if path.name[0] not in "._"}
        for part in parts:
            if part.path in found:
                made = made_of(part.path)
                difference = part.difference(made) if made else "a file that modenc did not write"
                if difference:
                    raise DataError(
                        f"{part.path}: expected a part of the present input, modules and settings, found "
                        f"{difference}; write to another folder, or delete the parts to make them again"
                    )
        if others := sorted(path.name for path in found - {part.path for part in parts}):
            raise DataError(
                f"{folder}: expected {ending} files of the present input, found {len(others)} others "
                f"({', '.join(others[:3])}); move them away, or write to another folder"
            )
        missing = [part for part in parts if part.path not in found]
        logger.info("%s: %d of %d parts are done", folder, len(parts) - len(missing), len(parts))
        yield missing
