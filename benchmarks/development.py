"""The development sets that chose the Turkic modules' settings, within each language and across.

``python benchmarks/development.py --data DIR`` measures the base and the shipped hub on Kardeş-NLU's 200
development pairs a language (in float32), and writes the table into docs/shipped.md. Kyrgyz, Uyghur and
Uzbek have no open test set, so this is all that can be shown of them. The set has no English, so each pair's
English original is found among STS-B's development pairs: of those with the same score, the pair whose
sentences the base's vectors find the most alike in all five languages.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from languages import HUB, ROOT, SYSTEMS, cached
from markdown_rows import head, row, write_table

from modenc import ModularEncoder
from modenc.data.pairs import read_score
from modenc.data.sources import read_rows
from modenc.errors import DataError, ModencError
from modenc.evaluation.retrieval import unit
from modenc.evaluation.sts import spearman
from modenc.evaluation.systems import System
from modenc.recipe.settings import Source

PIVOT, TURKIC = "en", ("az", "kk", "ky", "ug", "uz")
PAGE = ROOT / "docs" / "shipped.md"
BEGIN, END = "<!-- development.py writes from here -->", "<!-- to here -->"

# Kardeş-NLU's scores are rounded to one digit.
_SAME_SCORE = 0.06

Pairs = list[tuple[str, str, float]]


def main() -> None:
    """Measure the systems and write the table.

    Raises:
        SystemExit: the files, the hub or the page cannot be used.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/sts/")
    parser.add_argument("--hub", type=Path, default=HUB)
    parser.add_argument("--compute", default="fp32", help="as of ModularEncoder (default: fp32)")
    parser.add_argument("--vectors", type=Path, default=ROOT / "runs" / "vectors", help="kept vectors")
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the table")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        lines = table(measured(args))
    except ModencError as error:
        raise SystemExit(str(error)) from error
    write_table(args.page, "\n".join(["", *lines, ""]), BEGIN, END)
    print("\n".join(lines))


def measured(args: argparse.Namespace) -> dict[str, dict[tuple[str, ...], float]]:
    """Measure each system; :func:`scores` says what.

    Raises:
        ModencError: the files or the hub cannot be used.
    """
    sets = {lang: read_pairs(args.data, "kardes_dev", lang) for lang in TURKIC}
    english = read_pairs(args.data, "stsb_dev", PIVOT)
    encoder = ModularEncoder(args.hub, compute=args.compute)
    systems = {name: cached(name, encoder, args) for name in SYSTEMS}
    sets = {PIVOT: originals(sets, english, systems["base"]), **sets}
    return {name: scores(system, sets) for name, system in systems.items()}


def read_pairs(data: Path, name: str, lang: str) -> Pairs:
    """Read the sentence pairs of a development set with their scores.

    Raises:
        DataError: the file is missing or cannot be read.
    """
    source = Source(path=f"eval/sts/{name}.{lang}.tsv")
    rows = read_rows(source, data, lang, PIVOT, roles=("score", "sentence1", "sentence2"))
    return [
        (row["sentence1"], row["sentence2"], read_score(source, number, row["score"]))
        for number, row in enumerate(rows, start=1)
    ]


def originals(sets: Mapping[str, Pairs], english: Pairs, base: System) -> Pairs:
    """Find each row's English pair, with the row's score.

    Raises:
        DataError: the languages' scores differ, or no English pair has the score of a row.
    """
    (first, pairs), *others = sets.items()
    gold = [pair[2] for pair in pairs]
    for lang, other in others:
        if len(other) != len(gold) or not np.allclose([pair[2] for pair in other], gold):
            raise DataError(f"expected the scores of {first!r} in {lang!r}, found other ones")
    differs = np.abs(np.subtract.outer(gold, [pair[2] for pair in english])) > _SAME_SCORE
    if (alone := differs.all(axis=1)).any():
        raise DataError(f"expected English pairs of all scores, found none of {gold[int(alone.argmax())]}")
    theirs = [unit(base.encode([str(pair[side]) for pair in english], PIVOT)) for side in (0, 1)]
    likeness = np.zeros(differs.shape)
    for lang, own_pairs in sets.items():
        for side in (0, 1):
            own = unit(base.encode([str(pair[side]) for pair in own_pairs], lang))
            likeness += own @ theirs[side].T
    found = np.where(differs, -np.inf, likeness).argmax(axis=1)
    return [(*english[number][:2], score) for number, score in zip(found, gold, strict=True)]


def scores(system: System, sets: Mapping[str, Pairs]) -> dict[tuple[str, ...], float]:
    """Measure Spearman × 100 within each language, and for each pair the mean of both directions."""
    gold = {lang: [pair[2] for pair in pairs] for lang, pairs in sets.items()}
    sides = {
        lang: [system.encode([str(pair[side]) for pair in pairs], lang) for side in (0, 1)]
        for lang, pairs in sets.items()
    }
    found: dict[tuple[str, ...], float] = {
        (lang,): spearman(*both, gold[lang]) for lang, both in sides.items()
    }
    for left, right in combinations(sets, 2):
        directions = [(sides[left][0], sides[right][1]), (sides[right][0], sides[left][1])]
        found[left, right] = float(np.mean([spearman(*direction, gold[right]) for direction in directions]))
    return found


def table(found: Mapping[str, Mapping[tuple[str, ...], float]]) -> list[str]:
    """Write the lines of the table: a language each, then means."""
    labels = {"base": "base", "no_align": "`align=False`", "align": "`align=True`"}
    columns = [f"{kind}, {labels[name]}" for kind in ("within", "with English") for name in found]

    def line(label: str, within: Sequence[float], across: Sequence[float]) -> str:
        return row([label, *(f"{value:.1f}" for value in within), *(f"{value:.1f}" for value in across)])

    within = {lang: [values[lang,] for values in found.values()] for lang in TURKIC}
    across = {lang: [values[PIVOT, lang] for values in found.values()] for lang in TURKIC}
    pairs = [
        np.mean([value for languages, value in values.items() if len(languages) == 2])
        for values in found.values()
    ]
    count = sum(len(languages) == 2 for languages in next(iter(found.values())))
    return [
        *head(["", *columns]),
        *(line(lang, within[lang], across[lang]) for lang in TURKIC),
        line("mean", *(np.mean(list(side.values()), axis=0) for side in (within, across))),
        row([f"all {count} pairs", *[""] * len(found), *(f"{value:.1f}" for value in pairs)]),
    ]


if __name__ == "__main__":
    main()
