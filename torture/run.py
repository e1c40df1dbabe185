"""``make torture``: every fault at full count, and a table of what was lost."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Texts under the wrong language's name are meant here.
os.environ["PYTHONWARNINGS"] = "ignore::UserWarning"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # tiny models and recipes

import damage
import disks
import hostile
import kills
import rivals
from outcomes import Outcome

Part = Callable[[Path, float, int], Iterator[Outcome]]
"""Folder to work in, part of the full counts, seed → outcomes."""


def _kills(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    for operation in ("publish", "install", "remove"):
        yield kills.hub_operation(operation, folder / operation, _count(50, scale), seed)
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
    for part, count in (("hub", 300), ("train", 30), ("encode", 60)):
        yield disks.outcomes(part, _count(count, scale), seed)


def _damage(folder: Path, scale: float, seed: int) -> Iterator[Outcome]:
    yield damage.damaged_files(folder / "damage", _count(3000, scale), seed)


def _hostile(folder: Path, _: float, __: int) -> Iterator[Outcome]:
    yield hostile.hubs(folder / "hostile")


PARTS: dict[str, Part] = {
    "kills": _kills,
    "rivals": _rivals,
    "disks": _disks,
    "damage": _damage,
    "hostile": _hostile,
}


def main() -> int:
    """Run the parts asked for; returns 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full counts")
    parser.add_argument("--seed", type=int, default=0, help="another tries other moments")
    args = parser.parse_args()
    print("| fault | tried | survived | lost | minutes | |")
    print("| --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    lost = 0
    with tempfile.TemporaryDirectory() as place:
        for name in args.only:
            folder = Path(place) / name
            folder.mkdir()
            for outcome, minutes in _outcomes(name, folder, args.scale, args.seed):
                if not outcome.tried and not outcome.note.startswith("not tried"):
                    outcome.lost.append("nothing was tried")
                cells = [outcome.name, outcome.tried, outcome.survived, len(outcome.lost), f"{minutes:.1f}"]
                print(f"| {' | '.join(map(str, [*cells, outcome.note]))} |", flush=True)
                for line in outcome.lost[:10]:
                    print(f"    lost: {line}", file=sys.stderr, flush=True)
                lost += len(outcome.lost)
    return 1 if lost else 0


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
