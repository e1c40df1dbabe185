"""Precision, recall and speed of ``modenc mine`` on hidden translations, compared with LASER's procedure.

``python benchmarks/mining.py --data DIR [--lang kk]`` hides SIB-200's translations in running text, mines
with the vectors of the shipped hub and of the bare base, and writes benchmarks/results/mining/ and the tables
of benchmarks/mining.md. Vectors are kept in runs/mining/, a portion at a time, and made once.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cached_systems import BaseSystem, CachedSystem, vectors_key
from markdown_rows import head, row
from measure import paired, ratio, where
from mining_mixture import Mixture, Sizes, mixtures
from mining_reference import best_f1, laser, pair_scores, plain_faiss

from modenc import ModularEncoder
from modenc.evaluation.systems import ModularSystem
from modenc.mining import Mined, SearchSettings, mine

logger = logging.getLogger("mining")

ROOT = Path(__file__).resolve().parents[1]
HUB = ROOT / "adapters_hub" / "me5-small"
RUNS = ROOT / "runs" / "mining" / "vectors"
RESULTS = ROOT / "benchmarks" / "results" / "mining"
PAGE = ROOT / "benchmarks" / "mining.md"
BEGIN, END = "<!-- mining.py writes from here -->", "<!-- to here -->"
SYSTEMS = ("hub", "base")
LANGUAGES = ("kk", "az")
_PORTION, _DRAWN, _RUNS = 500, 10_000, 5

Vectors = npt.NDArray[np.float32]


class Known:
    """Vectors that are there already."""

    def __init__(self, name: str, table: dict[str, Vectors]) -> None:
        self.name = name
        self.table = table

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Vectors [texts, hidden]."""
        return np.stack([self.table[text] for text in texts])

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"kind": self.name}


def main() -> None:
    """Measure what was asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/, mono/ and parallel/")
    parser.add_argument("--lang", action="append", choices=LANGUAGES, help="only this; may be repeated")
    parser.add_argument("--sentences", type=int, default=4000, help="a side; a tenth has a translation")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="only this; may be repeated")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    encoder = ModularEncoder(HUB)
    RESULTS.mkdir(parents=True, exist_ok=True)
    count = args.sentences
    sizes = Sizes(sentences=(count // 4, count), hidden=(count // 40, count // 10))
    for lang in args.lang or LANGUAGES:
        dev, test = mixtures(args.data, lang, sizes)
        for name in args.system or SYSTEMS:
            vectors = encoded(encoder, name, lang, [dev, test])
            found = {**found_in(vectors, lang, dev, test), "speed": speed(vectors, lang, test)}
            _store(f"{lang}.{name}.{count}", {"lang": lang, "system": name, "sentences": count, **found})
    if not (RESULTS / "drawn.json").is_file():
        _store("drawn", {"speed": speed_of_drawn()})
    _store("where", where())
    write_page()


def encoded(encoder: ModularEncoder, name: str, lang: str, parts: Sequence[Mixture]) -> Known:
    """Encode all sentences that have no stored vectors yet."""
    hub = encoder.hub
    if name == "hub":
        system = CachedSystem(ModularSystem(encoder), RUNS, lambda code: vectors_key(hub, "fp32", code))
    else:
        system = CachedSystem(BaseSystem(encoder), RUNS / "base", lambda code: vectors_key(hub, "fp32", None))
    table: dict[str, Vectors] = {}
    for code, side in ((lang, "left"), ("en", "right")):
        texts = [text for part in parts for text in getattr(part, side)]
        for start in range(0, len(texts), _PORTION):
            portion = texts[start : start + _PORTION]
            table |= dict(zip(portion, system.encode(portion, code), strict=True))
        logger.info("%s: %d vectors of %s", name, len(texts), code)
    return Known(name, table)


def found_in(vectors: Known, lang: str, dev: Mixture, test: Mixture) -> dict[str, Any]:
    """P, R and F1, ours and LASER's, by the threshold of the development mixture, and the best F1."""
    sides = [vectors.encode(side, "") for side in (test.left, test.right)]
    theirs = laser(*sides)
    _, threshold = best_f1(laser(*(vectors.encode(side, "") for side in (dev.left, dev.right))), dev.gold)
    chosen = mine(test.left, test.right, vectors, (lang, "en"), dev=_pairs(dev))
    everything = mine(test.left, test.right, vectors, (lang, "en"), threshold=0)
    inverted = SearchSettings(exact_rows=0)
    less = mine(test.left, test.right, vectors, (lang, "en"), threshold=0, settings=inverted)
    ours, approximate = _rows(everything, test), _rows(less, test)
    best, at = best_f1(ours, test.gold)
    return {
        "dev": {
            "ours": pair_scores({pair[1:] for pair in _rows(chosen, test)}, test.gold)
            | {"at": chosen.threshold},
            "laser": pair_scores({(i, j) for score, i, j in theirs if score >= threshold}, test.gold)
            | {"at": threshold},
        },
        "best": {
            "ours": best,
            "laser": best_f1(theirs, test.gold)[0],
            "inverted file": best_f1(approximate, test.gold)[0],
        },
        "same pairs": _share({p[1:] for p in ours if p[0] >= at}, {p[1:] for p in theirs if p[0] >= at}),
    }


