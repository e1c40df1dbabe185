"""``make reproduce``: train and evaluate the papers' variants, then compare those of a folder with the base.

Each recipe of recipes/variants, objectives and captions is a variant, ``full_*`` a monolithic one. A run
ends as benchmarks/results/VARIANT/seed-N/ (captions_VARIANT for recipes/captions); an existing one is not
made again, so the command goes on where it was stopped. To measure a variant again, delete that folder and
runs/reproduce/VARIANT/.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modenc.evaluation.results import SystemResults, load_results, markdown, save_results

logger = logging.getLogger("reproduce")

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "reproduce"
RESULTS = ROOT / "benchmarks" / "results"
FOLDERS = {"variants": "turkic", "objectives": "turkic", "captions": "captions"}
"""Folder of recipes → suite that its variants are evaluated on."""


@dataclass(frozen=True)
class Variant:
    """A row of a table; the base where it has no recipe."""

    name: str
    suite: str
    recipe: Path | None = None
    like: str = ""
    """The variant whose first stages it shares: they are copied, not trained again."""

    @property
    def monolithic(self) -> bool:
        """Whether it is one whole model."""
        return self.recipe is not None and self.recipe.name.startswith("full_")


def variants(folder: str) -> list[Variant]:
    """List a folder's variants: the base, then the one that others start from, then the others."""
    prefix, suite = "captions_" if folder == "captions" else "", FOLDERS[folder]
    found = [Variant(f"{prefix}base", suite)]
    recipes = (ROOT / "recipes" / folder).glob("[!_]*.toml")
    for recipe in sorted(recipes, key=lambda path: (path.stem != "mod_m", path.stem)):
        shares = recipe.stem.startswith("mod_") and recipe.stem not in ("mod_m", "mod_m_no_la")
        found.append(Variant(prefix + recipe.stem, suite, recipe, f"{prefix}mod_m" if shares else ""))
    return found


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the data root of all their recipes")
    parser.add_argument("--seed", action="append", type=int, help="run.seed; may be repeated (default: 13)")
    parser.add_argument("--only", action="append", metavar="VARIANT", help="only this one; may be repeated")
    parser.add_argument("--runs", type=Path, default=RUNS, help="hubs, checkpoints")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for every recipe (trials)")
    args = parser.parse_args()
    if args.overrides and (args.runs == RUNS or args.results == RESULTS):
        parser.error("overrides are for trials: give them --runs and --results of their own")
    known = {variant.name for folder in FOLDERS for variant in variants(folder)}
    if unknown := set(args.only or ()) - known:
        parser.error(f"expected --only of {', '.join(sorted(known))}, found {', '.join(sorted(unknown))}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for seed in args.seed or [13]:
        for folder in FOLDERS:
            measured = [
                measure(variant, seed, args)
                for variant in variants(folder)
                if not args.only or variant.name in args.only
            ]
            if measured:
                print(f"recipes/{folder}, seed {seed}\n\n{markdown(measured)}")


def measure(variant: Variant, seed: int, args: argparse.Namespace) -> SystemResults:
    """Train and evaluate a variant, unless its results are stored."""
    stored = args.results / variant.name / f"seed-{seed}"
    if (stored / "results.json").is_file():
        logger.info("%s, seed %d: stored in %s", variant.name, seed, stored)
        return load_results(stored)
    work = args.runs / variant.name / f"seed-{seed}"
    logger.info("%s, seed %d: training", variant.name, seed)
    system = train(variant, seed, work, args)
    logger.info("%s, seed %d: evaluating", variant.name, seed)
    output = work / "eval"
    call("eval", *system, "--suite", variant.suite, "--data", str(args.data), "-o", str(output))
    (found,) = output.glob("*/results.json")
    results = replace(load_results(found.parent), name=variant.name)
    if variant.monolithic:
        results.about["system"]["model"] = variant.name  # not a folder of this machine
    save_results(results, stored)
    return results


def train(variant: Variant, seed: int, work: Path, args: argparse.Namespace) -> Sequence[str]:
    """Train one run, and return the words that name it to ``modenc eval``."""
    if variant.recipe is None:
        return ["--model", "me5-small"]
    shared = args.runs / variant.like / f"seed-{seed}"
    if variant.like and shared.is_dir() and not work.exists():
        part = work.with_name(work.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        for name in ("work", "hub"):
            shutil.copytree(shared / name, part / name)
        part.replace(work)
    settings = [
        f"data.root={args.data}",
        f"run.seed={seed}",
        f"run.work_dir={work / 'work'}",
        f"hub.path={work / 'hub'}",
        *args.overrides,
    ]
    if variant.monolithic:
        if not (work / "model").exists():
            call("train", str(variant.recipe), *settings, "--monolithic", str(work / "model"))
        return ["--model", str(work / "model")]
    call("train", str(variant.recipe), *settings)
    return ["--hub", str(work / "hub")]


def call(verb: str, *words: str) -> None:
    """Run a command of modenc with its output on the terminal.

    Raises:
        CalledProcessError: it failed.
    """
    subprocess.run([sys.executable, "-m", "modenc.cli", verb, *words], stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
