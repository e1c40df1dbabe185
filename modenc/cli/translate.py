"""``modenc translate``: translate training text by machine to TSV, with a filter."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from modenc.cli.arguments import (
    add_command,
    add_option,
    add_shared,
    positive,
    progress_bar,
    share,
    write,
)
from modenc.cli.parts import KEPT, Part, check_place, list_parts, missing_parts
from modenc.data.formats import Row, file_format, read_file, text_in_column
from modenc.data.text import one_line
from modenc.errors import DataError, OptionError
from modenc.languages import normalize_code
from modenc.storage import atomic_write, disk_errors
from modenc.texts import normalize
from modenc.translation import REASONS, Chain, PairFilter

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 512


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "translate", run)
    text = "file of text, TSV, CSV, JSONL or Parquet (plain, .gz or .zst), or a folder of such files"
    add_shared(parser, "--input", help=text)
    text = "a .tsv file, or a folder for parts, which a rerun completes"
    add_shared(parser, "--output", help=text, type=str)
    text = "column to translate; may be repeated (default: text)"
    add_shared(parser, "--column", action="append", default=[], help=text)
    text = "rows in a part, where the output is a folder"
    add_option(parser, "--part-size", "N", text, type=positive, default=10_000)
    add_shared(parser, "--json", help="print the summary as JSON")

    group = parser.add_argument_group("engine")
    add_option(group, "--source", "CODE", "language of the text", required=True)
    add_option(group, "--target", "CODE", "language to translate to", required=True)
    add_option(group, "--via", "CODE", "language between both")
    add_option(group, "--model", "DIR|ID", "DIR, ID or ID@COMMIT")
    add_option(group, "--data-dir", "DIR", "apertium: folder of a language pair built from source", type=Path)

    group = parser.add_argument_group("rows to drop")
    add_option(group, "--max-unknown", "SHARE", "largest share of unknown words", type=share, default=0.25)
    add_option(group, "--no-language-check", None, "keep translations in other languages")


def run(args: argparse.Namespace) -> None:
    r"""Translate training text by machine.

    Translates columns of a file to TSV, and drops rows with bad translations.

    engines:
      apertium  rule-based; a program of its own (apt-get install apertium apertium-eng-spa), with a mode for
                each direction, installed or built in --data-dir
      --model   NLLB, M2M100, Marian: a folder, or an id on Hugging Face (pip install "modenc[translate]")

    --via translates through another language, with the same engine.

    A translation replaces the text of its column; the other columns are copied. Plain text becomes a table of
    both languages: en and kk.

    For much text, let --output be a folder: each finished part is kept, and the same command goes on with the
    missing parts after an interruption. FILE gives the parts FILE-00000.tsv, FILE-00001.tsv, ...

    Examples:
        modenc translate -i stsb.tsv -o stsb.kk.tsv --source en --target kk \
            --column sentence1 --column sentence2
        modenc translate -i text.txt.gz -o pairs.tsv --source en --via tr --target az
        modenc translate -i nli.jsonl -o nli.kk/ --source en --target kk \
            --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
    """
    # Options and files are checked before models are loaded, which takes minutes.
    if args.model and args.data_dir:
        raise OptionError("--data-dir: expected no --model with it; leave it out")
    check_place(args, (".tsv",))
    if Path(args.input).is_dir() and not args.in_parts:
        raise DataError(f"{args.output}: expected a folder, which a folder of files needs; add /")
    columns = list(dict.fromkeys(args.column)) or ["text"]
    parts = list_parts(args, ".tsv", lambda file: sum(1 for _ in _read(Path(file), columns)))
    chain = _chain(args)
    # As it was given: of languages with several scripts, models have a code for each.
    pair_filter = PairFilter(args.source, args.target, args.max_unknown, args.language_check)
    counts = Counter[str](read=0, kept=0)
    work = missing_parts(args.output, parts, _settings(args, chain)) if args.in_parts else nullcontext(parts)
    with work as missing, progress_bar(" rows", sum(part.rows or 0 for part in missing)) as bar:
        for part in missing:
            own = _translate_part(args, columns, chain, pair_filter, part)
            counts.update(own)
            bar.update(own["read"])
    dropped = {reason: counts[reason] for reason in REASONS if counts[reason]}
    reasons = ", ".join(f"{count:,} {REASONS[reason]}" for reason, count in dropped.items())
    read = f"read {counts['read']:,}, kept {counts['kept']:,}"
    logger.info("%s, by %s: %s", args.output, chain, f"{read} ({reasons})" if reasons else read)
    summary = {"output": str(args.output), "read": counts["read"], "kept": counts["kept"], "dropped": dropped}
    write(args, summary, f"{args.output}\t{counts['kept']}\n")


def _chain(args: argparse.Namespace) -> Chain:
    pairs = pairwise(code for code in (args.source, args.via, args.target) if code)
    if args.model:
        from modenc.translation.neural import Model, NeuralStep

        model = Model(args.model)
        return Chain("transformers", tuple(NeuralStep(model, *pair) for pair in pairs))
    from modenc.translation.apertium import Apertium

    return Chain("apertium", tuple(Apertium(*pair, args.data_dir) for pair in pairs))


def _settings(args: argparse.Namespace, chain: Chain) -> dict[str, Any]:
    names = ("column", "source", "via", "target", "max_unknown", "language_check", "part_size")
    return {"translator": str(chain), **{name: getattr(args, name) for name in names}}


def _translate_part(
    args: argparse.Namespace, columns: Sequence[str], chain: Chain, pair_filter: PairFilter, part: Part
) -> Counter[str]:
    """Translate a part; it is written whole or not at all.

    Returns:
        Numbers of rows: ``read``, ``kept``, and dropped ones by their reason, one of ``REASONS``.

    Raises:
        DataError: the input cannot be read.
        StorageError: the disk is full or read-only.
    """
    path = Path(part.files[0])
    rows = islice(_read(path, columns), part.first, None if part.rows is None else part.first + part.rows)
    counts, header = Counter[str](read=0, kept=0), list[str]()
    with (
        disk_errors(part.path, KEPT),
        atomic_write(part.path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            for output, reason in _translate(args, columns, chain, pair_filter, path, batch):
                if not header:
                    header = list(output)
                    stream.write(_line(header))
                if not reason:
                    stream.write(_line([output[name] for name in header]))
                counts.update({"read": 1, reason or "kept": 1})
    return counts


def _read(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Read the rows of a file; each has the columns of the first one, with normalized texts to translate."""
    header = list[str]()
    for number, row in enumerate(read_file(path), start=1):
        header = header or list(row)
        if different := sorted({*row} ^ {*header}):
            raise DataError(
                f"{path}, row {number}: expected the columns of row 1, found a difference in "
                f"{', '.join(different)}; give each row all columns"
            )
        texts = {
            column: normalize(text_in_column(row, column, path, number, "--column", may_be_null=True))
            for column in columns
        }
        yield row | texts
    if not header:
        raise DataError(f"{path}: expected rows to translate, found none")


def _translate(
    args: argparse.Namespace,
    columns: Sequence[str],
    chain: Chain,
    pair_filter: PairFilter,
    path: Path,
    batch: Sequence[Row],
) -> Iterator[tuple[dict[str, str], str]]:
    """Yield for each row the output row, and the reason to drop its first bad translation or ""."""
    texts = [row[column] for row in batch for column in columns]
    results = chain.translate(texts)
    reasons = pair_filter.check(texts, results)
    for number, row in enumerate(batch):
        own = slice(number * len(columns), (number + 1) * len(columns))
        translations = [result.text for result in results[own]]
        if file_format(path) == ".txt":
            output = {normalize_code(args.source): row["text"], normalize_code(args.target): translations[0]}
        else:
            output = row | dict(zip(columns, translations, strict=True))
        yield output, next(filter(None, reasons[own]), "")


def _line(values: Sequence[str]) -> str:
    return "\t".join(map(one_line, values)) + "\n"
