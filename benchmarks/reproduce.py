"""``make reproduce``: train and judge the paper's variants, then write RESULTS.md from the stored figures.

Each run ends as benchmarks/results/VARIANT/seed-N/; one that is there is not made again, so the command
goes on where it was stopped. To measure a variant anew, delete that folder and runs/reproduce/VARIANT/.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modenc.evaluate.results import SystemResults, load_results, save_results
from modenc.evaluate.runner import STATISTICS
from modenc.evaluate.significance import Items, paired_p
from modenc.hub.store import Hub

logger = logging.getLogger("reproduce")

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks"
RUNS = ROOT / "runs" / "reproduce"
RESULTS = HERE / "results"
BASE, OURS, MODULAR, MONOLITHIC = "base", "shipped recipe", "modular", "monolithic"


@dataclass(frozen=True)
class Variant:
    """A row of the table."""

    name: str
    kind: str
    recipe: str = ""
    like: str = ""
    """The variant whose first stages it shares: they are copied, not trained again."""


VARIANTS = (
    Variant("base", BASE),
    *(
        Variant(name, MONOLITHIC, f"recipes/variants/{name}.toml")
        for name in ("full_en", "full_m", "full_c", "full_mc")
    ),
    Variant("mod_en", MODULAR, "recipes/variants/mod_en.toml", like="mod_m"),
    Variant("mod_m", MODULAR, "recipes/variants/mod_m.toml"),
    *(
        Variant(name, MODULAR, f"recipes/variants/{name}.toml", like="mod_m")
        for name in ("mod_mc_pp", "mod_mc_pp_all", "mod_mc_pl", "mod_mc_pl_all", "mod_mc_jt")
    ),
    Variant("mod_m_no_la", MODULAR, "recipes/variants/mod_m_no_la.toml"),
    Variant("mod_c_jt", MODULAR, "recipes/variants/mod_c_jt.toml", like="mod_m"),
    Variant("turkic", OURS, "recipes/turkic.toml"),
)

COLUMNS: dict[str, tuple[str, ...]] = {
    "within": ("kardes.spearman.az", "kardes.spearman.kk"),
    "across": ("kardes.spearman.en-az", "kardes.spearman.en-kk", "kardes.spearman.az-kk"),
    "language_bias": ("kardes.language_bias.",),
    "xsim": tuple(f"tatoeba.xsim_error_cosine.en-{lang}" for lang in ("az", "kk", "ug", "uz")),
    "topics": ("sib.accuracy.en", "sib.accuracy.az", "sib.accuracy.kk"),
    "zero_shot": ("sib.zero_shot_accuracy.en-az", "sib.zero_shot_accuracy.en-kk"),
    "rsim": ("sib.rsim.en-az", "sib.rsim.en-kk", "sib.rsim.az-kk"),
}
"""What of the suite's figures is averaged in each column."""

