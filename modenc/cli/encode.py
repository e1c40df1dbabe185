"""``modenc encode``: encode texts to one file, or to the parts of a folder, which a rerun completes."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
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
)
from modenc.cli.parts import KEPT, Part, check_place, list_parts, missing_parts
from modenc.cli.text_io import LANG_COLUMN, LINES_AT_ONCE, has_columns, read_texts, source_files
from modenc.errors import OptionError
from modenc.hub.layout import PROMPT_NAMES
from modenc.storage import atomic_write, disk_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

    Batch = tuple[NDArray[np.float32], list[str]]
    """Vectors [texts, width], and for each text the code of the language whose modules encoded it."""

logger = logging.getLogger(__name__)

STDOUT = "-"
OUTPUT_FORMATS = (".npy", ".parquet")

_TEXTS_AT_ONCE = 4096
_SETTINGS = (
    *("column", "lang", "lang_column", "align", "fallback", "min_confidence"),
    *("prompt_name", "normalize", "truncate_dim", "part_size"),
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
    text = "texts in a part, where the output is a folder"
    add_option(parser, "--part-size", "N", text, type=positive, default=100_000)
    add_cluster(parser)
    parser.set_defaults(in_parts=False)


def run(args: argparse.Namespace) -> None:
    """Turn texts into embeddings.

    Encodes the lines of a text file, or a column of TSV, CSV, JSONL or Parquet, as a stream. A .npy file has
    shape [texts, dimensions], and its row i is text i. A .parquet file has the columns index, language and
    vector. For much text, let --output be a folder: each finished part is kept, and the same command goes on
    with the missing parts after an interruption. FILE gives the parts FILE-00000.parquet,
    FILE-00001.parquet, ...; index is the row in the file, from 0.

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
    to_stdout = args.output == STDOUT
    if not to_stdout:
        check_place(args, OUTPUT_FORMATS)
    _check(args)
    parts = list_parts(args, ".parquet", lambda file: sum(1 for _ in read_texts(file, args.column)))
    encoder = open_encoder(args)
    if to_stdout:
        _print(args, encoder, parts[0])
    elif not args.in_parts:
        _encode(args, encoder, parts)
    else:
        with missing_parts(args.output, parts, vector_settings(args, encoder)) as missing:
            if missing and is_distributed:
                _encode_on_cluster(args, encoder.hub, missing)
            else:
                _encode(args, encoder, missing)


def _encode_on_cluster(args: argparse.Namespace, hub: Hub, parts: Sequence[Part]) -> None:
    """Encode each part in a task."""
    import torch

    from modenc.distributed import Job, cluster, run_graph

    sent = {name: value for name, value in vars(args).items() if name not in ("run", "parser")}
    sent["revision"] = getattr(hub, "commit", args.revision)  # all nodes open the same commit
    options = tuple(sent.items())
    with cluster(args.address):
        jobs = [Job(part.path.name, partial(_encode_on_node, options, part)) for part in parts]
        run_graph(jobs, torch.get_num_threads())


def _encode_on_node(options: tuple[tuple[str, Any], ...], part: Part) -> None:
    _encode(argparse.Namespace(**dict(options)), _opened(options), [part])


@lru_cache(maxsize=1)
def _opened(options: tuple[tuple[str, Any], ...]) -> ModularEncoder:
    """Open the encoder once in each of Ray's processes, which run one task after another."""
    return open_encoder(argparse.Namespace(**dict(options)))


def _check(args: argparse.Namespace) -> None:
    """Check arguments against each other and the hub."""
    from modenc.languages import BASE, normalize_code

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
    open_hub(args)


def _print(args: argparse.Namespace, encoder: ModularEncoder, part: Part) -> None:
    rows = read_rows(args, part.files, encoder.max_characters)
    for vectors, codes in encode_rows(args, encoder, rows, LINES_AT_ONCE):
        for code, vector in zip(codes, vectors.tolist(), strict=True):
            sys.stdout.write(json.dumps({"language": code, "vector": vector}) + "\n")


