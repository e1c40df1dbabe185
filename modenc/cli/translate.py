"""``modenc translate``: translate training text by machine."""

from __future__ import annotations

import argparse
import logging
import os
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from modenc.cli.text_io import check_output, source_files
from modenc.errors import DataError, OptionError
from modenc.storage import disk_errors, exclusive_lock

if TYPE_CHECKING:
    from modenc.translation import Chain
    from modenc.translation.translate_file import Part, TranslationJob

logger = logging.getLogger(__name__)

_PART_SIZE = 10_000


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "translate", run)
    text = "file of text, TSV, CSV, JSONL or Parquet (plain, .gz or .zst), or a folder of such files"
    add_shared(parser, "--input", type=Path, help=text)
    text = (
        ".tsv or .tsv.gz, or a folder for parts, which a rerun completes (it exists, or its name ends in / "
        "or has no ending)"
    )
    add_shared(parser, "--output", help=text, type=str)
    text = "column to translate; may be repeated (default: text)"
    add_shared(parser, "--column", action="append", default=[], help=text)
    add_option(parser, "--license", "NAME", "license of the text, such as CC-BY-SA-4.0", default="")
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
                (pip install "modenc[translate]"). A folder that ct2-transformers-converter wrote, with the
                tokenizer's files, is run by CTranslate2

    --via translates through other languages. All steps use the same --model, unless it is given once for each
    step. With apertium, each step uses the mode between its two languages, unless --mode is given once for
    each step.

    A translation replaces the text of its column, and the original moves to COLUMN_SOURCE: sentence1 and
    sentence1_en. A column called by the source's code keeps its text, and the translation gets a column of
    its own: en and kk. Plain text becomes such a table.

    For much text, let --output be a folder: each finished part is kept, and the same command goes on with the
    missing parts after an interruption. A folder of files gives a part for each file (FILE.tsv), a file gives
    part-00000.tsv, part-00001.tsv, ... PART.translation.json records the translator and the license of the
    text; recipes and cards use it.

    Examples:
        modenc translate -i stsb.tsv -o stsb.kk.tsv --source en --target kk \
            --column sentence1 --column sentence2 --license CC-BY-SA-4.0
        modenc translate -i text.txt.gz -o pairs.tsv --source en --via tr --target az
        modenc translate -i nli.jsonl -o nli.kk/ --source en --target kk \
            --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
    """
    from modenc.languages import normalize_code
    from modenc.translation.pair_filter import REASONS, FilterSettings, PairFilter
    from modenc.translation.translate_file import KEPT, TranslationJob, translate_part

    # Options and files are checked before models are loaded, which takes minutes.
    _check(args)
    job = TranslationJob(
        normalize_code(args.source),
        normalize_code(args.target),
        tuple(dict.fromkeys(args.column)),
        FilterSettings(args.max_unknown, args.max_length_ratio, args.language_check),
        unknown=not args.model,
        license=args.license,
    )
    parts = _parts(args, job)
    chain = _chain(args)
    # As it was given: of languages with several scripts, models have a code for each.
    pair_filter = PairFilter(job.filters, args.source, args.target)
    counts = Counter[str](read=0, kept=0, cut=0)
    with ExitStack() as stack:
        if args.in_parts:
            busy = DataError(
                f"{args.output}: another process writes it; wait until it is done, or write elsewhere"
            )
            stack.enter_context(disk_errors(args.output, KEPT))
            stack.enter_context(exclusive_lock(args.output, busy))
            parts = _missing(args.output, job, chain, parts)
        bar = stack.enter_context(progress_bar(" rows", sum(part.rows for part in parts)))
        for part in parts:
            counts.update(translate_part(job, chain, pair_filter, part, bar.update))
    dropped = {reason: counts[reason] for reason in REASONS if counts[reason]}
    reasons = ", ".join(f"{count:,} {REASONS[reason]}" for reason, count in dropped.items())
    read = f"read {counts['read']:,}, kept {counts['kept']:,}"
    logger.info("%s: %s", args.output, f"{read} ({reasons})" if reasons else read)
    if counts["cut"]:
        logger.info("%d rows were longer than the model's limit and were cut; split them", counts["cut"])
    summary = {name: counts[name] for name in ("read", "kept", "cut")} | {"dropped": dropped}
    write(args, {"output": str(args.output), **summary}, f"{args.output}\t{counts['kept']}\n")


def _check(args: argparse.Namespace) -> None:
    """Check the options against each other and the disk; sets ``output`` and ``in_parts``."""
    misplaced, engine = ("mode", "data_dir"), "no --model"
    if not args.model:
        misplaced, engine = ("beams", "batch_size"), "--model"
    for name in misplaced:
        if getattr(args, name):
            raise OptionError(f"--{name.replace('_', '-')}: expected {engine} with it; leave it out")
    word, args.output = args.output, Path(args.output)
    output, is_folder = args.output, args.input.is_dir()
    args.in_parts = output.is_dir() or word.endswith(("/", os.sep)) or not output.suffix
    if args.part_size and (is_folder or not args.in_parts):
        raise OptionError("--part-size: expected a file for --input and a folder for --output; leave it out")
    if not args.in_parts:
        if is_folder or not output.name.endswith((".tsv", ".tsv.gz")):
            raise DataError(
                f"{output}: expected an output ending in .tsv or .tsv.gz, or a folder, which a folder of "
                "files needs; rename it"
            )
        check_output(output, args.input)
    elif output.exists() and not output.is_dir():
        raise DataError(f"{output}: expected a folder, found a file; choose another name")
    elif not output.absolute().parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    elif output.resolve() == (args.input if is_folder else args.input.parent).resolve():
        raise DataError(f"{output}: expected another folder than the input's; write the output elsewhere")


def _parts(args: argparse.Namespace, job: TranslationJob) -> list[Part]:
    """List the output files, after all rows were read and checked."""
    from modenc.translation.translate_file import list_parts

    if not args.in_parts:
        return list_parts(job, args.input, [args.output])
    if not args.input.is_dir():
        outputs = (args.output / f"part-{number:05}.tsv" for number in count())
        return list_parts(job, args.input, outputs, args.part_size or _PART_SIZE)
    files = map(Path, source_files(str(args.input)))
    names = ((file, f"{file.name.removesuffix('.tsv')}.tsv") for file in files)
    return [part for file, name in names for part in list_parts(job, file, [args.output / name])]


def _chain(args: argparse.Namespace) -> Chain:
    languages = [args.source, *args.via, args.target]
    if not args.model:
        from modenc.translation.apertium import apertium_chain

        return apertium_chain(languages, args.mode, args.data_dir)
    from modenc.translation.neural import model_chain

    given = {"beams": args.beams, "batch_size": args.batch_size}
    return model_chain(args.model, languages, **{name: value for name, value in given.items() if value})


def _missing(folder: Path, job: TranslationJob, chain: Chain, parts: list[Part]) -> list[Part]:
    """Return the parts that are not in the folder yet, and remove what a killed process left.

    Raises:
        DataError: the folder has other .tsv files, or a part that was made of anything else.
    """
    from modenc.translation.translate_file import describe_part, is_done

    for leftover in folder.glob(".*.tmp-*.tsv"):
        leftover.unlink(missing_ok=True)
    names = {part.output.name for part in parts}
    if others := sorted(path.name for path in folder.glob("*.tsv") if path.name not in names):
        raise DataError(
            f"{folder}: expected .tsv files of the present input, found {len(others)} others "
            f"({', '.join(others[:3])}); move them away, or write to another folder"
        )
    missing = [part for part in parts if not is_done(part, describe_part(job, chain, part))]
    logger.info("%s: %d of %d parts are done", folder, len(parts) - len(missing), len(parts))
    return missing
