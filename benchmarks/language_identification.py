"""Accuracy of choosing the shipped hub's modules for texts, and the fallback for other languages.

``python benchmarks/language_identification.py --data DIR``. The prior of ``modenc.langid`` was chosen on the
first half of each file; what is printed and stored is of the second (``--half first`` shows the other). Short
texts: ``greetings.tsv``, written for this, all of them.

``--additions LABEL`` measures the same sentences with what real texts have around them (links, markup, names
in Latin script, …), and stores the figures under LABEL, so that two versions can be compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import where

from modenc.composition.routing import LanguageRouter
from modenc.hub.store import Hub
from modenc.texts import as_texts

HERE = Path(__file__).resolve().parent
HUB = HERE.parent / "adapters_hub" / "me5-small"
STORED = HERE / "identification" / "identification.json"


def _codes(words: str) -> tuple[str, ...]:
    return tuple(words.split())


TATOEBA = _codes("am ar az cs de es fr it kk ko mr nl pl ru te tr ug uz zh")
SIB = _codes("az de en kk ko tr")
KARDES = _codes("az kk ky ug uz")
STS = _codes("de en es fr it ja nl pl pt ru tr zh")
STR = _codes("am ha mr rw te")
SURE = "min_confidence=0.5"
Texts = dict[str, dict[str, list[str]]]

LINKS = (
    "https://www.example.com/news/today-weather-report",
    "http://t.co/Ab3dE9",
    "www.some-shop.co.uk/products?id=77&ref=mail",
    "example.net/path/to/page.html",
)
NAMES = (
    *(
        "iPhone 15 Pro Max",
        "MediaMarkt",
        "Microsoft Office 365",
        "Visual Studio Code",
        "PlayStation 5",
        "YouTube",
    ),
    *("Samsung Galaxy S24 Ultra", "New York Times", "Harry Potter and the Philosopher's Stone", "Coca-Cola"),
    *("netflix", "google chrome", "docker compose", "Adobe Photoshop"),
)
FULL_WIDTH = {code: code + 0xFEE0 for code in range(33, 127)}
PRESENTATION = {
    ord(folded): form
    for form in map(chr, [*range(0xFB50, 0xFDFC), *range(0xFE70, 0xFEFD)])
    if unicodedata.decomposition(form).startswith("<medial>")
    and len(folded := unicodedata.normalize("NFKC", form)) == 1
}
Add = Callable[[str, random.Random], str]
ADDITIONS: dict[str, Add] = {
    "clean": lambda text, _: text,
    "link": lambda text, rng: f"{text} {rng.choice(LINKS)}",
    "link first": lambda text, rng: f"{rng.choice(LINKS)} {text}",
    "e-mail": lambda text, _: f"{text} first.last@company-mail.example.com",
    "HTML": lambda text, rng: (
        f'<div class="article"><a href="{rng.choice(LINKS)}" title="read more">{text}</a></div>'
    ),
    "Markdown": lambda text, rng: f"**[{text}]({rng.choice(LINKS)})**",
    "code": lambda text, _: f"{text} `for item in list_of_items: print(item.name)`",
    "@ and #": lambda text, _: f"@some_user {text} #BreakingNews #sports",
    "name": lambda text, rng: _inserted(text, rng.choice(NAMES), rng),
    "prefix": lambda text, rng: f"{rng.choice(('query', 'passage'))}: {text}",
    "numbers": lambda text, _: f"2024-05-17 14:33:02 [12345] {text} (x3)",
    "full width": lambda text, _: text.translate(FULL_WIDTH),
    "presentation": lambda text, _: text.translate(PRESENTATION),
    "NFD": lambda text, _: unicodedata.normalize("NFD", text),
}
PER_LANGUAGE = 500


def main() -> None:
    """Measure, store and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/ and mono/")
    parser.add_argument("--half", choices=("first", "second"), default="second")
    parser.add_argument("--speed", action="store_true", help="measure texts/s alone, on a quiet machine")
    parser.add_argument(
        "--additions", metavar="LABEL", help="measure texts with additions alone, and store them so"
    )
    args = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    texts = _texts(args.data, args.half)
    if args.speed:
        stored["speed"] = {**_speed(texts), "where": where()}
        print(json.dumps(stored["speed"], indent=1))
    elif args.additions:
        stored.setdefault("additions", {})[args.additions] = _with_additions(texts)
        print(additions_table(stored["additions"]))
    else:
        stored |= _measured(texts)
        print(table(stored))
    if args.half == "second":
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def table(stored: dict[str, Any]) -> str:
    """Markdown tables of the hub's languages and of the others."""
    lines = [f"| right modules, % | texts | now | {SURE} |", "|---|---|---|---|"]
    for row in stored["hub"]:
        lines.append(f"| {row['set']} {row['lang']} | {row['texts']} | {row['now']:.1f} | {row[SURE]:.1f} |")
    lines += ["", f"| to the fallback, % | texts | now | {SURE} |", "|---|---|---|---|"]
    for row in stored["others"]:
        lines.append(f"| {row['set']} {row['lang']} | {row['texts']} | {row['now']:.1f} | {row[SURE]:.1f} |")
    return "\n".join(lines)


