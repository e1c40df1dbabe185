"""All languages of a hub against its bare base: measured once, stored, then tables and a picture.

``python benchmarks/languages.py --data DIR [--suite search_dev]`` measures a suite (else ``eighteen``) on the
base, and on the hub's modules without and with alignment, and stores the figures in
benchmarks/results/SUITE/.
Languages that the hub lacks are left out of its figures, and named. Figures of the same weights, suite and
precision are not made again.
In float32, since bfloat16 (``--compute bf16``, twice as fast) moves errors on Tatoeba by up to 0.2.

Without ``--data`` it measures nothing, and writes README.md's tables, docs/languages.png and the section of
RESULTS.md again from what is stored. benchmarks/results/peers.toml has published results of other models.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from language_picture import write_picture
from language_tables import PICTURE, peer_table, readme_table, section, summary_table, write_table
from stored_languages import SUITES, SYSTEMS, Stored
from suite_parts import restricted, suite_fingerprint

from modenc import ModularEncoder
from modenc.composition.bert import choose_precision
from modenc.errors import DataError, ModencError
from modenc.evaluation.results import SystemResults, load_results, save_results
from modenc.evaluation.retrieval import Vectors
from modenc.evaluation.runner import run_suite
from modenc.evaluation.suite import Suite, check_files, load_suite
from modenc.evaluation.systems import ModularSystem, System
from modenc.languages import BASE

logger = logging.getLogger("languages")

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HUB = ROOT / "adapters_hub" / "me5-small"
PAPER = ROOT / "benchmarks" / "paper.toml"
PUBLISHED: dict[str, tuple[Any, ...]] = {"suite": SUITES, "hub": (HUB,), "compute": ("fp32",)}
"""Settings of the published results; a run with other settings is a trial."""

SEED = 13
SUMMARY = "<!-- summary by languages.py -->", "<!-- end of summary -->"
BEGIN, END = "<!-- languages.py writes from here -->", "<!-- to here -->"
_BATCH = 64


def main() -> None:
    """Measure what is not stored yet, then write the tables and the picture.

    Raises:
        SystemExit: the options contradict each other, or what they name cannot be used (status 2).
    """
    args = arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        if args.data is not None:
            measure(args)
        if args.results.resolve() == RESULTS:
            write_pages(RESULTS)
    except ModencError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


def arguments() -> argparse.Namespace:
    """Parse the options; a trial needs ``--results``, so that it never replaces the published results.

    Raises:
        SystemExit: they contradict each other (status 2).
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the files that the suite names")
    parser.add_argument("--hub", type=Path, default=HUB)
    parser.add_argument("--suite", default=SUITES[0], help="another suite")
    parser.add_argument("--only", choices=SYSTEMS, action="append", help="only this system; may be repeated")
    parser.add_argument("--compute", default="fp32", help="as of ModularEncoder (default: fp32)")
    parser.add_argument("--results", type=Path, help="folder for results; required for trials")
    args = parser.parse_args()
    trial = [f"--{name}" for name, usual in PUBLISHED.items() if getattr(args, name) not in usual]
    if trial and args.results is None:
        parser.error(
            f"expected --results DIR with {', '.join(trial)}: the published results would be replaced"
        )
    args.results = args.results or RESULTS
    return args


def measure(args: argparse.Namespace) -> None:
    """Measure and store each system as far as no results of the same weights are stored.

    Raises:
        DataError: test files are missing (all are named), or one cannot be read.
        ModencError: the suite or the hub cannot be used.
    """
    suite = load_suite(args.suite)
    check_files(suite, args.data)
    encoder = ModularEncoder(args.hub, compute=args.compute)
    for name in args.only or SYSTEMS:
        folder = args.results / suite.name / name
        part = suite if name == "base" else restricted(suite, encoder.languages)[0]
        system = opened(name, encoder)
        about = {**system.describe(), **circumstances(name, encoder, suite, args)}
        stored = stored_results(folder)
        if stored and not stored.skipped and stored.about["system"] == about:
            logger.info("%s: stored in %s", name, folder)
            continue
        results = run_suite(system, part, args.data, seed=SEED)
        save_results(replace(results, about={**results.about, "system": about}), folder)
        logger.info("%s: %.0f s, stored in %s", name, results.seconds, folder)


def opened(name: str, encoder: ModularEncoder) -> System:
    """Open a system of :data:`SYSTEMS` by name."""
    if name == "base":
        return BaseSystem(encoder, name=name, batch_size=_BATCH)
    return ModularSystem(encoder, name=name, align=name == "align", batch_size=_BATCH)


class BaseSystem:
    """A hub's base alone, without modules, with the hub's settings.

    Args:
        encoder: the hub's encoder.
        name: name in tables.
        batch_size: texts in a forward pass.
    """

    def __init__(self, encoder: ModularEncoder, *, name: str = "base", batch_size: int = 32) -> None:
        self.name = name
        self.encoder = encoder
        self.batch_size = batch_size

    def encode(self, texts: list[str], lang: str) -> Vectors:
        """Encode texts, whatever ``lang`` is; returns vectors [texts, hidden]."""
        vectors: Vectors = self.encoder.encode(
            texts, lang=BASE, batch_size=self.batch_size, show_progress_bar=False
        )
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe the base, a fingerprint of its weights, the prompt and the longest input."""
        info = self.encoder.hub.info
        return {
            "kind": "base",
            "base": info.base_id,
            "fingerprint": info.base_fingerprint,
            "prompt": info.prompt,
            "max_length": info.max_length,
        }


def circumstances(
    name: str, encoder: ModularEncoder, suite: Suite, args: argparse.Namespace
) -> dict[str, Any]:
    """Return all that results depend on beside the system; for modules also the size of each language."""
    hub = encoder.hub
    about = {
        "precision": precision_of(encoder, args),
        "suite_sha256": suite_fingerprint(suite),
    }
    if name == "base":
        return about
    sizes = {code: sum(file["bytes"] for file in hub.card(code).files.values()) for code in hub.languages()}
    return {**about, "left_out": restricted(suite, hub.languages())[1], "bytes": sizes}


def precision_of(encoder: ModularEncoder, args: argparse.Namespace) -> str:
    """In what the encoder computes: ``fp32`` or ``bf16``."""
    return choose_precision(args.compute, encoder.device)


def stored_results(folder: Path) -> SystemResults | None:
    """Load stored results; ``None`` where there are none to read."""
    try:
        return load_results(folder)
    except DataError:
        return None


def write_pages(results: Path) -> None:
    """Write README.md's tables, the picture and RESULTS.md's section from stored results.

    Raises:
        SystemExit: nothing is stored, stored results have other settings, or a page has no place for its
            table.
    """
    stored = Stored.load(results)
    write_picture(stored, ROOT / "docs" / "languages.png")
    tables = [readme_table(stored), peer_table(stored, results / "peers.toml"), PICTURE, ""]
    write_table(ROOT / "README.md", "\n".join(tables), BEGIN, END)
    write_table(ROOT / "README.md", summary_table(stored), *SUMMARY)
    lines = section(stored, PAPER)
    write_table(results.parent / "RESULTS.md", "\n".join(["", *lines, ""]), BEGIN, END)
    logger.info("written: README.md, docs/languages.png, benchmarks/RESULTS.md")


if __name__ == "__main__":
    main()