HEADINGS = {
    "within": "STS within",
    "across": "STS across",
    "language_bias": "bias",
    "xsim": "xsim %",
    "topics": "topics",
    "zero_shot": "zero-shot",
    "rsim": "RSIM",
}
_TESTED = ("within", "across")
_CHANCE = 0.05
SECONDS = "seconds.txt"


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the data root of recipes/turkic.toml")
    parser.add_argument("--seed", action="append", type=int, help="run.seed; may be repeated (default: 13)")
    parser.add_argument(
        "--only",
        action="append",
        choices=[variant.name for variant in VARIANTS],
        metavar="VARIANT",
        help="only this one; may be repeated",
    )
    parser.add_argument("--runs", type=Path, default=RUNS, help="hubs, checkpoints")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where figures are stored")
    parser.add_argument("--suite", default="turkic", help="what the runs are judged on")
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
    """Train and judge every variant and seed that has no stored results."""
    seeds = args.seed or [13]
    due = [
        (variant, seed)
        for seed in seeds
        for variant in VARIANTS
        # The base has nothing to seed.
        if (not args.only or variant.name in args.only) and (variant.kind != BASE or seed == seeds[0])
    ]
    for number, (variant, seed) in enumerate(due, start=1):
        stored = args.results / variant.name / f"seed-{seed}"
        where = f"{number}/{len(due)} {variant.name}, seed {seed}"
        if (stored / "results.json").is_file():
            logger.info("%s: stored in %s", where, stored)
            continue
        logger.info("%s: training", where)
        work = args.runs / variant.name / f"seed-{seed}"
        judged = train(variant, seed, work, args)
        logger.info("%s: judging", where)
        judge(variant, judged, work, stored, args)


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
    """Start a run from another's finished stages; whole or not at all."""
    part = work.with_name(work.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for name in ("work", "hub"):
        shutil.copytree(source / name, part / name)
    shutil.copyfile(source / SECONDS, part / SECONDS)
    part.replace(work)


def timed(work: Path, *words: str) -> None:
    """Run modenc, and add its seconds to those of earlier calls for the same run."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / SECONDS
    before = float(path.read_text()) if path.is_file() else 0.0
    started = time.perf_counter()
    try:
        call(*words)
    finally:
        path.write_text(f"{before + time.perf_counter() - started:.0f}")


def judge(
    variant: Variant, judged: Sequence[str], work: Path, stored: Path, args: argparse.Namespace
) -> None:
    """Measure one trained run, and store its figures under the variant's name."""
    output = work / "eval"
    call("eval", *judged, "--suite", args.suite, "--data", str(args.data), "-o", str(output))
    (folder,) = (path.parent for path in output.glob("*/results.json"))
    results = load_results(folder)
    seconds = float((work / SECONDS).read_text()) if (work / SECONDS).is_file() else 0.0
    about = {**results.about, "system": {**results.about["system"], "training_seconds": round(seconds)}}
    if variant.kind == MONOLITHIC:
        # Not the folder of this machine.
        about["system"]["model"] = variant.name
    if judged[0] == "--hub":
        about["system"]["module_costs"] = costs(Path(judged[1]))
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
    """Module → bytes and seconds of training, means over the hub's languages that have it."""
    found: dict[str, list[tuple[int, float]]] = {}
    stages = {"la": "language_adaptation", "se": "sentence_encoding", "cla": "alignment"}
    hub = Hub.open(hub_folder)
    for lang in hub.languages():
        card = hub.card(lang)
        for part, stage in stages.items():
            size = sum(entry["bytes"] for name, entry in card.files.items() if name.startswith(part))
            seconds = card.stages.get(stage, {}).get("metrics", {}).get("seconds", 0.0)
            if size:
                found.setdefault(part, []).append((size, seconds))
    means = {part: np.mean(rows, axis=0) for part, rows in found.items()}
    return {
        part: {"bytes": float(size), "seconds": float(seconds)} for part, (size, seconds) in means.items()
    }


def call(verb: str, *words: str) -> None:
    """Run a verb of modenc; its output goes to the terminal."""
    subprocess.run([sys.executable, "-m", "modenc.cli", verb, *words], check=True, stdout=sys.stderr)


def stored_runs(folder: Path) -> Iterator[tuple[Variant, list[SystemResults]]]:
    """Each variant with its stored runs, in the order of the table; those without any are left out."""
    for variant in VARIANTS:
        found = (folder / variant.name).glob("seed-*/results.json")
        paths = sorted(found, key=lambda path: int(path.parent.name.removeprefix("seed-")))
        runs = [load_results(path.parent) for path in paths]
        if runs:
            yield variant, runs


def column(run: SystemResults, name: str) -> float:
    """A run's figure in a column; NaN where one of its parts was not measured."""
    parts = [run.find(key) for key in COLUMNS[name]]
    return float(np.mean([np.nan if part is None else part.value for part in parts]))


def tables(folder: Path) -> str:
    """RESULTS.md from the stored runs.

    Raises:
        SystemExit: nothing is stored.
    """
    stored = list(stored_runs(folder))
    if not stored:
        raise SystemExit(f"{folder}: expected stored results, found none; run without --tables-only")
    paper = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))
    lines = [
        "# Results",
        "",
        "Made by `make reproduce` from the runs stored in `results/`; no figure here is typed by hand,",
        "but the paper's (`paper.toml`).",
        "",
        "## The paper's Table 2, on this budget",
        "",
        "Ours: me5-small, Kardeş-NLU (within: az, kk; across: en-az, en-kk, az-kk), Tatoeba (az, kk,",
        "ug, uz), SIB-200 (en, az, kk); means over seeds, ± their standard deviation where there are",
        "several. In brackets the paper's, of mE5-base on other languages and test sets, with 600,000",
        "paraphrases a language where we have 1,000. p: of so large a difference from the base by",
        "chance, two-sided, from a paired bootstrap on the same pairs (first seed).",
        "",
    ]
    headings = ["variant", "seeds", *HEADINGS.values(), *(f"p {HEADINGS[name]}" for name in _TESTED)]
    lines += [row(headings), row(["---", *["---:"] * (len(headings) - 1)])]
    base = next((runs[0] for variant, runs in stored if variant.kind == BASE), None)
    for variant, runs in stored:
        cells = [variant.name, str(len(runs))]
        theirs = paper["rows"].get(variant.name, {})
        cells += [cell(runs, name, theirs.get(name)) for name in COLUMNS]
        cells += [shown_p(runs[0], base, name) for name in _TESTED]
        lines.append(row(cells))
    lines += ["", "## The paper's Table 3: aligned with English, or all with all", ""]
    lines += ["In brackets the paper's, on seven languages.", "", *all_pairs_table(stored, paper)]
    lines += ["", "## The paper's findings", "", *finding_table(stored, paper), ""]
    lines += [(HERE / "findings.md").read_text(encoding="utf-8").strip()]
    lines += ["", *interval_table(stored), "", *cost_table(stored), "", *provenance(stored)]
    return "\n".join(lines) + "\n"


