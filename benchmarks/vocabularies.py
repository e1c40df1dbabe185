"""Vocabularies of a language's own against the base's pieces: tokens, speed, similarity within and across.

``python benchmarks/vocabularies.py --data DIR`` trains recipes/vocabularies/ for languages that
runs/vocabularies/ lacks, measures each against the same language with the base's pieces, both aligned,
and stores the figures in benchmarks/results/vocabularies/; RESULTS.md shows them. What ships is chosen by
these figures, so they are of the development sets: 200 pairs, the same ones in five languages.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measure import paired
from scipy.stats import spearmanr
from transformers import PreTrainedTokenizerFast
from vocabulary_tables import BASE_PIECES

from modenc import ModularEncoder
from modenc.composition.modules import to_modules
from modenc.data.sources import read_rows
from modenc.hub.store import Hub
from modenc.recipe.settings import Source
from modenc.training.tokenizers import tokens_per_sentence

logger = logging.getLogger("vocabularies")

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "adapters_hub" / "me5-small"
RUNS = ROOT / "runs" / "vocabularies"
RESULTS = ROOT / "benchmarks" / "results" / "vocabularies"
METHODS = ("extend", "focus")
LANGUAGES = ("kk", "ky", "ug", "uz")
PARTNERS = ("az", *LANGUAGES)
OWN_PIECES = ("ug",)
"""Languages that ship with pieces of their own; base_pieces.toml trains them with the base's."""

_RUNS, _BATCH = 7, 64

Vectors = npt.NDArray[np.float32]
Sides = tuple[Vectors, Vectors]


def main() -> None:
    """Train and measure what is not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the data root of recipes/eighteen.toml")
    parser.add_argument("--method", action="append", choices=METHODS, help="only this; may be repeated")
    parser.add_argument("--lang", action="append", choices=LANGUAGES, help="only this; may be repeated")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for lang in OWN_PIECES:
        train(BASE_PIECES, lang, args.data)
    for method in args.method or METHODS:
        for lang in args.lang or LANGUAGES:
            stored = RESULTS / f"{method}.{lang}.json"
            if is_of(stored, base_pieces_fingerprints()):
                logger.info("%s %s: stored in %s", method, lang, stored)
                continue
            train(method, lang, args.data)
            figures = measured(method, lang, args.data)
            RESULTS.mkdir(parents=True, exist_ok=True)
            stored.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            logger.info("%s %s: %s", method, lang, json.dumps(figures))


def base_pieces_fingerprints() -> dict[str, str]:
    """Return language → fingerprint of its modules with the base's pieces."""
    return {lang: Hub.open(_base_pieces_hub(lang)).card(lang).fingerprint() for lang in PARTNERS}


def is_of(stored: Path, fingerprints: dict[str, str]) -> bool:
    """Say whether results are stored that were compared with these modules."""
    return (
        stored.is_file() and json.loads(stored.read_text(encoding="utf-8"))["compared_with"] == fingerprints
    )


def train(method: str, lang: str, data: Path) -> None:
    """Train a language with a vocabulary of its own, or with the base's pieces; nothing where that is done.

    Raises:
        CalledProcessError: the training failed.
    """
    recipe = str(ROOT / "recipes" / "vocabularies" / f"{method}.toml")
    words = ["train", recipe, "--lang", lang, f"data.root={data.resolve()}"]
    subprocess.run([sys.executable, "-m", "modenc.cli", *words], check=True, cwd=ROOT)


