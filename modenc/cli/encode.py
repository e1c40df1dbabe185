"""``modenc encode``: encode texts to one file, or to the parts of a folder, which a rerun completes."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add_cluster,
    add_command,
    add_encoding,
    add_hub_and_routing,
    add_option,
    add_shared,
    given_language,
    on_cluster,
    open_encoder,
    open_hub,
    positive,
    progress_bar,
    report_cuts,
)
from modenc.cli.encode_parts import (
    KEPT,
    TYPES,
    Part,
    encode_parts,
    encode_rows,
    list_parts,
    missing_parts,
    read_rows,
    stored_width,
    vector_settings,
)
from modenc.cli.text_io import LINES_AT_ONCE, STDIN, check_output, has_columns, source_files
from modenc.cli.vector_files import OUTPUT_FORMATS
from modenc.errors import DataError, OptionError
from modenc.hub.layout import PROMPT_NAMES
from modenc.storage import disk_errors, exclusive_lock

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)

STDOUT = "-"
_PART_SIZE = 100_000


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
    is_distributed, to_stdout = on_cluster(args), args.output == STDOUT
    _check(args)
    parts = list_parts(args)
    encoder = open_encoder(args)
    settings = vector_settings(args, encoder)
    parts = [replace(part, made_of=part.made_of | settings) for part in parts]
    if to_stdout:
        _print(args, encoder, parts[0])
    elif args.in_parts:
        busy = DataError(
            f"{args.output}: another process writes it; wait until it is done, or write elsewhere"
        )
        with disk_errors(args.output, KEPT), exclusive_lock(args.output, busy):
            for leftover in args.output.glob(".*.tmp-*.parquet"):  # of a killed process
                leftover.unlink(missing_ok=True)
            missing = missing_parts(args.output, parts)
            logger.info("%s: %d of %d parts are done", args.output, len(parts) - len(missing), len(parts))
            if missing and is_distributed:
                _encode_on_cluster(args, encoder.hub, missing)
            else:
                _encode(args, encoder, missing)
    else:
        _encode(args, encoder, parts)
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
    """Check arguments against each other and the hub; sets ``output``, ``in_parts`` and ``part_size``."""
    from modenc.languages import BASE, normalize_code

    word, args.output = args.output, Path(args.output)
    to_files = word != STDOUT
    folder = args.output.is_dir() or word.endswith(("/", os.sep)) or not args.output.suffix
    args.in_parts = to_files and folder
    if args.in_parts:
        _check_folder(args)
    elif to_files:
        if (ending := args.output.suffix) not in OUTPUT_FORMATS:
            raise DataError(
                f"{args.output}: expected an output ending in {' or '.join(OUTPUT_FORMATS)}, or a folder, "
                f"found {ending!r}; rename it, or add / for a folder"
            )
        check_output(args.output, args.input)
    is_cut = args.in_parts and not Path(args.input).is_dir()
    if args.part_size and not is_cut:
        raise OptionError("--part-size: expected a file for --input and a folder for --output; leave it out")
    if is_cut:
        args.part_size = args.part_size or _PART_SIZE
    if args.on and not args.in_parts:
        raise OptionError(f"--on {args.on}: expected a folder for --output, found {word}; name a folder")
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


def _check_folder(args: argparse.Namespace) -> None:
    output, source = args.output, Path(args.input)
    if args.input == STDIN:
        raise OptionError(
            f"--output {output}: expected a file or folder for --input, found -, which a rerun cannot read; "
            "write to .npy or .parquet"
        )
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: expected a folder, found a file; choose another name")
    if not output.absolute().parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    if output.resolve() == (source if source.is_dir() else source.parent).resolve():
        raise DataError(f"{output}: expected another folder than the input's; write the output elsewhere")


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