def additions_table(stored: dict[str, dict[str, dict[str, float]]]) -> str:
    """Markdown table: right modules, %, of each language with each addition, a label after the other."""
    lines = [f"| | {' | '.join(ADDITIONS)} |", "|---|" + "---|" * len(ADDITIONS)]
    for lang in next(iter(stored.values())):
        cells = [
            " → ".join(f"{figures[lang][name]:.1f}" for figures in stored.values()) for name in ADDITIONS
        ]
        lines.append(f"| {lang} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _with_additions(texts: Texts) -> dict[str, dict[str, float]]:
    """Language, and their mean → addition → right modules, %."""
    hub = Hub.open(HUB)
    router = LanguageRouter(hub, "base")
    figures: dict[str, dict[str, float]] = {}
    for lang in hub.languages():
        sets = [texts[name].get(lang, []) for name in ("Tatoeba", "Kardeş-NLU dev", "STS-B", "SIB-200")]
        if not (found := [text for one in sets for text in one]):
            continue
        own = random.Random(lang).sample(found, min(PER_LANGUAGE, len(found)))
        figures[lang] = {}
        for name, add in ADDITIONS.items():
            rng = random.Random(lang)
            # As encode() does.
            added = as_texts([add(text, rng) for text in own], 512 * 64)[0]
            figures[lang][name] = _share([found.modules for found in router.identify(added)], lang)
    figures["mean"] = {name: float(np.mean([of[name] for of in figures.values()])) for name in ADDITIONS}
    return figures


def _inserted(text: str, name: str, rng: random.Random) -> str:
    """A text with a name somewhere between its words, or letters where it has no blanks."""
    blank = " " if " " in text else ""
    words = text.split(" ") if blank else list(text)
    place = rng.randrange(len(words) + 1)
    return blank.join([*words[:place], name, *words[place:]])


def _measured(texts: Texts) -> dict[str, Any]:
    hub = Hub.open(HUB)
    router, languages = LanguageRouter(hub, "base"), hub.languages()
    inside, outside = [], []
    for name, by_language in texts.items():
        for lang, own in by_language.items():
            routed = router.identify(own)
            now = [found.modules for found in routed]
            sure = [found.modules if found.confidence >= 0.5 else "base" for found in routed]
            row: dict[str, Any] = {"set": name, "lang": lang, "texts": len(own)}
            if lang in languages:
                inside.append({**row, **_both(now, sure, lang)})
            else:
                outside.append({**row, **_both(now, sure, "base")})
    means = _means(inside, ("now", SURE))
    sentences = _means(outside, ("now", SURE))
    overall = {"set": "mean of", "lang": f"{len(sentences)} languages' sentences"}
    counts = {
        "texts": sum(row["texts"] for row in sentences),
        **{name: float(np.mean([row[name] for row in sentences])) for name in ("now", SURE)},
    }
    return {"hub": inside + means, "others": [*outside, *sentences, {**overall, **counts}]}


def _means(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Average over all texts of each language."""
    of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of[row["lang"]].append(row)
    means = []
    for lang, own in sorted(of.items()):
        weights = [row["texts"] for row in own]
        figures = {name: float(np.average([row[name] for row in own], weights=weights)) for name in columns}
        means.append({"set": "all", "lang": lang, "texts": sum(weights), **figures})
    return means


def _both(now: list[str], sure: list[str], wanted: str) -> dict[str, float]:
    return {"now": _share(now, wanted), SURE: _share(sure, wanted)}


def _share(found: list[str], wanted: str) -> float:
    return 100 * sum(code == wanted for code in found) / len(found)


def _speed(texts: Texts) -> dict[str, Any]:
    """Measure identified sentences a second."""
    hub = Hub.open(HUB)
    some = [t for own in texts.values() for lang in hub.languages() for t in own.get(lang, [])[:100]]
    router = LanguageRouter(hub, "base")
    router.identify(some)
    start = time.perf_counter()
    router.identify(some)
    return {"texts": len(some), "now /s": len(some) / (time.perf_counter() - start)}


def _texts(data: Path, half: str) -> Texts:
    """Set → language → texts: half of each file, all greetings."""
    sets: Texts = defaultdict(dict)
    english: list[str] = []
    for lang in TATOEBA:
        rows = _rows(data / "eval/bitext/tatoeba" / f"{lang}.tsv")
        sets["Tatoeba"][lang] = [row[1] for row in rows]
        english += [row[0] for row in rows[:: len(TATOEBA)]]
    sets["Tatoeba"]["en"] = english
    for lang in SIB:
        files = [data / "eval/classification/sib" / lang / f"{part}.tsv" for part in ("train", "dev", "test")]
        sets["SIB-200"][lang] = [row[2] for file in files for row in _rows(file)]
    for lang in KARDES:
        sets["Kardeş-NLU dev"][lang] = _sentences(data / "eval/sts" / f"kardes_dev.{lang}.tsv")
    for lang in STS:
        sets["STS-B"][lang] = _sentences(data / "eval/sts" / f"stsb.{lang}.tsv")
    for lang in STR:
        sets["STR24 dev"][lang] = own = _sentences(data / "eval/sts" / f"str24_dev.{lang}.tsv")
        sets["STR24 dev, four words"][lang] = [" ".join(text.split()[:4]) for text in own]
    sets["news"]["sw"] = _lines(data / "mono" / "sw.txt.gz")
    halves = {
        name: {lang: _half(own, half) for lang, own in by_language.items()}
        for name, by_language in sets.items()
    }
    greetings: dict[str, list[str]] = defaultdict(list)
    for lang, text in _rows(HERE / "greetings.tsv"):
        greetings[lang].append(text)
    return {**halves, "greetings": greetings}


def _half(texts: list[str], half: str) -> list[str]:
    middle = len(texts) // 2
    return texts[:middle] if half == "first" else texts[middle:]


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def _sentences(path: Path) -> list[str]:
    return [text for row in _rows(path) for text in row[1:3]]


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return random.Random(0).sample(lines, 1000)


if __name__ == "__main__":
    main()
