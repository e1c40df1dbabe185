"""``modenc translate``: translate training text by machine to TSV, with a filter."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from modenc.cli.arguments import (
    add_command,
    add_option,
    add_shared,
    bounded,
    positive,
    progress_bar,
    share,
    write,
)
from modenc.cli.parts import KEPT, Part, check_place, list_parts, missing_parts
from modenc.data.formats import Row, file_format, read_file, text_in_column
from modenc.data.text import one_line
from modenc.errors import DataError, OptionError
from modenc.storage import disk_errors, sync, whole_file, write_atomically
from modenc.texts import normalize
from modenc.translation import Chain, credit
from modenc.translation.pair_filter import REASONS, FilterSettings, PairFilter, first_reason

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
"""Column with the largest share of unknown words in a row's translations."""

_PART_SIZE = 10_000
_ROWS_AT_ONCE = 512


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "translate", run)
    text = "file of text, TSV, CSV, JSONL or Parquet (plain, .gz or .zst), or a folder of such files"
    add_shared(parser, "--input", help=text)
    text = (
        ".tsv or .tsv.gz, or a folder for parts, which a rerun completes (it exists, or its name ends in / "
        "or has no ending)"
    )
    add_shared(parser, "--output", help=text, type=str)
    text = "column to translate; may be repeated (default: text)"
    add_shared(parser, "--column", action="append", default=[], help=text)
    text = f"rows in a part, where an input file is translated to a folder (default: {_PART_SIZE})"
    add_option(parser, "--part-size", "N", text, type=positive)
    add_shared(parser, "--json", help="print the summary as JSON")

    group = parser.add_argument_group("engine")
    add_option(group, "--source", "CODE", "language of the text", required=True)
    add_option(group, "--target", "CODE", "language to translate to", required=True)
    each = {"action": "append", "default": []}
    add_option(group, "--via", "CODE", "language between both; may be repeated, in order", **each)
    add_option(group, "--model", "DIR|ID", "DIR, ID or ID@COMMIT; once, or once for each step", **each)
    add_option(group, "--beams", "N", "models: width of the beam search (default: 4)", type=positive)
    add_option(group, "--batch-size", "N", "models: texts in a batch (default: 16)", type=positive)
    add_option(
        group, "--mode", "MODE", "apertium: name of a mode, such as eng-kaz; once for each step", **each
    )
    add_option(group, "--data-dir", "DIR", "apertium: folder of a language pair built from source", type=Path)

    group = parser.add_argument_group("rows to drop")
    add_option(group, "--max-unknown", "SHARE", "largest share of unknown words", type=share, default=0.25)
    ratio = bounded(float, 1, 1000)
    text = "largest ratio of the longer side to the shorter"
    add_option(group, "--max-length-ratio", "X", text, type=ratio, default=4.0)
    add_option(group, "--no-language-check", None, "keep translations in other languages")


