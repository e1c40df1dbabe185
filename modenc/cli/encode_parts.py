"""What ``modenc encode`` writes: one file, or Parquet parts in a folder, which a rerun completes."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, repeat
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import encode_texts, given_language
from modenc.cli.text_io import LANG_COLUMN, STDIN, read_texts, source_files
from modenc.cli.vector_files import read_made_of, write_npy, write_parquet
from modenc.errors import DataError, LanguageError
from modenc.storage import disk_errors, sync, whole_file

if TYPE_CHECKING:
    from modenc.cli.vector_files import Batch
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

TYPES = {"float32": "float32", "binary": "int8", "ubinary": "uint8"}
"""``--precision`` → type of the stored numbers."""

KEPT = "what was finished before is kept"
"""Part of error messages about failures to write."""

_TEXTS_AT_ONCE = 4096
_SETTINGS = (
    *("column", "lang", "lang_column", "align", "fallback", "min_confidence"),
    *("prompt_name", "normalize", "truncate_dim", "precision", "part_size"),
)


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
    """State of the files before their texts were counted, and :func:`vector_settings`."""


def list_parts(args: argparse.Namespace) -> list[Part]:
    """List the output files; all texts are read, so that faults are found before hours of work.

    A single output file is made of all input files. In an output folder there is a part for each file of an
    input folder, or for each ``--part-size`` texts of an input file.

    Raises:
        DataError: a file cannot be read, or a part would have two files.
    """
    files = source_files(args.input)
    if not args.in_parts:
        state = _state(files)
        rows = None if args.input == STDIN else sum(_count(args, file) for file in files)
        return [Part(args.output, files, 0, rows, state)]
    parts = {}
    for file in files:
        state, rows = _state([file]), _count(args, file)
        size = args.part_size or max(1, rows)
        for number, first in enumerate(range(0, max(1, rows), size)):
            name = f"part-{number:05}" if args.part_size else Path(file).name.removesuffix(".parquet")
            path = args.output / f"{name}.parquet"
            if path in parts:
                raise DataError(f"{args.input}: expected one file for {path.name}, found two; rename one")
            parts[path] = Part(path, [file], first, min(size, rows - first), state)
    return list(parts.values())


def _count(args: argparse.Namespace, file: str) -> int:
    """Count the texts of a file, and check the languages in ``--lang-column``."""
    from modenc.languages import BASE, is_undetermined, normalize_code

    known = {BASE}
    codes = read_texts(file, args.lang_column, option=LANG_COLUMN) if args.lang_column else ()
    for number, code in enumerate(codes, start=1):
        if (code := code.strip()) not in known and not is_undetermined(code):
            try:
                normalize_code(code)
            except LanguageError as error:
                raise DataError(f"{file}, row {number}, {args.lang_column!r}: {error}") from error
            known.add(code)
    return sum(1 for _ in read_texts(file, args.column))


def missing_parts(folder: Path, parts: Sequence[Part]) -> list[Part]:
    """Return the parts that are not in a folder yet.

    Raises:
        DataError: the folder has other Parquet files, or a part that was made of anything else.
    """
    found = {path for path in folder.glob("*.parquet") if path.name[0] not in "._"}
    for part in parts:
        if part.path in found:
            made_of = read_made_of(part.path)
            difference = _difference(part, made_of) if made_of else "a file that modenc encode did not write"
            if difference:
                raise DataError(
                    f"{part.path}: expected a part of the present input, modules and settings, found "
                    f"{difference}; write to another folder, or delete the parts to encode them again"
                )
    if others := sorted(path.name for path in found - {part.path for part in parts}):
        raise DataError(
            f"{folder}: expected Parquet files of the present input, found {len(others)} others "
            f"({', '.join(others[:3])}); move them away, or write to another folder"
        )
    return [part for part in parts if part.path not in found]


def encode_parts(args: argparse.Namespace, encoder: ModularEncoder, parts: Iterable[Part]) -> int:
    """Encode parts, in the order of the input; each is written whole or not at all.

    Returns:
        The number of texts.

    Raises:
        DataError: the input, the modules or the precision are not those that a part is to be made of.
        StorageError: the disk is full or read-only.
    """
    count = 0
    for files, group in groupby(parts, key=lambda part: part.files):
        rows, position = read_rows(args, files, encoder.max_characters), 0
        for part in group:
            skipped = part.first - position
            of_part = islice(rows, skipped, None if part.rows is None else skipped + part.rows)
            batches = _unchanged(
                args, encoder, part, encode_rows(args, encoder, of_part, _TEXTS_AT_ONCE, part.first)
            )
            width, dtype = stored_width(args, encoder.hub), TYPES[args.precision]
            with disk_errors(part.path.parent, KEPT), whole_file(part.path) as temporary:
                if part.path.suffix == ".npy":
                    count += write_npy(temporary, batches, width, dtype)
                else:
                    count += write_parquet(temporary, batches, width, dtype, part.first, part.made_of)
                sync(temporary)
            position = part.first + (part.rows or 0)
    return count


def read_rows(
    args: argparse.Namespace, files: Sequence[str], max_characters: int
) -> Iterator[tuple[str, str | None]]:
    """Read texts, and their languages in ``--lang-column`` (without it None)."""
    texts = chain.from_iterable(read_texts(file, args.column, max_characters) for file in files)
    if not args.lang_column:
        return zip(texts, repeat(None))
    codes = chain.from_iterable(read_texts(file, args.lang_column, option=LANG_COLUMN) for file in files)
    return zip(texts, (code.strip() for code in codes), strict=False)


def encode_rows(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    rows: Iterator[tuple[str, str | None]],
    size: int,
    first: int = 0,
) -> Iterator[Batch]:
    """Encode rows, ``size`` at a time; ``first`` is the number of the first one, for messages."""
    options = {
        "prompt_name": args.prompt_name,
        "normalize_embeddings": args.normalize,
        "precision": args.precision,
        "truncate_dim": args.truncate_dim,
    }
    while batch := list(islice(rows, size)):
        texts, langs = map(list, zip(*batch, strict=True))
        yield encode_texts(args, encoder, texts, langs if args.lang_column else None, first=first, **options)
        first += len(batch)


def _unchanged(
    args: argparse.Namespace, encoder: ModularEncoder, part: Part, batches: Iterable[Batch]
) -> Iterator[Batch]:
    for batch in chain(batches, [None]):
        now = _state(part.files) | vector_settings(args, encoder)
        if difference := _difference(part, now):
            raise DataError(
                f"{args.input} and {args.hub}: expected both as when the command was started, found "
                f"{difference}; run the command again, with another folder for parts of the new state"
            )
        if batch is not None:
            yield batch


def _difference(part: Part, found: dict[str, Any]) -> str:
    """Say in a message what differs from what a part is to be made of; nothing if nothing does."""
    pairs = ((name, found.get(name), value) for name, value in part.made_of.items())
    return ", ".join(
        f"{name} {short_repr(there)} instead of {short_repr(value)}"
        for name, there, value in pairs
        if there != value
    )


def stored_width(args: argparse.Namespace, hub: Hub) -> int:
    """Return the number of values in a stored vector; ``--precision`` may pack eight numbers into one."""
    hidden = hub.info.hidden_size
    width: int = min(hidden, args.truncate_dim or hidden)
    return width if args.precision == "float32" else width // 8


def vector_settings(args: argparse.Namespace, encoder: ModularEncoder) -> dict[str, Any]:
    """Return everything besides the texts that vectors depend on: options, precision and modules."""
    from modenc.composition.options import EncoderSettings
    from modenc.composition.routing import ERROR
    from modenc.languages import BASE, normalize_code

    hub = encoder.hub
    codes = hub.languages()
    if (lang := given_language(args)) is not None:
        fallback = args.fallback or hub.info.pivot  # by default the pivot or the base
        used = {normalize_code(code) for code in (lang, fallback) if code not in (BASE, ERROR)}
        codes = [code for code in codes if code in used]
    settings = {name: getattr(args, name) for name in _SETTINGS}
    # What "auto" means can differ between machines.
    compute = EncoderSettings(compute=args.compute).precision(encoder.device)
    return settings | {"compute": compute, "modules": modules_fingerprint(hub, codes)}


def modules_fingerprint(hub: Hub, codes: Iterable[str]) -> str:
    """Fingerprint a hub's settings and the modules of some of its languages."""
    hasher = hashlib.sha256(repr(hub.info).encode())
    for code in codes:
        hasher.update(f"{code} {hub.card(code).fingerprint()}\n".encode())
    return hasher.hexdigest()


def _state(files: Iterable[str]) -> dict[str, Any]:
    found = {path.name: path.stat() for path in map(Path, files) if path.is_file()}
    return {"input": {name: [one.st_size, one.st_mtime_ns] for name, one in found.items()}}
