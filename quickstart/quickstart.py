"""What `make quickstart` runs: use the shipped modules, train a language's own, see what they change.

Every figure is computed while it runs. Finished stages are kept in quickstart-out/; remove that
folder to train again.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from pathlib import Path
from statistics import fmean

import catalogs
import numpy as np
from numpy.typing import NDArray
from sentences import SENTENCES

import modenc
from modenc import ModencError, ModularEncoder, Recipe, load_recipe
from modenc.data.kinds import CrossRow
from modenc.storage import new_cache_folder
from modenc.training.data_access import TrainingData

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "adapters_hub" / "me5-small"
OUT = ROOT / "quickstart-out"
LANG = "sv"

Vectors = NDArray[np.float32]


def main() -> int:
    """Run the three parts."""
    started = time.perf_counter()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    for noisy in ("httpx", "sentence_transformers", "datasets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("adapters").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", FutureWarning)
    try:
        if not (SHIPPED / "hub.json").is_file():
            raise ModencError(f"{SHIPPED} is not there; expected the shipped modules. Restore them with git")
        title("1. Mixed languages in, comparable vectors out")
        use_shipped_modules(ModularEncoder(SHIPPED))
        title(f"2. Modules for a language that is not shipped: Swedish ({LANG})")
        hub = OUT / "hub"
        folders = {"hub.path": copy_hub(hub), "run.work_dir": OUT / "work", "data.root": OUT}
        catalogs.write_table(OUT / f"catalogs.{LANG}.tsv", catalogs.PACKAGES, LANG)
        recipe = load_recipe(
            ROOT / "recipes" / "quickstart.toml",
            [f'{key}="{folder.as_posix()}"' for key, folder in folders.items()],
        )
        folder = train(recipe)
        title("3. Before and after, on pairs that were not trained on")
        compare(recipe, hub)
        print(f"\nThe modules: {folder.relative_to(ROOT)}, {megabytes(folder):.1f} MB")
        print(f"Use them, with {sys.executable}:\n  import modenc")
        print(f'  encoder = modenc.ModularEncoder("{hub.relative_to(ROOT)}")')
        print('  vectors = encoder.encode(["God morgon", "Good morning"])')
    except ModencError as error:
        print(f"\nquickstart: {error}", file=sys.stderr)
        return 2
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes in all.")
    return 0


def use_shipped_modules(encoder: ModularEncoder) -> None:
    """Identify and encode the built-in sentences; find each one's nearest in another language."""
    rows = [(code, place, text) for code, texts in SENTENCES.items() for place, text in enumerate(texts)]
    texts = [text for _, _, text in rows]
    found = encoder.identify(texts)
    vectors = encoder.encode(texts)
    scores = cosines(vectors, vectors)
    same_language = np.array([[one == other for other, _, _ in rows] for one, _, _ in rows])
    nearest = np.where(same_language, -np.inf, scores).argmax(axis=1)
    print(f"{len(texts)} sentences in {len(SENTENCES)} languages; encode() is not told which is in which.\n")
    print("identified  text → nearest in another language (cosine)")
    for row, (language, near) in enumerate(zip(found, nearest, strict=True)):
        mark = "" if rows[near][1] == rows[row][1] else "   (another sentence)"
        match = f"{texts[row]} → {texts[near]} ({scores[row, near]:.2f})"
        mark += "" if language.modules == rows[row][0] else f"   (it is {rows[row][0]})"
        print(f"{language.modules:>2} {language.confidence:8.2f}  {match}{mark}")
    identified = sum(language.modules == code for language, (code, _, _) in zip(found, rows, strict=True))
    translated = sum(rows[near][1] == place for near, (_, place, _) in zip(nearest, rows, strict=True))
    print(f"\nLanguage identified: {identified} of {len(rows)}.")
    print(f"Nearest neighbor is a translation: {translated} of {len(rows)}.")


def copy_hub(target: Path) -> Path:
    """A copy of the shipped hub to train into; one that an earlier run made is kept."""
    if target.is_dir():
        print(f"{target.relative_to(ROOT)} is from an earlier run: its finished stages are kept.\n")
    else:
        with new_cache_folder(target) as temporary:
            shutil.copytree(SHIPPED, temporary, dirs_exist_ok=True)
    return target


def train(recipe: Recipe) -> Path:
    """Train the recipe's one language; returns its folder in the hub."""
    started = time.perf_counter()
    folder = modenc.train(recipe, languages=[LANG])[LANG]
    print(f"\nTrained in {(time.perf_counter() - started) / 60:.1f} minutes.")
    return folder


def compare(recipe: Recipe, hub: Path) -> None:
    """Print how often translations are nearest, for the base and for the new modules."""
    pairs = TrainingData(recipe.plans[LANG]).parallel.held_out
    encoder = ModularEncoder(hub)
    print(f"{len(pairs)} held-out English-Swedish pairs, from the same catalogs as the training pairs.\n")
    before = figures(encoder, pairs, "base", "base")
    after = figures(encoder, pairs, LANG, recipe.pivot)
    print(f"{'nearest is the translation, of':44}{'before':>10}{'after':>10}")
    for name, old in before.items():
        print(f"{name:44}{old:>10.1%}{after[name]:>10.1%}")
    print("\nBefore: the bare base for both languages. After: each language through its own modules.")


def figures(encoder: ModularEncoder, pairs: list[CrossRow], lang: str, pivot: str) -> dict[str, float]:
    """Name → share, the Swedish side encoded as ``lang`` and the English side as ``pivot``."""
    swedish, english = [pair.text for pair in pairs], [pair.pivot for pair in pairs]
    own, other = encoder.encode(swedish, lang=lang), encoder.encode(english, lang=pivot)
    scores = cosines(own, other)
    # In one pool, other Swedish sentences compete with the translation.
    within = cosines(own, own)
    within[[[a == b for b in swedish] for a in swedish]] = -np.inf
    return {
        "Swedish among English": accuracy(scores, english),
        "English among Swedish": accuracy(scores.T, swedish),
        "Swedish among English and Swedish": accuracy(np.hstack([scores, within]), [*english, *swedish]),
    }


def accuracy(scores: Vectors, texts: list[str]) -> float:
    """Share of rows i whose highest score [rows, texts] is at text i; equal texts are one."""
    best = scores.argmax(axis=1)
    return fmean(texts[found] == texts[row] for row, found in enumerate(best))


def cosines(rows: Vectors, columns: Vectors) -> Vectors:
    """Cosine of every row with every column: [rows, columns]."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found: Vectors = rows @ (columns / np.linalg.norm(columns, axis=1, keepdims=True)).T
    return found


def megabytes(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'─' * len(text)}")


if __name__ == "__main__":
    raise SystemExit(main())
