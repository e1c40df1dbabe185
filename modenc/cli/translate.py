"""``modenc translate``: translate training text by machine."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add, add_command, bounded, option, positive, progress_bar, share, write
from modenc.cli.text_io import check_output
from modenc.errors import DataError

if TYPE_CHECKING:
    from modenc.translation.pair_filter import FilterSettings, PairFilter
    from modenc.translation.translate_file import TranslationJob

logger = logging.getLogger(__name__)

_MODELS = ("transformers", "ctranslate2")
_ENGINES_OF = {
    "mode": ("apertium",),
    "data_dir": ("apertium",),
    "time_limit": ("apertium",),
    "model": _MODELS,
    "tokenizer": ("ctranslate2",),
    "beams": _MODELS,
    "batch_size": _MODELS,
}
"""Option to the engines that use it."""


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "translate", run)
    add(parser, "--input", type=Path, help="file of text, TSV, CSV, JSONL or Parquet; plain, .gz or .zst")
    add(parser, "--output", help=".txt, .tsv, .jsonl (.gz) or .parquet")
    text = "column to translate; may be repeated (default: text)"
    add(parser, "--column", action="append", default=None, help=text)
    option(parser, "--no-originals", None, "do not write the original texts")
    option(parser, "--license", "NAME", "license of the text, such as CC-BY-SA-4.0", default="")
    text = "rows in a shard; finished shards are saved (default: 512 for apertium, 64 for models)"
    add(parser, "--shard-size", default=None, help=text)
    add(parser, "--json", help="print the summary as JSON")

    group = parser.add_argument_group("engine")
    engines = ("apertium", *_MODELS)
    option(group, "--engine", None, "translation engine, see above", required=True, choices=engines)
    option(group, "--source", "CODE", "language of the text")
    option(group, "--target", "CODE", "language to translate to")
    option(group, "--chain", '"A>B>C"', "all languages of a chain, in order")
    each = {"action": "append", "default": []}
    option(group, "--mode", "MODE", "apertium: name of a mode, such as eng-kaz; once for each step", **each)
    option(group, "--data-dir", "DIR", "apertium: folder of a language pair built from source", type=Path)
    seconds = bounded(float, 0.001, 10**6)
    option(group, "--time-limit", "S", "apertium: most seconds for one sentence (default: 30)", type=seconds)
    option(group, "--model", "DIR|ID", "models: DIR, ID or ID@COMMIT; once, or once for each step", **each)
    option(group, "--tokenizer", "DIR|ID", "ctranslate2: tokenizer, if the model's DIR has none")
    option(group, "--beams", "N", "models: width of the beam search (default: 4)", type=positive)
    option(group, "--batch-size", "N", "models: texts in a batch (default: 16)", type=positive)

    group = parser.add_argument_group("rows to drop")
    option(group, "--max-unknown", "SHARE", "largest share of unknown words", type=share, default=0.25)
    ratio = bounded(float, 1, 1000)
    text = "largest ratio of the longer side to the shorter"
    option(group, "--max-length-ratio", "X", text, type=ratio, default=4.0)
    option(group, "--no-language-check", None, "keep translations in other languages")
    text = "smallest cosine between text and translation (default: no check)"
    option(group, "--min-similarity", "COSINE", text, type=bounded(float, -1, 1))
    add(group, "--hub", required=False, help="hub for the vectors (default: the base me5-small alone)")


def run(args: argparse.Namespace) -> None:
    r"""Translate training text by machine.

    Translates columns of a file, and drops rows with bad translations.

    engines:
      apertium      rule-based; a program of its own (apt-get install apertium apertium-eng-spa), with a mode
                    for each direction, installed or built in --data-dir
      transformers  NLLB, M2M100, MADLAD, Marian: a folder, or an id on Hugging Face
                    (pip install "modenc[translate]")
      ctranslate2   the same models, converted by ct2-transformers-converter

    A chain translates through other languages: --chain "en>tr>az" (in quotes) has two steps, and replaces
    --source and --target. All steps use the same --model, unless it is given once for each step. With
    apertium, each step uses the mode between its two languages, unless --mode is given once for each step.

    A translation replaces the text of its column, and the original moves to COLUMN_SOURCE: sentence1 and
    sentence1_en. A column called by the source's code keeps its text, and the translation gets a column of
    its own: en and kk. Plain text becomes such a table; if OUTPUT is .txt, it becomes the translations alone,
    with an empty line for each dropped row.

    An interrupted run resumes from OUTPUT.parts/. OUTPUT.translation.json records the translator and the
    license of the text; recipes and cards use it.

    Examples:
        modenc translate -i stsb.tsv -o stsb.kk.tsv --engine apertium --mode eng-kaz \
            --column sentence1 --column sentence2 --license CC-BY-SA-4.0
        modenc translate -i text.txt.gz -o pairs.tsv --engine apertium --chain "en>tr>az"
        modenc translate -i nli.jsonl -o nli.kk.jsonl --engine transformers --source en --target kk \
            --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
    """
    from modenc.translation.apertium import SECONDS
    from modenc.translation.chains import apertium_chain, model_chain
    from modenc.translation.translate_file import check_first_row, translate_file

    filters = _checked(args)
    languages = _languages(args)
    if args.engine == "apertium":
        seconds = args.time_limit or SECONDS
        chain, source, target = apertium_chain(args.mode, languages, args.data_dir, seconds)
        job = _job(args, source, target, filters)
        check_first_row(job)
    else:
        job = _job(args, *_ends(args, languages), filters)
        check_first_row(job)  # models take minutes to load
        given = {"beams": args.beams, "batch_size": args.batch_size}
        search = {name: value for name, value in given.items() if value is not None}
        chain = model_chain(args.engine, args.model, languages, args.tokenizer, **search)
    # As it was given: of languages with several scripts, models have a code for each.
    target = languages[-1] if languages else job.layout.target
    job, pair_filter = _filtered(args, job, target)
    with progress_bar(" rows") as bar:
        summary = translate_file(job, chain, pair_filter, bar.update)
    logger.info("%s: %s", args.output, summary.line())
    if summary.cut:
        logger.info("%d rows were longer than the model's limit and were cut; split them", summary.cut)
    write(args, {"output": str(args.output), **asdict(summary)}, f"{args.output}\t{summary.kept}\n")


def _checked(args: argparse.Namespace) -> FilterSettings:
    """Check all options before any slow work; returns the settings of the filter."""
    from modenc.translation.pair_filter import FilterSettings
    from modenc.translation.tables import output_format

    ending = output_format(args.output)
    check_output(args.output, args.input)
    if ending == ".txt" and len(args.column or ()) > 1:
        raise DataError(
            f"{args.output}: expected one --column for a .txt, found {len(args.column)}; write a .tsv"
        )
    for name, engines in _ENGINES_OF.items():
        if getattr(args, name) not in (None, []) and args.engine not in engines:
            raise DataError(
                f"--{name.replace('_', '-')}: expected --engine {' or '.join(engines)} with it, found "
                f"{args.engine}; leave it out, or choose another engine"
            )
    if args.hub and args.min_similarity is None:
        raise DataError(
            "--hub: expected --min-similarity with it, which needs vectors; give both, or neither"
        )
    return FilterSettings(args.max_unknown, args.max_length_ratio, args.language_check, args.min_similarity)


def _ends(args: argparse.Namespace, languages: list[str]) -> tuple[str, str]:
    """Return the normalized codes of a neural chain's first and last language."""
    from modenc.languages import normalize_code

    if len(languages) < 2 or not args.model:
        raise DataError(
            f"--engine {args.engine}: expected --model, and --source and --target (or --chain); "
            f"found {len(args.model)} models and {len(languages)} languages"
        )
    codes = [normalize_code(code) for code in languages]
    return codes[0], codes[-1]


