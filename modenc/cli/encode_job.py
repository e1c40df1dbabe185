"""Shards of ``modenc encode``: their texts and vectors, and the job that they belong to."""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modenc.cli.arguments import AUTO, encode_texts, given_language
from modenc.cli.text_io import LANG_COLUMN, STDIN, batched, read_texts, source_files
from modenc.errors import DataError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

_JOB = (
    *("input", "column", "lang", "lang_column", "align", "fallback", "min_confidence", "shard_size"),
    *("normalize", "truncate_dim", "precision"),
)


class Shard(NamedTuple):
    """Up to ``--shard-size`` texts."""

    number: int
    """Its number, from 0."""
    texts: list[str]
    langs: Sequence[str | None] | None
    """The languages in ``--lang-column``; None without that option."""


def read_shards(
    args: argparse.Namespace, max_characters: int, counts: dict[str, int] | None, start: int = 0
) -> Iterator[Shard]:
    """Read the shards from number ``start`` on; ``counts`` is the number of texts of each file, if known."""
    files: list[str] = []
    skip = start * args.shard_size
    for file in counts or source_files(args.input):
        if counts and not files and skip >= counts[file]:
            skip -= counts[file]
        else:
            files.append(file)

    def column(name: str, option: str, limit: int | None = None) -> Iterator[str]:
        found = chain.from_iterable(read_texts(file, name, limit, option) for file in files)
        return islice(found, skip, None)

    languages = column(args.lang_column, LANG_COLUMN) if args.lang_column else None
    texts = column(args.column, "--column", max_characters)
    for number, batch in enumerate(batched(texts, args.shard_size), start):
        if languages is None:
            yield Shard(number, batch, None)
        else:
            yield Shard(number, batch, [code.strip() or None for code in islice(languages, len(batch))])


def encode_shard(
    args: argparse.Namespace, encoder: ModularEncoder, shard: Shard
) -> tuple[NDArray[Any], list[str]]:
    """Encode a shard to vectors and languages."""
    options = {"truncate_dim": args.truncate_dim, "precision": args.precision}
    first = shard.number * args.shard_size
    return encode_texts(
        args, encoder, shard.texts, shard.langs, first=first, normalize_embeddings=args.normalize, **options
    )


def encode_for_job(
    args: argparse.Namespace, encoder: ModularEncoder, shard: Shard, job: dict[str, Any]
) -> tuple[NDArray[Any], list[str]]:
    """Encode a shard of a job, with the same bytes in any process and order of shards.

    Raises:
        DataError: the input or the hub has changed since ``job`` was made.
    """
    encoder.reset()
    result = encode_shard(args, encoder, shard)
    now = input_state(args, encoder.hub)
    changed = ", ".join(name for name in now if now[name] != job[name])
    if changed and job["input"] != STDIN:
        raise DataError(
            f"{job['input']} or {job['hub']} changed while it was encoded (differing: {changed}); "
            "run the same command again; it starts over, unless you restore the old state first"
        )
    if changed:
        warnings.warn(f"{job['hub']} changed during the run: vectors are of both its states", stacklevel=2)
    return result


def make_job(args: argparse.Namespace, encoder: ModularEncoder, files: dict[str, Any]) -> dict[str, Any]:
    """Return all that must be equal for finished shards to be used again.

    ``files`` is :func:`files_state` from before the texts were counted.
    """
    job: dict[str, Any] = {name: getattr(args, name) for name in _JOB}
    job["compute"] = actual_precision(args.compute, encoder.device)
    if args.input != STDIN:
        job["input"] = str(Path(args.input).resolve())
    return job | {"hub": str(encoder.hub.path.resolve())} | input_state(args, encoder.hub) | files


def actual_precision(compute: str, device: torch.device) -> str:
    """Return the precision that ``compute`` means on ``device``; it can differ between machines."""
    from modenc.composition.options import ComputeSettings

    if compute == "int8":
        # All but the matrix products is computed as with ``auto``.
        return f"int8 and {ComputeSettings(AUTO).precision(device)}"
    return ComputeSettings(compute).precision(device)


def input_state(args: argparse.Namespace, hub: Hub) -> dict[str, Any]:
    """Return all that may change while the job runs: the input's size and date, and the modules used."""
    from modenc.composition.routing import ERROR
    from modenc.languages import BASE, normalize_code

    codes = hub.languages()
    if (lang := given_language(args)) is not None:
        fallback = args.fallback or hub.info.pivot  # by default the pivot or the base
        used = {normalize_code(code) for code in (lang, fallback) if code not in (BASE, ERROR)}
        codes = [code for code in codes if code in used]
    return {"modules": modules_fingerprint(hub, codes)} | files_state(args.input)


def files_state(source: str) -> dict[str, Any]:
    """Return the sizes and dates of the input's files; nothing of standard input."""
    if source == STDIN:
        return {}
    try:
        found = [Path(file).stat() for file in source_files(source)]
    except FileNotFoundError:
        return {}  # reported when it is read
    sizes, dates = [one.st_size for one in found], [one.st_mtime_ns for one in found]
    alone = len(found) == 1  # as shards were described before folders could be read
    return {"size": sizes[0] if alone else sizes, "date": dates[0] if alone else dates}


def modules_fingerprint(hub: Hub, codes: Iterable[str]) -> str:
    """Fingerprint a hub's settings and the modules of some of its languages."""
    hasher = hashlib.sha256(repr(hub.info).encode())
    for code in codes:
        hasher.update(f"{code} {hub.card(code).fingerprint()}\n".encode())
    return hasher.hexdigest()