def measured(method: str, lang: str, data: Path) -> dict[str, Any]:
    """Measure a vocabulary, the base's pieces, and the base's embeddings with English's modules.

    Returns:
        ``tokens``: mean tokens of a development sentence, without special tokens; ``within`` and ``across``:
        Spearman x 100 of the pairs, across as the mean over the other languages, which have the base's
        pieces; ``texts_per_s``: medians of sentences of running text, ours and the base's pieces' in turn;
        ``speed_ratio``: median and quartiles of ours over theirs; ``compared_with``: fingerprints of the
        modules compared with; ``learned``, ``dev_before`` and ``sets``: stage 2's scores on its development
        rows, by steps and before the first, and the rows of each kind; ``vocabulary``: the card's counts.
    """
    compared, own = _encoder(_base_pieces_hub(lang)), _encoder(_hub(method))
    pairs = _pairs(lang, data)
    texts = [text for pair in pairs for text in pair[1:]]
    systems = {
        "base": (compared, compared.hub.info.pivot),
        BASE_PIECES: (compared, lang),
        method: (own, lang),
    }
    others = [other for other in PARTNERS if other != lang]
    figures: dict[str, Any] = {}
    for name, (encoder, code) in systems.items():
        sides = _sides(encoder, code, pairs)
        figures[name] = {
            "tokens": tokens_per_sentence(_tokenizer(encoder, code), texts),
            "within": _similarity(sides, pairs),
            "across": float(np.mean([_across(sides, other, lang, data) for other in others])),
        }
    running = _running_text(lang, data)
    seconds = paired(
        lambda: own.encode(running, lang=lang, batch_size=_BATCH),
        lambda: compared.encode(running, lang=lang, batch_size=_BATCH),
        _RUNS,
    )
    for name, runs in zip((method, BASE_PIECES), seconds, strict=True):
        figures[name]["texts_per_s"] = len(running) / float(np.median(runs))
    ratios = np.array(seconds[1]) / np.array(seconds[0])
    figures["speed_ratio"] = [float(value) for value in np.percentile(ratios, (50, 25, 75))]
    figures["compared_with"] = base_pieces_fingerprints()
    card = Hub.open(own.hub.path).card(lang)
    learned = card.stages["language_adaptation"]
    figures["learned"] = learned["metrics"].get("dev", [])
    figures["dev_before"] = learned["metrics"].get("dev_before")
    figures["sets"] = learned["metrics"].get("sets")
    figures["vocabulary"] = card.stages["vocabulary"]["metrics"]
    return figures


def _hub(method: str) -> Path:
    return RUNS / method / "hub"


def _base_pieces_hub(lang: str) -> Path:
    return _hub(BASE_PIECES) if lang in OWN_PIECES else SHIPPED


@cache
def _encoder(hub: Path) -> ModularEncoder:
    return ModularEncoder(hub, compute="fp32")


def _tokenizer(encoder: ModularEncoder, lang: str) -> PreTrainedTokenizerFast:
    base: PreTrainedTokenizerFast = encoder.tokenizer
    return to_modules(encoder.hub.read(lang)).tokenizer or base


@cache
def _pairs(lang: str, data: Path) -> Sequence[tuple[float, str, str]]:
    source = Source(path="eval/sts/kardes_dev.{lang}.tsv")
    rows = read_rows(source, data, lang, "en", roles=("score", "sentence1", "sentence2"))
    return [(float(row["score"]), row["sentence1"], row["sentence2"]) for row in rows]


def _sides(encoder: ModularEncoder, lang: str, pairs: Sequence[tuple[float, str, str]]) -> Sides:
    first, second = (
        encoder.encode([pair[side] for pair in pairs], lang=lang, normalize_embeddings=True)
        for side in (1, 2)
    )
    return first, second


@cache
def _partner(lang: str, data: Path) -> Sides:
    return _sides(_encoder(_base_pieces_hub(lang)), lang, _pairs(lang, data))


def _similarity(sides: Sides, pairs: Sequence[tuple[float, str, str]]) -> float:
    scores = [pair[0] for pair in pairs]
    return 100 * float(spearmanr((sides[0] * sides[1]).sum(axis=1), scores).statistic)


def _across(sides: Sides, other: str, lang: str, data: Path) -> float:
    """Return Spearman x 100, the mean of both directions."""
    theirs, pairs = _partner(other, data), _pairs(lang, data)
    return (_similarity((sides[0], theirs[1]), pairs) + _similarity((theirs[0], sides[1]), pairs)) / 2


def _running_text(lang: str, data: Path) -> list[str]:
    rows = read_rows(Source(path="mono/{lang}.txt.gz", limit=512), data, lang, "en", roles=("text",))
    return [row["text"] for row in rows]


if __name__ == "__main__":
    main()
