"""``modenc encode``: texts of any size to vectors, in shards that a killed run resumes from."""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    AUTO,
    add_encoding,
    add_hub,
    encoded,
    language_of,
    open_encoder,
    positive,
    report_cuts,
)
from modenc.cli.shards import ShardStore, check_output
from modenc.cli.text_io import STDIN, batched, read_texts
from modenc.errors import DataError

if TYPE_CHECKING:
    import torch

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)

DEFAULT_SHARD = 4096


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "encode",
        help=summary,
        description="Encodes the lines of a text file, or a column of TSV, CSV, JSONL or Parquet. "
        ".npy: float32 [texts, hidden], row i is text i. .parquet: columns index, language, vector. "
        "The input is read as a stream; finished shards wait in OUTPUT.parts/, "
        "and a run that was cut off goes on from them.",
        epilog="examples:\n"
        "  modenc encode --hub adapters_hub/me5-small --input texts.txt --output vectors.npy\n"
        "  modenc encode --hub adapters_hub/me5-small --input texts.parquet --column body "
        "--lang kk --output kk.npy\n"
        "  zcat texts.gz | modenc encode --hub adapters_hub/me5-small --input - --output vectors.parquet",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_hub(parser)
    parser.add_argument("--input", required=True, metavar="FILE", help="texts; - is standard input")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="vectors: .npy or .parquet"
    )
    add_encoding(parser)
    parser.add_argument(
        "--shard-size",
        type=positive,
        default=DEFAULT_SHARD,
        metavar="N",
        help=f"texts between two savings (default: {DEFAULT_SHARD})",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from modenc.languages import BASE, normalize_code

    # All of this before torch is imported, and before anything an earlier run has finished could be lost.
    check_output(args.output, args.input)
    if (code := language_of(args)) not in (None, BASE):
        normalize_code(str(code))
    if args.input != STDIN:
        next(read_texts(args.input, args.column), None)
    encoder = open_encoder(args)
    job = _job(args, encoder)
    store = ShardStore(args.output, encoder.hub.info.hidden_size)
    with store.alone():
        total, shards = _fill(args, encoder, store, job)
        store.join(shards)
    logger.info("%s: %d vectors of %d numbers", args.output, total, store.hidden_size)
    report_cuts(args, encoder)
    return 0


def _fill(
    args: argparse.Namespace, encoder: ModularEncoder, store: ShardStore, job: dict[str, Any]
) -> tuple[int, int]:
    """Write the shards that are not done yet; returns how many texts and shards there are in all."""
    from tqdm import tqdm

    done = store.begin(job, resumable=args.input != STDIN)
    if args.input == STDIN:
        logger.info("standard input cannot be read twice: if this run is cut off, it starts over")
    elif done:
        logger.info("%d shards of %d texts are done already; going on from there", done, args.shard_size)
    texts = read_texts(args.input, args.column, encoder[0].max_characters)
    first = sum(1 for _ in islice(texts, done * args.shard_size))
    with tqdm(
        total=_count(args.input), initial=first, unit=" texts", file=sys.stderr, dynamic_ncols=True
    ) as bar:
        for batch in batched(texts, args.shard_size):
            vectors, codes = encoded(args, encoder, batch)
            _check_unchanged(job, _state(args, encoder.hub))
            store.write(done, first, vectors, codes)
            done, first = done + 1, first + len(batch)
            bar.update(len(batch))
    return first, done


def _check_unchanged(job: dict[str, Any], now: dict[str, Any]) -> None:
    """See before shards are stored that they are of the job's texts and modules."""
    changed = ", ".join(name for name in now if now[name] != job[name])
    if changed and job["input"] != STDIN:
        raise DataError(
            f"{job['input']} or {job['hub']} changed while it was encoded (differing: {changed}); "
            "run the same again, which starts over where it stays so"
        )
    if changed:
        warnings.warn(f"{job['hub']} changed meanwhile: vectors are of both its states", stacklevel=2)


def _job(args: argparse.Namespace, encoder: ModularEncoder) -> dict[str, Any]:
    """What must be the same for finished shards to count."""
    settings = ("input", "column", "lang", "align", "fallback", "min_confidence", "shard_size")
    job: dict[str, Any] = {name: getattr(args, name) for name in settings}
    job["compute"] = _computed_in(args.compute, encoder.device)
    if args.input != STDIN:
        job["input"] = str(Path(args.input).resolve())
    return job | {"hub": str(encoder.hub.path.resolve())} | _state(args, encoder.hub)


def _computed_in(compute: str, device: torch.device) -> str:
    """What vectors are computed in on ``device``: another machine may make another of a word."""
    from modenc.composition.settings import ComputeSettings

    if compute == "int8":
        # Beside its products, in what ``auto`` is.
        return f"int8 and {ComputeSettings(AUTO).precision(device)}"
    return ComputeSettings(compute).precision(device)


def _state(args: argparse.Namespace, hub: Hub) -> dict[str, Any]:
    """Of the job, what others may change while it runs: the input's size and date, and the modules used."""
    from modenc.composition.engine import BASE
    from modenc.composition.language_choice import ERROR
    from modenc.languages import normalize_code

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
        found = Path(args.input).stat()
        state |= {"size": found.st_size, "date": found.st_mtime_ns}
    return state


def _count(source: str) -> int | None:
    """Number of texts where it costs next to nothing to know: the bar then shows the time left."""
    path = Path(source)
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return int(pq.ParquetFile(path).metadata.num_rows)
        except pa.ArrowException:
            return None
    if source == STDIN or path.suffix not in (".txt", ".jsonl"):
        return None
    count, last = 0, b""
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last not in (b"", b"\n"))