def cell(runs: Sequence[SystemResults], name: str, theirs: float | None) -> str:
    """The mean over seeds, ± their standard deviation, and the paper's figure in brackets."""
    values = [column(run, name) for run in runs]
    digits = 2 if name == "rsim" else 1
    text = "–" if np.isnan(values).any() else f"{np.mean(values):.{digits}f}"
    if len(values) > 1 and text != "–":
        text += f" ± {np.std(values, ddof=1):.{digits}f}"
    return text + (f" ({theirs:.{digits}f})" if theirs is not None else "")


def column_p(run: SystemResults, other: SystemResults, name: str) -> float:
    """Two-sided p of the difference between two runs' means over a column's sets, row by row the same items.

    NaN where a set was not measured, or the sets are not of one length.
    """
    known = [key for key in COLUMNS[name] if key in run.items and key in other.items]
    if not known or len({len(run.items[key]) for key in known}) > 1:
        return float("nan")
    statistic = STATISTICS["spearman"]
    joined = [np.hstack([system.items[key] for key in known]) for system in (run, other)]

    def mean(items: Items) -> float:
        return float(np.mean([statistic(part) for part in np.split(items, len(known), axis=1)]))

    return paired_p(*joined, mean, seed=run.seed)


def shown_p(run: SystemResults, other: SystemResults | None, name: str) -> str:
    """The p of :func:`column_p` for a table's cell."""
    if other is None or run is other or np.isnan(p := column_p(run, other, name)):
        return ""
    return f"{p:.3f}"


