"""``modenc encode``: texts of any size to vectors, in shards that a killed run resumes from."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add,
    add_cluster,
    add_command,
    add_encoding,
    add_opening,
    encoded,
    language_of,
    on_cluster,
    open_encoder,
    open_hub,
    option,
    positive,
    progress_bar,
    report_cuts,
)
from modenc.cli.encode_job import batches, encode_shard, job_of, options_of
from modenc.cli.shards import ShardStore, check_format
from modenc.cli.text_io import STDIN, check_output, has_columns, read_texts, source_files
from modenc.errors import OptionError

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

logger = logging.getLogger(__name__)

STDOUT = Path("-")
_TYPES = {"float32": "float32", "binary": "int8", "ubinary": "uint8"}
"""``--precision`` to the type of the stored numbers."""


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "encode", run)
    add_opening(parser)
    text = "texts, or a folder of such files, read in the order of their names; - is standard input"
    add(parser, "--input", help=text)
    text = "vectors: .npy or .parquet; -: standard output, an object a line with language and vector"
    add(parser, "--output", help=text)
    add_encoding(parser)
    text = "column with each text's language; where it is empty, the language is detected"
    option(parser, "--lang-column", "NAME", text)
    option(parser, "--normalize", None, "scale vectors to length 1")
    option(parser, "--truncate-dim", "N", "keep the first N numbers of each vector", type=positive)
    text = "of the stored vectors; binary: a bit a number, eight in an int8; ubinary: in a uint8"
    option(parser, "--precision", None, text, choices=_TYPES, default="float32")
    option(parser, "--shard-size", "N", "texts between two savings", type=positive, default=4096)
    add_cluster(parser)


def run(args: argparse.Namespace) -> None:
    """Turn texts into vectors.

    Encodes the lines of a text file, or a column of TSV, CSV, JSONL or Parquet. .npy: float32 [texts,
    hidden], row i is text i. .parquet: columns index, language, vector. The input is read as a stream;
    finished shards wait in OUTPUT.parts/, and an interrupted run resumes from them.

    Examples:
        modenc encode --hub adapters_hub/me5-small --input texts.txt --output vectors.npy
        modenc encode --hub adapters_hub/me5-small -i texts.parquet --column body --lang kk -o kk.npy
        modenc encode --hub adapters_hub/me5-small -i texts.tsv --lang-column language -o vectors.parquet
        zcat texts.gz | modenc encode --hub adapters_hub/me5-small -i - -o - | head
        modenc encode --on ray --hub /shared/hub -i /shared/texts/ -o vectors.parquet
    """
    # All of this before torch is imported, and before an earlier run's finished work could be lost.
    spread = on_cluster(args)
    width = _checked_width(args)
    counts = None if args.input == STDIN else _counts(args)
    encoder = open_encoder(args)
    if args.output == STDOUT:
        _print(args, encoder)
    else:
        store = ShardStore(args.output, width, _TYPES[args.precision])
        with store.alone():
            if counts is None or not spread:
                count, shards = _fill(args, encoder, store, counts)
            else:
                from modenc.cli.encode_on_cluster import fill

                count, shards = fill(args, encoder, store, counts)
            store.join(shards)
        logger.info("%s: %d vectors of %d numbers", args.output, count, width)
    report_cuts(args, encoder)


def _checked_width(args: argparse.Namespace) -> int:
    """Check arguments against each other and the hub; returns how many numbers a stored vector has."""
    from modenc.languages import BASE, normalize_code

    if args.on and (args.output == STDOUT or args.input == STDIN):
        raise OptionError(f"--on {args.on}: expected files for --input and --output, found -; name files")
    if args.output != STDOUT:
        check_format(args.output)
        check_output(args.output, args.input)
    if (code := language_of(args)) not in (None, BASE):
        normalize_code(str(code))
    plain = not all(map(has_columns, source_files(args.input)))
    if args.lang_column and (code is not None or plain):
        found = f"--lang {code}" if code else f"the plain text of {args.input}"
        raise OptionError(f"--lang-column: expected a table without --lang, found {found}; leave one out")
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
    """File → its texts; reads all of them, so that none is found to be faulty hours later."""
    files = source_files(args.input)
    if args.lang_column:
        for file in files:
            deque(read_texts(file, args.lang_column, option="--lang-column"), maxlen=0)
    return {file: sum(1 for _ in read_texts(file, args.column)) for file in files}


def _print(args: argparse.Namespace, encoder: ModularEncoder) -> None:
    for texts, langs in batches(args, encoder.max_characters, None):
        vectors, codes = encoded(args, encoder, texts, langs, **options_of(args))
        for code, vector in zip(codes, vectors.tolist(), strict=True):
            sys.stdout.write(json.dumps({"language": code, "vector": vector}) + "\n")


def _fill(
    args: argparse.Namespace, encoder: ModularEncoder, store: ShardStore, counts: dict[str, int] | None
) -> tuple[int, int]:
    """Write the shards that are not done yet; returns how many texts and shards there are in all."""
    job, total = job_of(args, encoder), None if counts is None else sum(counts.values())
    done = store.begin(job, resumable=args.input != STDIN)
    if args.input == STDIN:
        logger.info("standard input cannot be read twice: if this run is interrupted, it starts over")
    elif done:
        logger.info("%d shards of %d texts are done already; resuming", done, args.shard_size)
    count = done * args.shard_size if total is None else min(done * args.shard_size, total)
    with progress_bar(" texts", total, count) as bar:
        # The last module runs once for each batch.
        hook = encoder[-1].register_forward_hook(
            lambda _, __, features: bar.update(len(features["sentence_embedding"]))
        )
        for texts, langs in batches(args, encoder.max_characters, counts, skip=count):
            if store.shard(done).is_file():  # a run on a cluster leaves gaps
                bar.update(len(texts))
            else:
                vectors, codes = encode_shard(args, encoder, texts, langs, job)
                store.write(done, count, vectors, codes)
            done, count = done + 1, count + len(texts)
        hook.remove()
    return count, done
