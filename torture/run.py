"""``make torture``: every fault and input class at full count, and a table of what was lost."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Texts under the wrong language's name are meant here.
os.environ["PYTHONWARNINGS"] = "ignore::UserWarning"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # tiny models and recipes

import damage
import disks
import fuzz
import hostile
import kills
import rivals
import texts
import torch
import traffic
from outcomes import Outcome

Part = Callable[[Path, float, int], Iterator[Outcome]]
"""Folder to work in, part of the full counts and times, seed → outcomes."""


def _kills(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    for operation in ("publish", "install", "remove"):
        yield kills.hub_operation(operation, folder / operation, _count(50, scale), seed)
    yield kills.saving(folder / "save", _count(50, scale), seed)
    yield kills.encoding(folder / "encode", _count(50, scale), seed=seed)
    yield kills.training(folder / "train", _count(50, scale), seed)


def _rivals(folder: Path, scale: float, _: int) -> Iterator[Outcome]:
    yield rivals.installing(folder / "install", _count(50, scale))
    yield rivals.encoding(folder / "encode", _count(5, scale))
    yield rivals.training(folder / "train", _count(5, scale))


def _disks(_: Path, scale: float, seed: int) -> Iterator[Outcome]:
    if not disks.can_mount():
        yield Outcome("full and read-only disk", note="not tried: no disks can be mounted here")
        return
    for part, count in (("hub", 300), ("save", 60), ("train", 30), ("encode", 60)):
        yield disks.outcomes(part, _count(count, scale), seed)


def _damage(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    yield damage.damaged_files(folder / "damage", _count(3000, scale), seed)
    yield hostile.hubs_and_recipes(folder / "hostile")


def _texts(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    yield texts.encoding(folder / "texts", _count(150_000, scale), seed)
    for target, count in FUZZED.items():
        if fuzz.has_atheris():
            yield fuzz.fuzzed(target, folder / target, _count(count, scale), SECONDS, seed)
        else:
            yield fuzz.shaken(target, folder / target, _count(count, scale), SECONDS, seed)


def _traffic(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    # First, while the other lane is at work all the time: its throughput is to be that of one machine.
    yield traffic.soak(folder / "soak", 1800 * scale, seed)
    yield traffic.threads_and_processes(folder / "threads", 600 * scale, seed=seed)


FUZZED = {
    "encode": 60_000,
    "rows": 400_000,
    "card": 200_000,
    "hub_info": 100_000,
    "recipe": 60_000,
    **dict.fromkeys(("tokenizer", "tokenizer_config", "lora_config", "parallel_config"), 20_000),
    **dict.fromkeys(("weights", "parallel_weights", "embeddings", "integer_embeddings"), 7_500),
    "special_tokens": 7_500,
    "components": 5_000,
}
"""Target → inputs."""

PARTS: dict[str, Part] = {
    "kills": _kills,
    "rivals": _rivals,
    "disks": _disks,
    "damage": _damage,
    "texts": _texts,
    "traffic": _traffic,
}
# Side by side: what counts, and what lasts.
LANES = (("kills", "rivals", "disks", "damage", "texts"), ("traffic",))
SECONDS = 1.0
"""Of the processor, more than any one input may take."""


def main() -> int:
    """Run the parts asked for; returns 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full counts and times")
    parser.add_argument("--seed", type=int, default=0, help="another tries other moments and inputs")
    args = parser.parse_args()
    print("| fault or input | tried | survived | lost | minutes | |")
    print("| --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    lanes = [names for lane in LANES if (names := [name for name in lane if name in args.only])]
    with ProcessPoolExecutor(len(lanes), mp_context=get_context("spawn")) as pool:
        running = [pool.submit(_lane, names, args.scale, args.seed) for names in lanes]
        return 1 if sum(lane.result() for lane in running) else 0


def _lane(names: Sequence[str], scale: float, seed: int) -> int:
    """Run parts one after the other, and print each outcome; returns how much was lost."""
    texts.SECONDS, hostile.SECONDS = SECONDS, 5.0
    if "traffic" in names:
        os.nice(19)  # its many threads leave a core to what counts
    else:
        # Threads that wait for a busy core would spin, which would count as time taken.
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    lost = 0
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            folder = Path(place) / name
            folder.mkdir()
            for outcome, minutes in _outcomes(name, folder, scale, seed):
                if not outcome.tried and not outcome.note.startswith("not tried"):
                    outcome.lost.append("nothing was tried")
                cells = [outcome.name, outcome.tried, outcome.survived, len(outcome.lost), f"{minutes:.1f}"]
                print(f"| {' | '.join(map(str, [*cells, outcome.note]))} |", flush=True)
                for line in outcome.lost[:10]:
                    print(f"    lost: {line}", file=sys.stderr, flush=True)
                lost += len(outcome.lost)
    return lost


def _outcomes(name: str, folder: Path, scale: float, seed: int) -> Iterator[tuple[Outcome, float]]:
    """A part's outcomes, and the minutes that each took; one more where the part itself breaks off."""
    started = time.monotonic()
    try:
        for outcome in PARTS[name](folder, scale, seed):
            yield outcome, (time.monotonic() - started) / 60
            started = time.monotonic()
    except Exception:
        broken = Outcome(f"{name}: broke off", lost=[traceback.format_exc()])
        yield broken, (time.monotonic() - started) / 60


def _count(full: int, scale: float) -> int:
    return max(1, round(full * scale))


if __name__ == "__main__":
    sys.exit(main())