def finding_table(
    stored: Sequence[tuple[Variant, list[SystemResults]]], paper: dict[str, Any]
) -> Iterator[str]:
    """The paper's findings, each a difference between two rows, in the paper and here."""
    runs = {variant.name: found for variant, found in stored}
    yield row(["the paper finds", "column", "difference", "paper", "here", "p", "so"])
    yield row(["---", "---", "---", "---:", "---:", "---:", "---"])
    for finding in paper["findings"]:
        high, low, name = finding["high"], finding["low"], finding["column"]
        table = paper[finding.get("table", "rows")]
        theirs = table[high][name] - table[low][name]
        words = [finding["claim"], HEADINGS[name], f"{high} − {low}", f"{theirs:+.1f}"]
        if high not in runs or low not in runs:
            yield row([*words, "", "", "not measured"])
            continue
        ours = float(np.mean([column(run, name) for run in runs[high]]))
        ours -= float(np.mean([column(run, name) for run in runs[low]]))
        p = column_p(runs[high][0], runs[low][0], name) if name in _TESTED else float("nan")
        verdict = "agrees" if ours * theirs > 0 else "does not agree"
        if p > _CHANCE:
            verdict += ", within chance"
        yield row([*words, f"{ours:+.1f}", "" if np.isnan(p) else f"{p:.3f}", verdict])


def all_pairs_table(
    stored: Sequence[tuple[Variant, list[SystemResults]]], paper: dict[str, Any]
) -> Iterator[str]:
    """The paper's Table 3."""
    names = ("within", "across", "language_bias")
    yield row(["variant", *(HEADINGS[name] for name in names)])
    yield row(["---", *("---:" for _ in names)])
    for variant, runs in stored:
        theirs = paper["all_pairs"].get(variant.name)
        if theirs:
            yield row([variant.name, *(cell(runs, name, theirs.get(name)) for name in names)])


def interval_table(stored: Sequence[tuple[Variant, list[SystemResults]]]) -> list[str]:
    """Every similarity set with its 95 % bootstrap interval, first seed."""
    keys = ["stsb.spearman.en", *COLUMNS["within"], *COLUMNS["across"]]
    lines = ["## Similarity set by set, with 95 % intervals (first seed)", ""]
    lines += [row(["variant", *(key.rsplit(".", 1)[1] for key in keys)]), row(["---", *["---:"] * len(keys)])]
    for variant, runs in stored:
        cells = [variant.name]
        for key in keys:
            found = runs[0].find(key)
            cells.append(f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]" if found else "")
        lines.append(row(cells))
    return lines


def cost_table(stored: Sequence[tuple[Variant, list[SystemResults]]]) -> list[str]:
    """The paper's Table 4: size and time of each module, and of a whole model."""
    lines = ["## The paper's Table 4: size and training time", ""]
    lines += [row(["variant", "part", "MB a language", "seconds a language"])]
    lines += [row(["---", "---", "---:", "---:"])]
    for variant, runs in stored:
        about = runs[0].about["system"]
        for part, cost in about.get("module_costs", {}).items():
            lines.append(row([variant.name, part, f"{cost['bytes'] / 1e6:.2f}", f"{cost['seconds']:.0f}"]))
        if variant.kind == MONOLITHIC:
            lines.append(row([variant.name, "whole model", "", f"{about['training_seconds']} in all"]))
    return lines


def provenance(stored: Sequence[tuple[Variant, list[SystemResults]]]) -> list[str]:
    """Budget, seeds, hardware and versions of every run."""
    lines = ["## Runs", ""]
    for variant, runs in stored:
        for run in runs:
            hardware, versions = run.about["hardware"], run.about["versions"]
            seconds = run.about["system"].get("training_seconds", 0)
            lines.append(
                f"- {variant.name}: trained in {seconds} s, judged in {run.seconds:.0f} s on "
                f"{hardware['processors']} {hardware['machine']} cores, {run.about['created']}; "
                + ", ".join(f"{package} {number}" for package, number in versions.items())
            )
    return lines


def row(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