def run(args: argparse.Namespace) -> None:
    r"""Translate training text by machine.

    Translates columns of a file to TSV, and drops rows with bad translations.

    engines:
      apertium  rule-based; a program of its own (apt-get install apertium apertium-eng-spa), with a mode for
                each direction, installed or built in --data-dir
      --model   NLLB, M2M100, MADLAD, Marian: a folder, or an id on Hugging Face
                (pip install "modenc[translate]")

    --via translates through other languages. All steps use the same --model, unless it is given once for each
    step. With apertium, each step uses the mode between its two languages, unless --mode is given once for
    each step.

    A translation replaces the text of its column, and the original moves to COLUMN_SOURCE: sentence1 and
    sentence1_en. A column called by the source's code keeps its text, and the translation gets a column of
    its own: en and kk. Plain text becomes such a table.

    For much text, let --output be a folder: each finished part is kept, and the same command goes on with the
    missing parts after an interruption. A folder of files gives a part for each file (FILE.tsv), a file gives
    part-00000.tsv, part-00001.tsv, ... PART.translation.json says what a part was made of.

    Examples:
        modenc translate -i stsb.tsv -o stsb.kk.tsv --source en --target kk \
            --column sentence1 --column sentence2
        modenc translate -i text.txt.gz -o pairs.tsv --source en --via tr --target az
        modenc translate -i nli.jsonl -o nli.kk/ --source en --target kk \
            --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
    """
    from modenc.languages import normalize_code

    # Options and files are checked before models are loaded, which takes minutes.
    _check(args)
    job = TranslationJob(
        normalize_code(args.source),
        normalize_code(args.target),
        tuple(dict.fromkeys(args.column)),
        FilterSettings(args.max_unknown, args.max_length_ratio, args.language_check),
        unknown=not args.model,
    )
    parts = list_parts(args, ".tsv", job.count)
    chain = _chain(args)
    parts = [replace(part, made_of=describe_part(job, chain, part)) for part in parts]
    # As it was given: of languages with several scripts, models have a code for each.
    pair_filter = PairFilter(job.filters, args.source, args.target)
    counts = Counter[str](read=0, kept=0, cut=0)
    with ExitStack() as stack:
        if args.in_parts:
            parts = stack.enter_context(missing_parts(args.output, parts, _made_of))
        bar = stack.enter_context(progress_bar(" rows", sum(part.rows or 0 for part in parts)))
        for part in parts:
            if args.in_parts:
                with disk_errors(part.path, KEPT):
                    write_atomically(_record(part.path), json.dumps(part.made_of, indent=1))
            counts.update(translate_part(job, chain, pair_filter, part, bar.update))
    dropped = {reason: counts[reason] for reason in REASONS if counts[reason]}
    reasons = ", ".join(f"{count:,} {REASONS[reason]}" for reason, count in dropped.items())
    read = f"read {counts['read']:,}, kept {counts['kept']:,}"
    logger.info(
        "%s, by %s: %s", args.output, credit(chain.describe()), f"{read} ({reasons})" if reasons else read
    )
    if counts["cut"]:
        logger.info("%d rows were longer than the model's limit and were cut; split them", counts["cut"])
    summary = {name: counts[name] for name in ("read", "kept", "cut")} | {"dropped": dropped}
    write(args, {"output": str(args.output), **summary}, f"{args.output}\t{counts['kept']}\n")


def _check(args: argparse.Namespace) -> None:
    """Check the options against each other, see also :func:`check_place`."""
    misplaced, engine = ("mode", "data_dir"), "no --model"
    if not args.model:
        misplaced, engine = ("beams", "batch_size"), "--model"
    for name in misplaced:
        if getattr(args, name):
            raise OptionError(f"--{name.replace('_', '-')}: expected {engine} with it; leave it out")
    check_place(args, (".tsv", ".tsv.gz"), _PART_SIZE)
    if Path(args.input).is_dir() and not args.in_parts:
        raise DataError(f"{args.output}: expected a folder, which a folder of files needs; add /")


def _chain(args: argparse.Namespace) -> Chain:
    languages = [args.source, *args.via, args.target]
    if not args.model:
        from modenc.translation.apertium import apertium_chain

        return apertium_chain(languages, args.mode, args.data_dir)
    from modenc.translation.neural import model_chain

    given = {"beams": args.beams, "batch_size": args.batch_size}
    return model_chain(args.model, languages, **{name: value for name, value in given.items() if value})


@dataclass(frozen=True)
class TranslationJob:
    """What is translated in each file.

    A translation replaces the text of its column, and the original moves to ``COLUMN_SOURCE``
    (``sentence1_en``). A column called by the source's code (``en``) keeps its text, and the translation goes
    into a column called by the target's code; the lines of plain text are such a column.
    """

    source: str
    """Normalized code of the texts' language."""
    target: str
    """Normalized code of the translations' language."""
    columns: tuple[str, ...] = ()
    """Columns to translate; by default the lines of plain text, and the column ``text`` of other files."""
    filters: FilterSettings = field(default_factory=FilterSettings)
    unknown: bool = False
    """Whether to add the column of shares of unknown words."""

    def columns_in(self, path: Path) -> tuple[str, ...]:
        """Return the columns to translate in a file.

        Raises:
            DataError: the file is plain text, and columns were named.
        """
        plain = path.is_file() and file_format(path) == ".txt"
        if plain and self.columns:
            raise DataError(f"{path}: plain text has no columns; leave out --column")
        return self.columns or (self.source if plain else "text",)

    def count(self, file: str) -> int:
        """Count the rows of a file, and check them.

        Raises:
            DataError: the file cannot be read, has no rows, lacks a column, or has one that the output adds.
        """
        count = sum(1 for _ in _read(self, Path(file)))
        if not count:
            raise DataError(f"{file}: expected rows to translate, found none")
        return count

    def places(self, column: str) -> tuple[str, str]:
        """Return the output columns of the texts of a column, and of their translations."""
        if column == self.source:
            return column, self.target
        return f"{column}_{self.source}", column


