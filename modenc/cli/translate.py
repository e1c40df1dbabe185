"""``modenc translate``: training text in a language that has none, by machine translation."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import positive
from modenc.cli.text_io import refuse_folder, refuse_overwriting
from modenc.errors import DataError

if TYPE_CHECKING:
    from modenc.translation.filters import FilterSettings, PairFilter
    from modenc.translation.run import TranslationJob
    from modenc.translation.steps import Chain

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
"""Option to the engines that it changes anything for."""
_INSTEAD = {
    ("mode", "transformers"): " and give --model",
    ("mode", "ctranslate2"): " and give --model",
    ("model", "apertium"): " and give --mode",
    ("tokenizer", "transformers"): " (a model's folder has its own)",
}
"""What to give in the place of an option."""

_DESCRIPTION = """\
Translates columns of a file, and drops rows whose translations are plainly bad.

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

A run that was cut off goes on from OUTPUT.parts/. OUTPUT.translation.json says what translated the text,
and its licence; recipes and cards take them from there."""

_EXAMPLES = """\
examples:
  modenc translate stsb.tsv -o stsb.kk.tsv --engine apertium --mode eng-kaz \\
      --column sentence1 --column sentence2 --licence CC-BY-SA-4.0
  modenc translate text.txt.gz -o pairs.tsv --engine apertium --chain "en>tr>az"
  modenc translate nli.jsonl -o nli.kk.jsonl --engine transformers --source en --target kk \\
      --model facebook/nllb-200-distilled-600M --column anchor --column positive --column negative
