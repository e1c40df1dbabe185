"""``modenc translate``: training text in a language that has none, by machine translation."""

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
    from modenc.translation.filters import FilterSettings, PairFilter
    from modenc.translation.run import TranslationJob

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
    add(parser, "--input", type=Path, help="text, TSV, CSV, JSONL or Parquet; plain, .gz or .zst")
    add(parser, "--output", help=".txt, .tsv, .jsonl (.gz) or .parquet")
    text = "column to translate; may be repeated (default: text)"
    add(parser, "--column", action="append", default=None, help=text)
    option(parser, "--no-originals", None, "leave them out", dest="originals", action="store_false")
    option(parser, "--license", "NAME", "of the text, such as CC-BY-SA-4.0", default="")
    text = "rows between two savings (default: 512 by rules, 64 by models)"
    option(parser, "--shard-size", "N", text, type=positive)
    add(parser, "--json", help="print the summary as JSON")

    group = parser.add_argument_group("engine")
    option(group, "--engine", None, "see above", required=True, choices=("apertium", *_MODELS))
    option(group, "--source", "CODE", "language of the text")
    option(group, "--target", "CODE", "language to translate to")
    option(group, "--chain", '"A>B>C"', "languages to go through, first and last included")
    each = {"action": "append", "default": []}
    option(group, "--mode", "MODE", "apertium: such as eng-kaz; one for each step", **each)
    option(group, "--data-dir", "DIR", "apertium: folder of a pair that was built", type=Path)
    seconds = bounded(float, 0.001, 10**6)
    option(group, "--time-limit", "S", "apertium: seconds for one sentence (default: 30)", type=seconds)
    option(group, "--model", "DIR|ID", "models: DIR, ID or ID@COMMIT; one, or one for each step", **each)
    option(group, "--tokenizer", "DIR|ID", "ctranslate2: where DIR has none")
    option(group, "--beams", "N", "models: 1 is fastest (default: 4)", type=positive)
    option(group, "--batch-size", "N", "models: texts (default: 16)", type=positive)

    group = parser.add_argument_group("rows to drop")
    option(group, "--max-unknown", "SHARE", "most words marked as unknown", type=share, default=0.25)
    ratio = bounded(float, 1, 1000)
    option(group, "--max-length-ratio", "X", "longer side to the shorter, at most", type=ratio, default=4.0)
    off = {"dest": "check_language", "action": "store_false"}
    option(group, "--no-language-check", None, "keep texts in other languages", **off)
    text = "least cosine of the vectors of both sides (default: off)"
    option(group, "--min-similarity", "COSINE", text, type=bounded(float, -1, 1))
    add(group, "--hub", required=False, help="makes the vectors (default: the base me5-small alone)")


def run(args: argparse.Namespace) -> None:
    r"""Translate training text by machine.

    Translates columns of a file, and drops rows with bad translations.

    engines:
      apertium      rules; a program beside modenc (apt-get install apertium apertium-eng-spa) with a mode
                    for each direction, installed or built in --data-dir
      transformers  NLLB, M2M100, MADLAD, Marian: a folder, or an id on Hugging Face
                    (pip install "modenc[translate]")
      ctranslate2   the same models, converted by ct2-transformers-converter

    A chain goes through other languages, a step each: --chain "en>tr>az" (in quotes), in place of --source
    and --target. Each step takes the one --model, or its own where --model is given once for each; of
    apertium the mode between its languages, or its --mode.

    A translation takes its column's place, and the original moves to COLUMN_SOURCE: sentence1, sentence1_en.
    A column called by the source's code keeps its text: en, kk. Plain text becomes such a table or, where
    OUTPUT is .txt, the translations alone: line i is that of line i, and empty where a row was dropped.

    An interrupted run resumes from OUTPUT.parts/. OUTPUT.translation.json says what translated the text,
    and its license; recipes and cards take them from there.

    Examples:
        modenc translate -i stsb.tsv -o stsb.kk.tsv --engine apertium --mode eng-kaz \
            --column sentence1 --column sentence2 --license CC-BY-SA-4.0
        modenc translate -i text.txt.gz -o pairs.tsv --engine apertium --chain "en>tr>az"
        modenc translate -i nli.jsonl -o nli.kk.jsonl --engine transformers --source en --target kk \
            --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
    """
    from modenc.translation.apertium import SECONDS
    from modenc.translation.open_chain import apertium_chain, model_chain
    from modenc.translation.run import check_first_row, translate_file

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
    job, pair_filter = _filtered(args, job)
    with progress_bar(" rows") as bar:
        summary = translate_file(job, chain, pair_filter, bar.update)
    logger.info("%s: %s", args.output, summary.line())
    if summary.cut:
        logger.info("%d rows were longer than the model takes and were cut; split them", summary.cut)
    write(args, {"output": str(args.output), **asdict(summary)}, f"{args.output}\t{summary.kept}\n")


