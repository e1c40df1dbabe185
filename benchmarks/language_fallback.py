"""Effect of each choice of ``fallback`` on texts in languages outside the shipped hub.

``python benchmarks/language_fallback.py --data DIR [--only ar tr]``. Of each language: how many of
Tatoeba's English sentences are nearest to their translation (%, both directions), and Spearman x 100 on
STS-B. English goes to its own modules, as it does in a hub; ``base, English too`` leaves them out.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from modenc import ModularEncoder
from modenc.langid import get_identifier

HERE = Path(__file__).resolve().parent
HUB = HERE.parent / "adapters_hub" / "me5-small"
STORED = HERE / "identification" / "fallback.json"
TATOEBA = ("ar", "cs", "de", "es", "fr", "it", "ko", "mr", "nl", "pl", "ru", "te", "tr", "zh")
STS = ("de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "tr", "zh")
# Of the hub's languages the one of the same family, else the one that shares the script.
RELATIVE = {"tr": "az", "ru": "kk", "ar": "ug"}

Vectors = npt.NDArray[np.float32]


def main() -> None:
    """Measure the languages asked for, store and print all that is stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/")
    parser.add_argument("--only", nargs="*", choices=sorted({*TATOEBA, *STS}), default=None)
    parser.add_argument("--pairs", type=int, default=300, help="of each of Tatoeba's files")
    parser.add_argument("--sts-pairs", type=int, default=250)
    args = parser.parse_args()
    encoder = ModularEncoder(HUB)
    for lang in args.only if args.only is not None else sorted({*TATOEBA, *STS}):
        if lang in encoder.languages:
            print(f"{lang}: has modules in the hub, so it needs no fallback; skipped", flush=True)
            continue
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        row = stored.setdefault(lang, {})
        if lang in TATOEBA:
            pairs = _rows(args.data / "eval/bitext/tatoeba" / f"{lang}.tsv")[: args.pairs]
            row["tatoeba"] = {"pairs": len(pairs), **_retrieval(encoder, lang, pairs)}
        if lang in STS:
            triples = _rows(args.data / "eval/sts" / f"stsb.{lang}.tsv")[: args.sts_pairs]
            row["sts"] = {"pairs": len(triples), **_similarity(encoder, lang, triples)}
        print(lang, json.dumps(row), flush=True)
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    print(table(json.loads(STORED.read_text())))


def table(stored: dict[str, Any]) -> str:
    """Make a Markdown table of the stored results, a row for each language and test set."""
    columns = ("pairs", "hub alone", "base", "en", "relative", "base, English too")
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for kind in ("tatoeba", "sts"):
        rows = {lang: row[kind] for lang, row in sorted(stored.items()) if kind in row}
        for lang, row in rows.items():
            cells = [f"{row[column]:.1f}" if column in row else "" for column in columns[1:]]
            lines.append(f"| {kind} {lang} | {row['pairs']} | " + " | ".join(cells) + " |")
        means = [[row[column] for row in rows.values() if column in row] for column in columns[1:]]
        cells = [f"{np.mean(values):.1f}" if len(values) == len(rows) else "" for values in means]
        lines.append(f"| {kind}, mean | | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ways(encoder: ModularEncoder, lang: str, texts: list[str]) -> dict[str, Vectors]:
    """Vectors by each choice; ``hub alone`` is what the choice among the hub's languages alone gave."""
    identified = get_identifier().identify(texts, encoder.languages)
    # Texts in a script of none of them went to the pivot.
    nearest = [found.code if found.confidence else "en" for found in identified]
    codes: dict[str, Any] = {"hub alone": nearest, "base": "base", "en": "en"}
    if lang in RELATIVE:
        codes["relative"] = RELATIVE[lang]
    return {name: _encoded(encoder, texts, code) for name, code in codes.items()}


def _retrieval(encoder: ModularEncoder, lang: str, pairs: list[list[str]]) -> dict[str, float]:
    ways = _ways(encoder, lang, [text for _, text in pairs])
    english = {code: _encoded(encoder, [text for text, _ in pairs], code) for code in ("en", "base")}
    found = {name: _accuracy(vectors, english["en"]) for name, vectors in ways.items()}
    return {**found, "base, English too": _accuracy(ways["base"], english["base"])}


def _similarity(encoder: ModularEncoder, lang: str, triples: list[list[str]]) -> dict[str, float]:
    ways = _ways(encoder, lang, [row[1] for row in triples] + [row[2] for row in triples])
    gold = [float(row[0]) for row in triples]
    cosines = {name: (left * right).sum(1) for name, v in ways.items() for left, right in [np.split(v, 2)]}
    return {name: 100 * float(spearmanr(gold, scores).statistic) for name, scores in cosines.items()}


def _accuracy(left: Vectors, right: Vectors) -> float:
    """Return the % of sentences whose nearest neighbor is their translation, mean of both directions."""
    scores, own = left @ right.T, np.arange(len(left))
    return 50 * float((scores.argmax(1) == own).mean() + (scores.argmax(0) == own).mean())


def _encoded(encoder: ModularEncoder, texts: list[str], lang: str | list[str]) -> Vectors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that scripts contradict the codes, as they are meant to
        vectors: Vectors = encoder.encode(texts, lang=lang, normalize_embeddings=True, batch_size=64)
    return vectors


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


if __name__ == "__main__":
    main()
