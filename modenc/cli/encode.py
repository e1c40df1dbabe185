"""``modenc encode``: encode texts to one file, or to the parts of a folder, which a rerun completes."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, groupby, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add_cluster,
    add_command,
    add_encoding,
    add_hub_and_routing,
    add_option,
    add_shared,
    encode_texts,
    given_language,
    on_cluster,
    open_encoder,
    open_hub,
    positive,
    progress_bar,
    report_cuts,
)
from modenc.cli.parts import KEPT, Part, check_place, list_parts, missing_parts
from modenc.cli.text_io import LANG_COLUMN, LINES_AT_ONCE, has_columns, read_texts, source_files
from modenc.errors import DataError, LanguageError, OptionError
from modenc.hub.layout import PROMPT_NAMES
from modenc.storage import disk_errors, sync, whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

    Batch = tuple[NDArray[Any], list[str]]
    """Vectors [texts, width], and for each text the code of the language whose modules encoded it."""

logger = logging.getLogger(__name__)

STDOUT = "-"
OUTPUT_FORMATS = (".npy", ".parquet")
TYPES = {"float32": "float32", "binary": "int8", "ubinary": "uint8"}
"""``--precision`` → type of the stored numbers."""

_KEY = b"modenc"
_PART_SIZE = 100_000
_TEXTS_AT_ONCE = 4096
_SETTINGS = (
    *("column", "lang", "lang_column", "align", "fallback", "min_confidence"),
    *("prompt_name", "normalize", "truncate_dim", "precision"),
)


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "encode", run)
    add_hub_and_routing(parser)
    text = "file with texts, or a folder of such files alone, in the order of their names; -: standard input"
    add_shared(parser, "--input", help=text)
    text = (
        "file for vectors, .npy or .parquet; a folder for Parquet parts (it exists, or its name ends in / or "
        "has no ending); -: standard output, a JSON object (language, vector) a line"
    )
    add_shared(parser, "--output", help=text, type=str)
    add_encoding(parser)
    text = "column with each text's language; if it is empty or und, the language is detected"
    add_option(parser, "--lang-column", "NAME", text)
    text = "prompt before each text, query or document for search (default: the hub's default prompt)"
    add_option(parser, "--prompt-name", None, text, choices=PROMPT_NAMES)
    add_option(parser, "--normalize", None, "scale embeddings to length 1")
    add_option(parser, "--truncate-dim", "N", "keep the first N numbers of each vector", type=positive)
    text = "type of the stored numbers; binary: one bit each, packed by eight into int8; ubinary: into uint8"
    add_option(parser, "--precision", None, text, choices=TYPES, default="float32")
    text = f"texts in a part, where an input file is encoded to a folder (default: {_PART_SIZE})"
    add_option(parser, "--part-size", "N", text, type=positive)
    add_cluster(parser)
    parser.set_defaults(in_parts=False)


def run(args: argparse.Namespace) -> None:
    """Turn texts into embeddings.

    Encodes the lines of a text file, or a column of TSV, CSV, JSONL or Parquet, as a stream. A .npy file has
    shape [texts, dimensions], and its row i is text i. A .parquet file has the columns index, language and
    vector. For much text, let --output be a folder: each finished part is kept, and the same command goes on
    with the missing parts after an interruption. A folder of files gives a part for each file (FILE.parquet),
    a file gives part-00000.parquet, part-00001.parquet, ...; index is the row in the file, from 0.

    Examples:
        modenc encode --hub adapters_hub/me5-small --input texts.txt --output vectors.npy
        modenc encode --hub adapters_hub/me5-small -i texts.parquet --column body --lang kk -o kk.npy
        modenc encode --hub adapters_hub/me5-small -i texts.tsv --lang-column language -o vectors.parquet
        modenc encode --hub adapters_hub/me5-small -i wikipedia.jsonl.gz -o vectors/ --prompt-name document
        zcat texts.gz | modenc encode --hub adapters_hub/me5-small -i - -o - | head
        modenc encode --on ray --hub /shared/hub -i /shared/texts/ -o /shared/vectors/
    """
    # Options, input and output are checked before torch is imported.
    is_distributed = on_cluster(args)
    _check(args)
    parts = list_parts(args, ".parquet", partial(_count, args))
    encoder = open_encoder(args)
    settings = vector_settings(args, encoder)
    parts = [replace(part, made_of=part.made_of | settings) for part in parts]
    if args.to_stdout:
        _print(args, encoder, parts[0])
    elif not args.in_parts:
        _encode(args, encoder, parts)
    else:
        with missing_parts(args.output, parts, read_made_of) as missing:
            if missing and is_distributed:
                _encode_on_cluster(args, encoder.hub, missing)
            else:
                _encode(args, encoder, missing)
    report_cuts(args, encoder)


def _encode_on_cluster(args: argparse.Namespace, hub: Hub, parts: Sequence[Part]) -> None:
    """Encode each part in a task."""
    import torch

    from modenc.distributed import Job, cluster, run_graph

    sent = {name: value for name, value in vars(args).items() if name not in ("run", "parser")}
    sent["revision"] = getattr(hub, "commit", args.revision)  # all nodes open the same commit
    options = tuple(sent.items())
    with cluster(args.address):
        jobs = [Job(part.path.name, partial(_encode_on_node, options, part)) for part in parts]
        args.cut += sum(run_graph(jobs, torch.get_num_threads()))


def _encode_on_node(options: tuple[tuple[str, Any], ...], part: Part) -> int:
    """Encode a part; returns the number of truncated texts."""
    args = argparse.Namespace(**dict(options))
    encode_parts(args, _opened(options), [part])
    return int(args.cut)


@lru_cache(maxsize=1)
def _opened(options: tuple[tuple[str, Any], ...]) -> ModularEncoder:
    """Open the encoder once in each of Ray's processes, which run one task after another."""
    return open_encoder(argparse.Namespace(**dict(options)))