def _encode(args: argparse.Namespace, encoder: ModularEncoder, parts: Sequence[Part]) -> None:
    """Encode parts, in the order of the input; each is written whole or not at all.

    Raises:
        DataError: the input cannot be read.
        StorageError: the disk is full or read-only.
    """
    hidden, count = encoder.hub.info.hidden_size, 0
    width = min(hidden, args.truncate_dim or hidden)
    with progress_bar(" texts", sum(part.rows or 0 for part in parts) or None) as bar:
        for files, group in groupby(parts, key=lambda part: part.files):
            rows, position = read_rows(args, files, encoder.max_characters), 0
            for part in group:
                skipped = part.first - position
                own = islice(rows, skipped, None if part.rows is None else skipped + part.rows)
                batches = _noted(encode_rows(args, encoder, own, _TEXTS_AT_ONCE), bar)
                with disk_errors(part.path.parent, KEPT), atomic_write(part.path) as temporary:
                    if part.path.suffix == ".npy":
                        count += write_npy(temporary, batches, width)
                    else:
                        count += write_parquet(temporary, batches, width, part.first)
                position = part.first + (part.rows or 0)
    logger.info("%s: %d vectors", args.output, count)


def _noted(batches: Iterable[Batch], bar: Any) -> Iterator[Batch]:
    for batch in batches:
        bar.update(len(batch[1]))
        yield batch


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
    args: argparse.Namespace, encoder: ModularEncoder, rows: Iterator[tuple[str, str | None]], size: int
) -> Iterator[Batch]:
    """Encode rows, ``size`` at a time."""
    options = {
        "prompt_name": args.prompt_name,
        "normalize_embeddings": args.normalize,
        "truncate_dim": args.truncate_dim,
    }
    while batch := list(islice(rows, size)):
        texts, langs = map(list, zip(*batch, strict=True))
        yield encode_texts(args, encoder, texts, langs if args.lang_column else None, **options)


def vector_settings(args: argparse.Namespace, encoder: ModularEncoder) -> dict[str, Any]:
    """Return everything besides the texts that vectors depend on: options, precision and modules."""
    from modenc.composition.bert import choose_precision

    hub = encoder.hub
    settings = {name: getattr(args, name) for name in _SETTINGS}
    # What "auto" means can differ between machines.
    compute = choose_precision(args.compute, encoder.device)
    modules = {code: hub.card(code).fingerprint() for code in hub.languages()}
    return settings | {"compute": compute, "base": hub.info.base_fingerprint, "modules": modules}


def write_npy(path: Path, batches: Iterable[Batch], width: int) -> int:
    """Write vectors to a .npy file of shape [texts, width]; returns the number of texts."""
    import numpy as np

    header, rows = {"descr": "<f4", "fortran_order": False}, 0
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (0, width)})
        for vectors, _ in batches:
            stream.write(vectors.astype("<f4", copy=False).tobytes())
            rows += len(vectors)
        stream.seek(0)  # NumPy leaves room in a header for more rows
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (rows, width)})
    return rows


def write_parquet(path: Path, batches: Iterable[Batch], width: int, first: int) -> int:
    """Write a Parquet file with the columns index (from ``first``), language and vector; returns its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    columns = {"index": pa.int64(), "language": pa.string(), "vector": pa.list_(pa.float32(), width)}
    schema = pa.schema(columns)
    # With a stream of Python's, errors of a full disk keep their number.
    with path.open("wb") as stream, pq.ParquetWriter(stream, schema) as writer:
        for vectors, codes in batches:
            index = pa.array(range(first + rows, first + rows + len(vectors)), pa.int64())
            vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), width)
            writer.write_table(pa.table([index, pa.array(codes, pa.string()), vector], schema=schema))
            rows += len(vectors)
    return rows