def _share(ours: set[tuple[int, int]], theirs: set[tuple[int, int]]) -> float:
    return 100 * len(ours & theirs) / len(ours | theirs)


def _pairs(mixture: Mixture) -> Iterator[tuple[str, str]]:
    """Return the translations, and the sentences without any."""
    known = {side: {pair[side] for pair in mixture.gold} for side in (0, 1)}
    yield from ((mixture.left[i], mixture.right[j]) for i, j in sorted(mixture.gold))
    yield from ((text, "") for i, text in enumerate(mixture.left) if i not in known[0])
    yield from (("", text) for j, text in enumerate(mixture.right) if j not in known[1])


def _rows(mined: Mined, mixture: Mixture) -> list[tuple[float, int, int]]:
    left, right = ({text: i for i, text in enumerate(side)} for side in (mixture.left, mixture.right))
    return [(pair.score, left[pair.left], right[pair.right]) for pair in mined.pairs]


def speed(vectors: Known, lang: str, test: Mixture) -> dict[str, Any]:
    """Sentences a second from vectors to pairs, ours and a plain FAISS script's in turn."""
    sides = [vectors.encode(side, "") for side in (test.left, test.right)]
    seconds = paired(
        lambda: mine(test.left, test.right, vectors, (lang, "en"), threshold=1.0),
        lambda: plain_faiss(*sides),
        _RUNS,
    )
    return _plain(ratio(f"{len(test.left):,}, {lang}-en, {vectors.name}", *seconds, 2 * len(test.left)))


def speed_of_drawn() -> dict[str, Any]:
    """As :func:`speed`, of more vectors, drawn at random: an exact search's time does not depend on them."""
    rng = np.random.default_rng(13)
    points = rng.normal(size=(_DRAWN, 384))
    sides = [(points + rng.normal(size=points.shape)).astype(np.float32) for _ in range(2)]
    texts = [[f"{name}{row}" for row in range(_DRAWN)] for name in ("a", "b")]
    known = Known("drawn", dict(zip([*texts[0], *texts[1]], np.concatenate(sides), strict=True)))
    seconds = paired(
        lambda: mine(*texts, known, ("kk", "en"), threshold=1.0), lambda: plain_faiss(*sides), _RUNS
    )
    return _plain(ratio(f"{_DRAWN:,} drawn", *seconds, 2 * _DRAWN))


def _plain(measured: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | list) else float(value) for name, value in measured.items()
    }


def _store(name: str, content: dict[str, Any]) -> None:
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    logger.info("%s: %s", name, json.dumps(content))


def write_page() -> None:
    """Put the tables of all that is stored into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}", encoding="utf-8")


def tables() -> str:
    """Make the tables of scores and speeds."""
    paths = [*sorted(RESULTS.glob("*.*.*.json")), RESULTS / "drawn.json"]
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    found = head(["", "P", "R", "F1", "threshold", "LASER: P", "R", "F1", "best F1", "LASER", "IVF"])
    speeds = head(["sentences a side", "ours, sentences/s", "plain FAISS", "ratio", "quartiles"])
    for part in stored:
        if "dev" in part:
            ours, theirs, best = part["dev"]["ours"], part["dev"]["laser"], part["best"]
            cells = [f"{ours[key]:.1f}" for key in ("precision", "recall", "f1")] + [f"{ours['at']:.3f}"]
            cells += [f"{theirs[key]:.1f}" for key in ("precision", "recall", "f1")]
            cells += [f"{best[key]:.1f}" for key in ("ours", "laser", "inverted file")]
            found.append(row([f"{part['lang']}-en, {part['system']}, {part['sentences']:,}", *cells]))
        timed = part["speed"]
        cells = [f"{timed['ours /s']:.0f}", f"{timed['peer /s']:.0f}", f"{timed['ratio']:.2f}"]
        spread = " to ".join(f"{value:.2f}" for value in timed["spread"])
        speeds.append(row([timed["what"], *cells, spread]))
    return "\n".join([*found, "", *speeds]) + "\n"


if __name__ == "__main__":
    main()