def _check(args: argparse.Namespace) -> None:
    """Check arguments against each other and the hub, see also :func:`check_place`; sets ``to_stdout``."""
    from modenc.languages import BASE, normalize_code

    args.to_stdout = args.output == STDOUT
    if not args.to_stdout:
        check_place(args, OUTPUT_FORMATS, _PART_SIZE)
    elif args.part_size:
        raise OptionError("--part-size: expected a folder for --output, found -; leave it out")
    if args.on and not args.in_parts:
        raise OptionError(
            f"--on {args.on}: expected a folder for --output, found {args.output}; name a folder"
        )
    if (code := given_language(args)) not in (None, BASE):
        normalize_code(str(code))
    plain = not all(map(has_columns, source_files(args.input)))
    if args.lang_column and (code is not None or plain):
        found = f"--lang {code}" if code else f"the plain text of {args.input}"
        raise OptionError(f"--lang-column: expected a table and no --lang, found {found}; leave one out")
    hidden = open_hub(args).info.hidden_size
    width = min(hidden, args.truncate_dim or hidden)
    if args.precision != "float32" and width % 8:
        raise OptionError(
            f"--precision {args.precision}: expected vectors of a multiple of 8 numbers, found {width}; set "
            "--truncate-dim"
        )


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


def _print(args: argparse.Namespace, encoder: ModularEncoder, part: Part) -> None:
    rows = read_rows(args, part.files, encoder.max_characters)
    for vectors, codes in encode_rows(args, encoder, rows, LINES_AT_ONCE):
        for code, vector in zip(codes, vectors.tolist(), strict=True):
            sys.stdout.write(json.dumps({"language": code, "vector": vector}) + "\n")


def _encode(args: argparse.Namespace, encoder: ModularEncoder, parts: list[Part]) -> None:
    with progress_bar(" texts", sum(part.rows or 0 for part in parts) or None) as bar:
        # The last module runs once a batch.
        encoder[-1].register_forward_hook(
            lambda _, __, features: bar.update(len(features["sentence_embedding"]))
        )
        count = encode_parts(args, encoder, parts)
    logger.info("%s: %d vectors of %d numbers", args.output, count, stored_width(args, encoder.hub))


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
            batches = _unchanged(args, encoder, part, encode_rows(args, encoder, of_part, _TEXTS_AT_ONCE))
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
) -> Iterator[Batch]:
    """Encode rows, ``size`` at a time."""
    options = {
        "prompt_name": args.prompt_name,
        "normalize_embeddings": args.normalize,
        "precision": args.precision,
        "truncate_dim": args.truncate_dim,
    }
    while batch := list(islice(rows, size)):
        texts, langs = map(list, zip(*batch, strict=True))
        yield encode_texts(args, encoder, texts, langs if args.lang_column else None, **options)


def _unchanged(
    args: argparse.Namespace, encoder: ModularEncoder, part: Part, batches: Iterable[Batch]
) -> Iterator[Batch]:
    """Yield the batches of a part, and check at its end that input and modules are still the same."""
    yield from batches
    if difference := part.difference({"input": part.input()} | vector_settings(args, encoder)):
        raise DataError(
            f"{args.input} and {args.hub}: expected both as when the command was started, found "
            f"{difference}; run the command again, with another folder for parts of the new state"
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


def write_npy(path: Path, batches: Iterable[Batch], width: int, dtype: str) -> int:
    """Write vectors to a .npy file of shape [texts, width]; returns the number of texts."""
    import numpy as np

    stored, rows = np.dtype(dtype).newbyteorder("<"), 0
    header = {"descr": stored.str, "fortran_order": False}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (0, width)})
        for vectors, _ in batches:
            stream.write(vectors.astype(stored, copy=False).tobytes())
            rows += len(vectors)
        stream.seek(0)  # NumPy leaves room in a header for more rows
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (rows, width)})
    return rows


def write_parquet(
    path: Path, batches: Iterable[Batch], width: int, dtype: str, first: int, made_of: dict[str, Any]
) -> int:
    """Write a Parquet file with the columns index (from ``first``), language and vector; returns its rows.

    ``made_of`` is kept in the file for :func:`read_made_of`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, rows = getattr(pa, dtype)(), 0
    columns = {"index": pa.int64(), "language": pa.string(), "vector": pa.list_(number, width)}
    schema = pa.schema(columns, {_KEY: json.dumps(made_of)})
    # With a stream of Python's, errors of a full disk keep their number.
    with path.open("wb") as stream, pq.ParquetWriter(stream, schema) as writer:
        for vectors, codes in batches:
            index = pa.array(range(first + rows, first + rows + len(vectors)), pa.int64())
            vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), number), width)
            writer.write_table(pa.table([index, pa.array(codes, pa.string()), vector], schema=schema))
            rows += len(vectors)
    return rows


def read_made_of(path: Path) -> dict[str, Any]:
    """Read what a file of :func:`write_parquet` was made of; nothing of any other file."""
    import pyarrow.parquet as pq

    try:
        return dict(json.loads(pq.read_schema(path).metadata[_KEY]))
    except (OSError, KeyError, TypeError, ValueError):
        return {}