def describe_part(job: TranslationJob, chain: Chain, part: Part) -> dict[str, Any]:
    """Describe what a part is made of."""
    (file,) = part.files
    steps = chain.describe()
    return {
        "translator": credit(steps),
        "text": Path(file).name,
        "source": job.source,
        "target": job.target,
        "steps": steps,
        "columns": list(job.columns_in(Path(file))),
        "filters": asdict(job.filters),
        **part.made_of,
    }


def _made_of(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return dict(json.loads(_record(path).read_text(encoding="utf-8")))
    return {}


def _record(path: Path) -> Path:
    """Return the path of the file that says what a part was made of."""
    return path.with_name(f"{path.name}.translation.json")


def translate_part(
    job: TranslationJob,
    chain: Chain,
    pair_filter: PairFilter,
    part: Part,
    progress: Callable[[int], object] = lambda rows: None,
) -> Counter[str]:
    """Translate a part; it is written whole or not at all.

    ``progress`` is called with the number of newly finished rows.

    Returns:
        Numbers of rows: ``read``, ``kept``, ``cut`` (longer than the model's maximum length), and dropped
        ones by their reason, one of ``pair_filter.REASONS``.

    Raises:
        DataError: the input cannot be read, or changed meanwhile.
        StorageError: the disk is full or read-only.
    """
    path = Path(part.files[0])
    rows = islice(_read(job, path), part.first, None if part.rows is None else part.first + part.rows)
    counts, header = Counter[str](read=0, kept=0, cut=0), list[str]()
    with disk_errors(part.path, KEPT), whole_file(part.path) as temporary:
        with _open(temporary) as stream:
            while batch := list(islice(rows, _ROWS_AT_ONCE)):
                for output, reason, cut in _translate(job, chain, pair_filter, path, batch):
                    if not header:
                        header = list(output)
                        stream.write(_line(header))
                    if not reason:
                        stream.write(_line([output[name] for name in header]))
                    counts.update({"read": 1, reason or "kept": 1, "cut": int(cut)})
                progress(len(batch))
        if part.input() != part.made_of["input"]:
            raise DataError(f"{path}: changed while it was translated; run the same command again")
        sync(temporary)
    return counts


def _read(job: TranslationJob, path: Path) -> Iterator[Row]:
    """Read the rows of a file; each has the columns of the first one, with normalized texts to translate."""
    columns = job.columns_in(path)
    added = {place for column in columns for place in job.places(column)} - {*columns} | (
        {UNKNOWN} if job.unknown else set()
    )
    plain = path.is_file() and file_format(path) == ".txt"
    header = list[str]()
    for number, row in enumerate(read_file(path), start=1):
        if plain:
            row = {columns[0]: row["text"]}
        header = header or list(row)
        if different := sorted({*row} ^ {*header}):
            raise DataError(
                f"{path}, row {number}: expected the columns of row 1, found a difference in "
                f"{', '.join(different)}; give each row all columns"
            )
        if taken := sorted(added.intersection(row)):
            raise DataError(
                f"{path}, row {number}: expected no column {taken[0]!r}, which is an output column; rename it"
            )
        texts = {
            column: normalize(text_in_column(row, column, path, number, may_be_null=True))
            for column in columns
        }
        yield row | texts


def _translate(
    job: TranslationJob, chain: Chain, pair_filter: PairFilter, path: Path, batch: Sequence[Row]
) -> Iterator[tuple[dict[str, str], str, bool]]:
    """Yield for each row the output row, the reason to drop it or "", and whether a text was cut."""
    columns = job.columns_in(path)
    texts = [row[column] for row in batch for column in columns]
    results = chain.translate(texts)
    reasons = pair_filter.check(texts, results)
    for number, row in enumerate(batch):
        own = slice(number * len(columns), (number + 1) * len(columns))
        output = dict(row)
        for column, result in zip(columns, results[own], strict=True):
            original, translation = job.places(column)
            output |= {original: row[column], translation: result.text}
        if job.unknown:
            output[UNKNOWN] = str(round(max(result.unknown for result in results[own]), 4))
        yield output, first_reason(reasons[own]), any(result.cut for result in results[own])


def _line(values: Sequence[str]) -> str:
    return "\t".join(map(one_line, values)) + "\n"


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            # Without time and name, so that equal rows give equal bytes.
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(stream, encoding="utf-8", newline="\n"))
