"""Options that several verbs share."""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder

logger = logging.getLogger(__name__)

AUTO = "auto"
_MOST = 2**31 - 1


def add_hub(parser: argparse.ArgumentParser) -> None:
    """``--hub``, ``--revision`` and what decides on a text's language."""
    parser.add_argument(
        "--hub",
        required=True,
        metavar="DIR",
        help="hub folder with the languages' modules, or the id of one on Hugging Face, with --revision",
    )
    parser.add_argument(
        "--revision", default=None, metavar="COMMIT", help="of a hub on Hugging Face (40 hex digits)"
    )
    parser.add_argument(
        "--fallback",
        default=None,
        metavar="base|error|CODE",
        help="for a language without modules: the bare base, an error, or another language's modules "
        "(default: the pivot's where they are a sentence-encoding adapter alone, else base)",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        default=None,
        metavar="P",
        help="a text whose share (see modenc identify) is below this goes to the fallback (0 to 1)",
    )


def add_encoding(parser: argparse.ArgumentParser) -> None:
    """``--lang``, ``--no-align``, ``--batch-size``, ``--compute``, ``--max-memory`` and ``--column``."""
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
    parser.add_argument(
        "--compute",
        default="fp32",
        choices=("fp32", "bf16", "int8", "auto"),
        help="what to compute in; int8: on CPUs, by OpenVINO; auto: bf16 where the device has it in hardware "
        "(default: fp32)",
    )
    parser.add_argument(
        "--max-memory",
        default=None,
        metavar="BYTES|2GB",
        help="what all languages may take beside the base; the least recently used make room",
    )
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
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"expected 1 to {_MOST}, found {number}")
    return number


def language_of(args: argparse.Namespace) -> str | None:
    """The code given with ``--lang``; None for ``auto``."""
    return None if args.lang.lower() == AUTO else str(args.lang)


def encoded(
    args: argparse.Namespace, encoder: ModularEncoder, texts: list[str]
) -> tuple[NDArray[np.float32], list[str]]:
    """Vectors [n, hidden] of texts as the arguments say, and the languages whose modules made them.

    Texts that were cut are added to ``args.cut``, and not warned of batch by batch.
    """
    from modenc.errors import TextsCutWarning
    from modenc.texts import as_texts

    transformer = encoder[0]
    # The languages are chosen here, and not by ``encode``, since they are shown.
    tagged = transformer.tag(as_texts(texts, transformer.max_characters)[0], language_of(args))
    options = {"align": args.align, "batch_size": args.batch_size, "show_progress_bar": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TextsCutWarning)
        vectors = encoder.encode(tagged, **options)
    for warning in caught:
        if isinstance(warning.message, TextsCutWarning):
            args.cut = getattr(args, "cut", 0) + warning.message.cut
        else:
            warnings.warn_explicit(str(warning.message), warning.category, warning.filename, warning.lineno)
    return vectors, [text.lang for text in tagged]


def report_cuts(args: argparse.Namespace, encoder: ModularEncoder) -> None:
    """Say how many of the texts that :func:`encoded` was given were cut."""
    if cut := getattr(args, "cut", 0):
        logger.info(
            "%d of the texts encoded in this run were longer than %d tokens and were cut; split them to have "
            "all of them in the vectors",
            cut,
            encoder.max_seq_length,
        )


def open_encoder(args: argparse.Namespace) -> ModularEncoder:
    """The encoder that the arguments describe.

    Raises:
        ModencError: it cannot be opened. That there is no hub is said before torch is imported, in seconds.
    """
    from modenc.hub.remote import hub_folder
    from modenc.hub.store import Hub

    folder = Hub.open(hub_folder(args.hub, revision=args.revision)).path
    from modenc.encoder import ModularEncoder
    from modenc.threads import set_threads

    set_threads(0)
    given = {name: getattr(args, name, None) for name in ("min_confidence", "compute", "max_memory")}
    options = {name: value for name, value in given.items() if value is not None}
    return ModularEncoder(folder, fallback=args.fallback, **options)