def _languages(args: argparse.Namespace) -> list[str]:
    """Return the codes of the chain as they were given; none if only --mode is given."""
    if args.chain and (args.source or args.target):
        raise DataError("--chain names all languages; leave out --source and --target")
    if args.chain:
        codes = [code.strip() for code in args.chain.split(">")]
        if len(codes) < 2 or not all(codes):
            raise DataError(f'--chain: expected codes with > between, as "en>tr>az", found {args.chain!r}')
        return codes
    if bool(args.source) != bool(args.target):
        raise DataError("expected both --source and --target, found one; give the other")
    return [args.source, args.target] if args.source else []


def _job(args: argparse.Namespace, source: str, target: str, filters: FilterSettings) -> TranslationJob:
    from modenc.data.formats import file_format
    from modenc.provenance import read_record
    from modenc.translation.output_columns import OutputColumns
    from modenc.translation.translate_file import MODELS_SHARD, RULES_SHARD, TranslationJob

    plain = args.input.is_file() and file_format(args.input) == ".txt"
    if plain and args.column:
        raise DataError(f"{args.input}: plain text has no columns; leave out --column")
    columns = tuple(dict.fromkeys(args.column or (source if plain else "text",)))
    before = read_record(args.input)
    layout = OutputColumns(
        columns,
        source,
        target,
        originals=args.originals,
        unknown=args.engine == "apertium",
        similarity=args.min_similarity is not None,
    )
    return TranslationJob(
        args.input,
        args.output,
        layout,
        filters,
        license=args.license or (before.license if before else ""),
        shard_size=args.shard_size or (RULES_SHARD if args.engine == "apertium" else MODELS_SHARD),
        before=before,
    )


def _filtered(
    args: argparse.Namespace, job: TranslationJob, target: str
) -> tuple[TranslationJob, PairFilter]:
    """Make the filter, and add to the job the encoder that computes its vectors, if any."""
    from modenc.translation.pair_filter import PairFilter, make_similarity

    source = job.layout.source
    if args.min_similarity is None:
        return job, PairFilter(job.filters, source, target)
    from modenc.evaluation.systems import open_hub_or_base

    system = open_hub_or_base(args.hub)
    similarity = make_similarity(system.encode, source, job.layout.target)
    return replace(job, encoder=system.describe()), PairFilter(job.filters, source, target, similarity)