def _checked(args: argparse.Namespace) -> FilterSettings:
    """The filters, after all options were checked; before anything slow is done."""
    from modenc.translation.filters import FilterSettings
    from modenc.translation.tables import output_format

    ending = output_format(args.output)
    check_output(args.output, args.input)
    if ending == ".txt" and len(args.column or ()) > 1:
        raise DataError(
            f"{args.output}: expected one --column for a .txt, found {len(args.column)}; write a .tsv"
        )
    _check_engine(args)
    if args.hub and args.min_similarity is None:
        raise DataError("--hub makes vectors for --min-similarity; give both, or neither")
    return FilterSettings(args.max_unknown, args.max_length_ratio, args.check_language, args.min_similarity)


def _check_engine(args: argparse.Namespace) -> None:
    """Check that no option is given that the engine would ignore."""
    for name, engines in _ENGINES_OF.items():
        if getattr(args, name) not in (None, []) and args.engine not in engines:
            raise DataError(
                f"--{name.replace('_', '-')} is for --engine {' or '.join(engines)}, found {args.engine}; "
                "leave it out, or choose another engine"
            )


def _ends(args: argparse.Namespace, languages: list[str]) -> tuple[str, str]:
    """The normalized codes of a neural chain's first and last language."""
    from modenc.languages import normalize_code

    if len(languages) < 2 or not args.model:
        raise DataError(
            f"--engine {args.engine}: expected --model, and --source and --target (or --chain); "
            f"found {len(args.model)} models and {len(languages)} languages"
        )
    codes = [normalize_code(code) for code in languages]
    return codes[0], codes[-1]


def _languages(args: argparse.Namespace) -> list[str]:
    """The codes of the chain as they were given; none where the mode's name says it."""
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
    from modenc.data.files import format_of
    from modenc.provenance import read_record
    from modenc.translation.rows import Layout
    from modenc.translation.run import MODELS_SHARD, RULES_SHARD, TranslationJob

    plain = args.input.is_file() and format_of(args.input) == ".txt"
    if plain and args.column:
        raise DataError(f"{args.input}: plain text has no columns; leave out --column")
    columns = tuple(dict.fromkeys(args.column or (source if plain else "text",)))
    before = read_record(args.input)
    layout = Layout(
        columns,
        source,
        target,
        originals=args.originals,
        unknown=args.engine == "apertium",
        similarity=args.min_similarity is not None,
    )
    license = args.license or (before.license if before else "")
    size = args.shard_size or (RULES_SHARD if args.engine == "apertium" else MODELS_SHARD)
    return TranslationJob(
        args.input,
        args.output,
        layout,
        filters,
        license=license,
        shard_size=size,
        before=before,
    )


def _filtered(args: argparse.Namespace, job: TranslationJob) -> tuple[TranslationJob, PairFilter]:
    """The job with what makes its vectors, where any are made, and what checks the translations."""
    from modenc.translation.filters import PairFilter, cosines_by

    source, target = job.layout.source, job.layout.target
    if args.min_similarity is None:
        return job, PairFilter(job.filters, source, target)
    from modenc.evaluation.systems import open_system

    system, _ = open_system(args.hub)
    similarity = cosines_by(system.encode, source, target)
    return replace(job, encoder=system.describe()), PairFilter(job.filters, source, target, similarity)
