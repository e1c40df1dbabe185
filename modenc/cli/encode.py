"""``modenc encode``: encode texts in shards, from which an interrupted run resumes."""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add,
    add_cluster,
    add_command,
    add_encoding,
    add_hub_and_routing,
    given_language,
    on_cluster,
    open_encoder,
    open_hub,
    option,
    positive,
    progress_bar,
    report_cuts,
)
from modenc.cli.encode_job import encode_for_job, encode_shard, files_state, make_job, read_shards
from modenc.cli.text_io import LANG_COLUMN, STDIN, check_output, has_columns, read_texts, source_files
from modenc.cli.vector_shards import OUTPUT_FORMATS, VectorShards
from modenc.errors import DataError, LanguageError, OptionError

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

logger = logging.getLogger(__name__)

STDOUT = Path("-")
_TYPES = {"float32": "float32", "binary": "int8", "ubinary": "uint8"}
"""``--precision`` → type of the stored numbers."""


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "encode", run)
    add_hub_and_routing(parser)
    text = "file with texts, or a folder of such files, read in the order of their names; -: standard input"
    add(parser, "--input", help=text)
    text = "file for vectors, .npy or .parquet; -: standard output, a JSON object (language, vector) a line"
    add(parser, "--output", help=text)
    add_encoding(parser)
    text = "column with each text's language; if it is empty, the language is detected"
    option(parser, "--lang-column", "NAME", text)
    option(parser, "--normalize", None, "scale vectors to length 1")
    option(parser, "--truncate-dim", "N", "keep the first N numbers of each vector", type=positive)
    text = "type of the stored numbers; binary: one bit each, packed by eight into int8; ubinary: into uint8"
    option(parser, "--precision", None, text, choices=_TYPES, default="float32")
    add(parser, "--shard-size", help="texts in a shard; finished shards are saved")
    add_cluster(parser)


def run(args: argparse.Namespace) -> None:
    """Turn texts into vectors.

    Encodes the lines of a text file, or a column of TSV, CSV, JSONL or Parquet. A .npy file has shape
    [texts, dimensions], and its row i is text i. A .parquet file has the columns index, language and vector.
    The input is read as a stream. Finished shards are saved in OUTPUT.parts/, and the same command resumes
    from them after an interruption.

    Examples:
        modenc encode --hub adapters_hub/me5-small --input texts.txt --output vectors.npy
        modenc encode --hub adapters_hub/me5-small -i texts.parquet --column body --lang kk -o kk.npy
        modenc encode --hub adapters_hub/me5-small -i texts.tsv --lang-column language -o vectors.parquet
        zcat texts.gz | modenc encode --hub adapters_hub/me5-small -i - -o - | head
        modenc encode --on ray --hub /shared/hub -i /shared/texts/ -o vectors.parquet
    """
    # Options are checked before torch is imported and before shards of an earlier run could be removed.
    is_distributed = on_cluster(args)
    width = _checked_width(args)
    files = files_state(args.input)
    counts = None if args.input == STDIN else _counts(args)
    encoder = open_encoder(args)
    if args.output == STDOUT:
        _print(args, encoder)
    else:
        job = make_job(args, encoder, files)
        store = VectorShards(args.output, args.output.suffix, width, _TYPES[args.precision])
        with store.alone():
            if counts is None or not is_distributed:
                count = _fill(args, encoder, store, counts, job)
            else:
                from modenc.cli.encode_on_cluster import encode_missing_shards

                count = encode_missing_shards(args, encoder, store, counts, job)
            store.join(math.ceil(count / args.shard_size))
        logger.info("%s: %d vectors of %d numbers", args.output, count, width)
    report_cuts(args, encoder)


def _checked_width(args: argparse.Namespace) -> int:
    """Check arguments against each other and the hub; returns the width of stored vectors."""
    from modenc.languages import BASE, normalize_code

    if args.on and (args.output == STDOUT or args.input == STDIN):
        raise OptionError(f"--on {args.on}: expected files for --input and --output, found -; name files")
    if args.output != STDOUT:
        if (ending := args.output.suffix) not in OUTPUT_FORMATS:
            raise DataError(
                f"{args.output}: expected an output ending in {' or '.join(OUTPUT_FORMATS)}, "
                f"found {ending or 'no ending'!r}; rename it"
            )
        check_output(args.output, args.input)
    if (code := given_language(args)) not in (None, BASE):
        normalize_code(str(code))
    plain = not all(map(has_columns, source_files(args.input)))
    if args.lang_column and (code is not None or plain):
        found = f"--lang {code}" if code else f"the plain text of {args.input}"
        raise OptionError(f"--lang-column: expected a table and no --lang, found {found}; leave one out")
    hidden = open_hub(args).info.hidden_size
    width = min(hidden, args.truncate_dim or hidden)
    if args.precision == "float32":
        return width
    if width % 8:
        raise OptionError(
            f"--precision {args.precision}: expected vectors of a multiple of 8 numbers, found {width}; set "
            "--truncate-dim"
        )
    return width // 8


def _counts(args: argparse.Namespace) -> dict[str, int]:
    """Count the texts of each file; all are read, so that faults are found before hours of work.

    Raises:
        DataError: a file cannot be read, or a language's code is none; the message says where.
    """
    from modenc.languages import BASE, normalize_code

    files = source_files(args.input)
    known = {"", BASE}
    for file in files if args.lang_column else ():
        for number, code in enumerate(read_texts(file, args.lang_column, option=LANG_COLUMN), start=1):
            if (code := code.strip()) not in known:
                try:
                    normalize_code(code)
                except LanguageError as error:
                    raise DataError(f"{file}, row {number}, {args.lang_column!r}: {error}") from error
                known.add(code)
    return {file: sum(1 for _ in read_texts(file, args.column)) for file in files}


def _print(args: argparse.Namespace, encoder: ModularEncoder) -> None:
    for shard in read_shards(args, encoder.max_characters, None):
        vectors, codes = encode_shard(args, encoder, shard)
        for code, vector in zip(codes, vectors.tolist(), strict=True):
            sys.stdout.write(json.dumps({"language": code, "vector": vector}) + "\n")


def _fill(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    store: VectorShards,
    counts: dict[str, int] | None,
    job: dict[str, Any],
) -> int:
    """Encode the missing shards; returns the number of all texts."""
    total = None if counts is None else sum(counts.values())
    done = store.begin(job, resumable=args.input != STDIN)
    if args.input == STDIN:
        logger.info("standard input cannot be read twice: an interrupted run starts over")
    elif done:
        logger.info("%d shards of %d texts are done already; resuming", done, args.shard_size)
    count: int = min(done * args.shard_size, total or 0)
    with progress_bar(" texts", total, count) as bar:
        # The last module runs once a batch.
        hook = encoder[-1].register_forward_hook(
            lambda _, __, features: bar.update(len(features["sentence_embedding"]))
        )
        for shard in read_shards(args, encoder.max_characters, counts, done):
            if store.shard(shard.number).is_file():  # a run on a cluster finishes shards in any order
                bar.update(len(shard.texts))
            else:
                vectors, codes = encode_for_job(args, encoder, shard, job)
                store.write(shard.number, shard.number * args.shard_size, vectors, codes)
            count += len(shard.texts)
        hook.remove()
    return count