"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "translate",
        help=summary,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input", type=Path, metavar="INPUT", help="text, TSV, CSV, JSONL or Parquet; .gz, .zst"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OUTPUT",
        help=".txt, .tsv, .jsonl (.gz) or .parquet",
    )
    parser.add_argument(
        "--column", action="append", metavar="NAME", help="translated; may be repeated (default: text)"
    )
    parser.add_argument("--no-originals", dest="originals", action="store_false", help="leave them out")
    parser.add_argument("--licence", default="", metavar="NAME", help="of the text, such as CC-BY-SA-4.0")
    parser.add_argument(
        "--shard-size",
        type=positive,
        metavar="N",
        help="rows between two savings (default: 512 by rules, 64 by models)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    _add_engine(parser)
    _add_filters(parser)
    parser.set_defaults(run=run)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument("--engine", required=True, choices=("apertium", *_MODELS))
    group.add_argument("--source", metavar="CODE", help="language of the text")
    group.add_argument("--target", metavar="CODE", help="language to translate to")
    group.add_argument("--chain", metavar='"A>B>C"', help="languages to go through, first and last included")
    group.add_argument(
        "--mode",
        action="append",
        default=[],
        metavar="MODE",
        help="apertium: such as eng-kaz; one for each step",
    )
    group.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="apertium: folder of a pair that was built"
    )
    group.add_argument(
        "--time-limit", type=float, metavar="S", help="apertium: for one sentence (default: 30)"
    )
    group.add_argument(
        "--model", action="append", default=[], metavar="DIR|ID", help="models: DIR, ID or ID@COMMIT"
    )
    group.add_argument("--tokenizer", metavar="DIR|ID", help="ctranslate2: where DIR has none")
    group.add_argument("--beams", type=positive, metavar="N", help="models: 1 is fastest (default: 4)")
    group.add_argument("--batch-size", type=positive, metavar="N", help="models: texts (default: 16)")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is dropped, with all of its row")
    group.add_argument(
        "--max-unknown",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="of words marked as unknown (default: 0.25)",
    )
    group.add_argument(
        "--max-length-ratio", type=float, default=4.0, metavar="X", help="longer side to shorter (default: 4)"
    )
    group.add_argument(
        "--no-language-check", dest="check_language", action="store_false", help="keep other languages"
    )
    group.add_argument(
        "--min-similarity",
        type=float,
        metavar="COSINE",
        help="of the vectors of both sides (default: off)",
    )
    group.add_argument(
        "--hub", metavar="DIR", help="whose modules make them (default: the bare base me5-small)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from modenc.translation.run import check_first_row, translate_file

    filters = _checked(args)
    languages = _languages(args)
    rules = _apertium(args, languages) if args.engine == "apertium" else None
    source, target = rules[1:] if rules else _ends(args, languages)
    job = _job(args, source, target, filters)
    check_first_row(job)  # models take minutes to load
    chain = rules[0] if rules else _models(args, languages)
    job, pair_filter = _filtered(args, job)
    from tqdm import tqdm

    # None: only on a terminal.
    with tqdm(unit=" rows", file=sys.stderr, dynamic_ncols=True, disable=None, leave=False) as bar:
        summary = translate_file(job, chain, pair_filter, bar.update)
    logger.info("%s: %s", args.output, summary.line())
    if summary.cut:
        logger.info("%d rows were longer than the model takes and were cut; split them", summary.cut)
    if args.json:
        sys.stdout.write(json.dumps({"output": str(args.output), **asdict(summary)}) + "\n")
    else:
        sys.stdout.write(f"{args.output}\t{summary.kept}\n")
    return 0


def _checked(args: argparse.Namespace) -> FilterSettings:
    """The filters, where all options make sense; before anything slow is done."""
    from modenc.translation.filters import FilterSettings
    from modenc.translation.tables import output_format

    ending = output_format(args.output)
    refuse_overwriting(args.input, args.output)
    refuse_folder(args.output)
    if not args.output.absolute().parent.is_dir():
        raise DataError(f"{args.output.parent}: no such folder; make it, or write the output elsewhere")
    if ending == ".txt" and len(args.column or ()) > 1:
        raise DataError(
            f"{args.output}: expected one --column for a .txt, found {len(args.column)}; write a .tsv"
        )
    for name, least, most in (
        ("max_unknown", 0, 1),
        ("max_length_ratio", 1, 1000),
        ("min_similarity", -1, 1),
    ):
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            raise DataError(f"--{name.replace('_', '-')}: expected {least} to {most}, found {value:g}")
    _check_engine(args)
    if args.time_limit is not None and not 0 < args.time_limit < 1e6:
        raise DataError(f"--time-limit: expected seconds above 0, found {args.time_limit:g}")
    if args.hub and args.min_similarity is None:
        raise DataError("--hub makes vectors for --min-similarity; give both, or neither")
    return FilterSettings(args.max_unknown, args.max_length_ratio, args.check_language, args.min_similarity)


def _check_engine(args: argparse.Namespace) -> None:
    """See that no option is given that the engine would ignore."""
    for name, engines in _ENGINES_OF.items():
        if getattr(args, name) not in (None, []) and args.engine not in engines:
            raise DataError(
                f"--{name.replace('_', '-')} is for --engine {' or '.join(engines)}, found {args.engine}; "
                f"leave it out{_INSTEAD.get((name, args.engine), '')}, or choose another engine"
            )


def _apertium(args: argparse.Namespace, languages: list[str]) -> tuple[Chain, str, str]:
    """What translates, and the normalised codes of its first and last language."""
    from modenc.translation.apertium import SECONDS
    from modenc.translation.open_chain import apertium_chain

    return apertium_chain(args.mode, languages, args.data_dir, args.time_limit or SECONDS)


def _ends(args: argparse.Namespace, languages: list[str]) -> tuple[str, str]:
    """The normalised codes of a neural chain's first and last language."""
    from modenc.languages import normalize_code

    if len(languages) < 2 or not args.model:
        raise DataError(
            f"--engine {args.engine}: expected --model, and --source and --target (or --chain); "
            f"found {len(args.model)} models and {len(languages)} languages"
        )
    codes = [normalize_code(code) for code in languages]
    return codes[0], codes[-1]


def _models(args: argparse.Namespace, languages: list[str]) -> Chain:
    from modenc.translation.open_chain import model_chain

    given = {"beams": args.beams, "batch_size": args.batch_size}
    search = {name: value for name, value in given.items() if value is not None}
    return model_chain(args.engine, args.model, languages, args.tokenizer, **search)


def _languages(args: argparse.Namespace) -> list[str]:
    """The codes of the chain as they were given; none where a mode's name is to say."""
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
    licence = args.licence or (before.licence if before else "")
    size = args.shard_size or (RULES_SHARD if args.engine == "apertium" else MODELS_SHARD)
    return TranslationJob(
        args.input,
        args.output,
        layout,
        filters,
        licence=licence,
        shard_size=size,
        before=before,
    )


def _filtered(args: argparse.Namespace, job: TranslationJob) -> tuple[TranslationJob, PairFilter]:
    """The job with what makes its vectors, where any are made, and what checks the translations."""
    from modenc.translation.filters import PairFilter, cosines_by

    source, target = job.layout.source, job.layout.target
    if args.min_similarity is None:
        return job, PairFilter(job.filters, source, target)
    from modenc.evaluate.systems import open_system

    system, _ = open_system(args.hub)
    similarity = cosines_by(system.encode, source, target)
    return replace(job, encoder=system.describe()), PairFilter(job.filters, source, target, similarity)
