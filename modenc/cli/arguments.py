"""Options that several verbs share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

AUTO = "auto"


def add_hub(parser: argparse.ArgumentParser) -> None:
    """``--hub`` and what decides on a text's language."""
    parser.add_argument("--hub", required=True, metavar="DIR", help="hub folder with the languages' modules")
    parser.add_argument(
        "--fallback",
        default="base",
        metavar="base|error|CODE",
        help="for a language without modules: the bare base, an error, or another language's modules "
        "(default: base)",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        default=None,
        metavar="P",
        help="below this confidence of identification a text goes to the fallback (0 to 1)",
    )


def add_encoding(parser: argparse.ArgumentParser) -> None:
    """``--lang``, ``--no-align``, ``--batch-size`` and ``--column``."""
    parser.add_argument(
        "--lang",
        default=AUTO,
        metavar="auto|CODE",
        help="language of the texts (kk, kaz, kaz_Cyrl, kk-KZ are one); default: auto, identify each",
    )
    parser.add_argument(
        "--no-align",
        dest="align",
        action="store_false",
        help="leave the alignment modules out: best within one language, not comparable across",
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="texts a forward pass")
    add_column(parser)


def add_column(parser: argparse.ArgumentParser) -> None:
    """``--column``."""
    parser.add_argument(
        "--column",
        default="text",
        metavar="NAME",
        help="column of TSV, CSV, JSONL and Parquet (default: text)",
    )


def positive(word: str) -> int:
    """An integer above 0, for argparse's ``type``."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {number}")
    return number


def language_of(args: argparse.Namespace) -> str | None:
    """The code given with ``--lang``; None for ``auto``."""
    return None if args.lang.lower() == AUTO else str(args.lang)


def open_encoder(args: argparse.Namespace) -> ModularEncoder:
    """The encoder that the arguments describe."""
    from modenc.encoder import ModularEncoder

    options = {} if args.min_confidence is None else {"min_confidence": args.min_confidence}
    return ModularEncoder(args.hub, fallback=args.fallback, **options)
