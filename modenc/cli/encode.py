"""``modenc encode``: texts of any size to vectors, in shards that a killed run resumes from."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    AUTO,
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
from modenc.cli.shards import ShardStore, check_format
from modenc.cli.text_io import STDIN, batched, check_output, has_columns, read_texts, source_files
from modenc.errors import DataError, OptionError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)

STDOUT = Path("-")
_TYPES = {"float32": "float32", "binary": "int8", "ubinary": "uint8"}
"""``--precision`` to the type of the stored numbers."""
_JOB = (
    *("input", "column", "lang", "lang_column", "align", "fallback", "min_confidence", "shard_size"),
    *("normalize", "truncate_dim", "precision"),
)


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


def batches(
    args: argparse.Namespace, max_characters: int, counts: dict[str, int] | None, skip: int = 0
) -> Iterator[tuple[list[str], Sequence[str | None] | None]]:
    """Shards of texts with the languages in ``--lang-column``, without the first ``skip`` texts."""
    files: list[str] = []
    for file in counts or [args.input]:
        if counts and not files and skip >= counts[file]:
            skip -= counts[file]
        else:
            files.append(file)

    def column(name: str, option: str, limit: int | None = None) -> Iterator[str]:
        found = chain.from_iterable(read_texts(file, name, limit, option) for file in files)
        return islice(found, skip, None)

    languages = column(args.lang_column, "--lang-column") if args.lang_column else None
    for batch in batched(column(args.column, "--column", max_characters), args.shard_size):
        if languages is None:
            yield batch, None
        else:
            yield batch, [code.strip() or None for code in islice(languages, len(batch))]


def encode_shard(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    texts: list[str],
    langs: Sequence[str | None] | None,
    job: dict[str, Any],
) -> tuple[NDArray[Any], list[str]]:
    """Vectors and languages of a shard: the same bytes in whichever process, after whatever other shards.

    Raises:
        DataError: the input or the hub is no longer what ``job`` says.
    """
    encoder[0].cache.reset()
    found = encoded(args, encoder, texts, langs, **_options(args))
    _check_unchanged(job, state_of(args, encoder.hub))
    return found


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "normalize_embeddings": args.normalize,
        "truncate_dim": args.truncate_dim,
        "precision": args.precision,
    }


def _print(args: argparse.Namespace, encoder: ModularEncoder) -> None:
    for texts, langs in batches(args, encoder.max_characters, None):
        vectors, codes = encoded(args, encoder, texts, langs, **_options(args))
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
            vectors, codes = encode_shard(args, encoder, texts, langs, job)
            store.write(done, count, vectors, codes)
            done, count = done + 1, count + len(texts)
        hook.remove()
    return count, done


def _check_unchanged(job: dict[str, Any], now: dict[str, Any]) -> None:
    """Check before a shard is stored that it is of the job's texts and modules."""
    changed = ", ".join(name for name in now if now[name] != job[name])
    if changed and job["input"] != STDIN:
        raise DataError(
            f"{job['input']} or {job['hub']} changed while it was encoded (differing: {changed}); "
            "run the same command again; it starts over unless the old state is back"
        )
    if changed:
        warnings.warn(f"{job['hub']} changed in the meantime: vectors are of both its states", stacklevel=2)


def job_of(args: argparse.Namespace, encoder: ModularEncoder) -> dict[str, Any]:
    """What must be the same for finished shards to count."""
    job: dict[str, Any] = {name: getattr(args, name) for name in _JOB}
    job["compute"] = _computed_in(args.compute, encoder.device)
    if args.input != STDIN:
        job["input"] = str(Path(args.input).resolve())
    return job | {"hub": str(encoder.hub.path.resolve())} | state_of(args, encoder.hub)


def _computed_in(compute: str, device: torch.device) -> str:
    """The precision that ``compute`` comes to on ``device``; on another machine it may be another."""
    from modenc.composition.settings import ComputeSettings

    if compute == "int8":
        # All but the products is computed as with ``auto``.
        return f"int8 and {ComputeSettings(AUTO).precision(device)}"
    return ComputeSettings(compute).precision(device)


def state_of(args: argparse.Namespace, hub: Hub) -> dict[str, Any]:
    """What others may change while the job runs: the input's size and date, and the modules used."""
    from modenc.composition.routing import ERROR
    from modenc.languages import BASE, normalize_code

    digest = hashlib.sha256(repr(hub.info).encode())
    codes = hub.languages()
    if (lang := language_of(args)) is not None:
        fallback = args.fallback or hub.info.pivot  # by default the pivot or the base
        used = {normalize_code(code) for code in (lang, fallback) if code not in (BASE, ERROR)}
        codes = [code for code in codes if code in used]
    for code in codes:
        digest.update(f"{code} {hub.card(code).digest()}\n".encode())
    state: dict[str, Any] = {"modules": digest.hexdigest()}
    if args.input != STDIN:
        found = [Path(file).stat() for file in source_files(args.input)]
        sizes, dates = [one.st_size for one in found], [one.st_mtime_ns for one in found]
        alone = len(found) == 1  # as shards were described before folders could be read
        state |= {"size": sizes[0] if alone else sizes, "date": dates[0] if alone else dates}
    return state
