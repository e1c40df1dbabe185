"""``make reproduce``: train and evaluate all variants (variants.py), then write RESULTS.md.

Each run ends as benchmarks/results/VARIANT/seed-N/; an existing one is not run again, so the command
resumes where it was stopped. To measure a variant again, delete that folder and runs/reproduce/VARIANT/.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tables import tables
from variants import BASE, MONOLITHIC, VARIANTS, Variant

from modenc.evaluation.results import SystemResults, load_results, save_results
from modenc.hub.store import Hub

logger = logging.getLogger("reproduce")

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks"
RUNS = ROOT / "runs" / "reproduce"
RESULTS = HERE / "results"
COSTS = "costs.json"
GROUPS = tuple(dict.fromkeys(variant.group for variant in VARIANTS))


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the data root of all their recipes")
    parser.add_argument("--seed", action="append", type=int, help="run.seed; may be repeated (default: 13)")
    parser.add_argument(
        "--only",
        action="append",
        choices=[variant.name for variant in VARIANTS],
        metavar="VARIANT",
        help="only this one; may be repeated",
    )
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this table's variants")
    parser.add_argument("--runs", type=Path, default=RUNS, help="hubs, checkpoints")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--suite", help="what the runs are evaluated on (trials)")
    parser.add_argument("--tables-only", action="store_true", help="train nothing")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for every recipe (trials)")
    args = parser.parse_args()
    if args.overrides and (args.runs, args.results) == (RUNS, RESULTS):
        parser.error("overrides are for trials: give them --runs and --results of their own")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if not args.tables_only:
        reproduce(args)
    text = tables(args.results)
    (args.results.parent / "RESULTS.md").write_text(text, encoding="utf-8")
    logger.info("written: %s", args.results.parent / "RESULTS.md")


def reproduce(args: argparse.Namespace) -> None:
    """Train and evaluate every variant and seed that has no stored results."""
    seeds = args.seed or [13]
    due = [
        (variant, seed)
        for seed in seeds
        for variant in VARIANTS
        # The base has nothing to seed.
        if (not args.only or variant.name in args.only)
        and (not args.group or variant.group in args.group)
        and (variant.kind != BASE or seed == seeds[0])
    ]
    for number, (variant, seed) in enumerate(due, start=1):
        stored = args.results / variant.name / f"seed-{seed}"
        where = f"{number}/{len(due)} {variant.name}, seed {seed}"
        if (stored / "results.json").is_file():
            logger.info("%s: stored in %s", where, stored)
            continue
        logger.info("%s: training", where)
        work = args.runs / variant.name / f"seed-{seed}"
        system = train(variant, seed, work, args)
        logger.info("%s: evaluating", where)
        evaluate(variant, system, work, stored, args)


def train(variant: Variant, seed: int, work: Path, args: argparse.Namespace) -> list[str]:
    """Train one run, and return the words that name it to ``modenc eval``."""
    if variant.kind == BASE:
        return ["--model", "me5-small"]
    relative = args.runs / variant.like / f"seed-{seed}"
    finished = (args.results / variant.like / f"seed-{seed}" / "results.json").is_file()
    if variant.like and finished and relative.exists() and not work.exists():
        copy_of_stages(relative, work)
    words = [
        str(ROOT / variant.recipe),
        f"data.root={args.data}",
        f"run.seed={seed}",
        f"run.work_dir={work / 'work'}",
        f"hub.path={work / 'hub'}",
        *args.overrides,
    ]
    if variant.kind == MONOLITHIC:
        if not (work / "model").exists():
            timed(work, "train", *words, "--monolithic", str(work / "model"))
        return ["--model", str(work / "model")]
    timed(work, "train", *words)
    return ["--hub", str(work / "hub")]


def copy_of_stages(source: Path, work: Path) -> None:
    """Copy another run's finished stages, as one atomic step."""
    part = work.with_name(work.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for name in ("work", "hub"):
        shutil.copytree(source / name, part / name)
    shutil.copyfile(source / COSTS, part / COSTS)
    part.replace(work)


def timed(work: Path, *words: str) -> None:
    """Run modenc; write its peak memory and its seconds, added to those of earlier calls."""
    work.mkdir(parents=True, exist_ok=True)
    before, started, peak = costs_of(work), time.perf_counter(), 0
    try:
        peak = call(*words)
    finally:
        seconds = before.get("seconds", 0.0) + time.perf_counter() - started
        # A call without anything to do needs little memory.
        found = {"seconds": round(seconds), "peak_bytes": max(peak, before.get("peak_bytes", 0))}
        (work / COSTS).write_text(json.dumps(found))


def costs_of(work: Path) -> dict[str, Any]:
    """Read the costs written by :func:`timed`."""
    path = work / COSTS
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def evaluate(
    variant: Variant, system: Sequence[str], work: Path, stored: Path, args: argparse.Namespace
) -> None:
    """Measure one trained run, and store its results under the variant's name."""
    output = work / "eval"
    suite = args.suite or variant.suite
    call("eval", *system, "--suite", suite, "--data", str(args.data), "-o", str(output))
    (folder,) = (path.parent for path in output.glob("*/results.json"))
    results = load_results(folder)
    noted = costs_of(work)
    described = {**results.about["system"], "training_seconds": noted.get("seconds", 0)}
    about = {**results.about, "system": described | {"training_peak_bytes": noted.get("peak_bytes", 0)}}
    if variant.kind == MONOLITHIC:
        # Not the folder of this machine.
        about["system"]["model"] = variant.name
        about["system"]["seconds_a_step"] = whole_model_step(Path(system[1]))
    if system[0] == "--hub":
        about["system"]["module_costs"] = costs(Path(system[1]))
    renamed = SystemResults(
        variant.name,
        results.suite,
        results.seed,
        results.seconds,
        about,
        results.results,
        results.items,
        results.skipped,
    )
    save_results(renamed, stored)


def costs(hub_folder: Path) -> dict[str, dict[str, float]]:
    """Module → bytes, seconds of training and of a step, means over the hub's languages that have it."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    stages = {"la": "language_adaptation", "se": "sentence_encoding", "cla": "alignment"}
    hub = Hub.open(hub_folder)
    for lang in hub.languages():
        card = hub.card(lang)
        for part, stage in stages.items():
            size = sum(entry["bytes"] for name, entry in card.files.items() if name.startswith(part))
            metrics = card.stages.get(stage, {}).get("metrics", {})
            if size:
                found.setdefault(part, []).append((size, metrics.get("seconds", 0.0), last_step(metrics)))
    means = {part: np.mean(rows, axis=0).tolist() for part, rows in found.items()}
    names = ("bytes", "seconds", "seconds_a_step")
    return {part: dict(zip(names, values, strict=True)) for part, values in means.items()}


def last_step(metrics: dict[str, Any]) -> float:
    """Return the seconds of a step in a training's last phase; 0 if it had no steps."""
    figures = list(metrics.get("phases", {"": metrics}).values())[-1]
    return figures.get("seconds", 0.0) / max(figures.get("timed_steps", figures.get("steps", 0)), 1)


def whole_model_step(model: Path) -> float:
    """As :func:`last_step`, for a monolithic training."""
    noted = json.loads((model / "training.json").read_text(encoding="utf-8"))
    return last_step(list(noted["metrics"].values())[-1])


def call(verb: str, *words: str) -> int:
    """Run a command of modenc with its output on the terminal; returns its peak resident bytes.

    Raises:
        CalledProcessError: it failed.
    """
    command = [sys.executable, "-m", "modenc.cli", verb, *words]
    process = subprocess.Popen(command, stdout=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
