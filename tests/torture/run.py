"""``make torture``: every fault and input class at full count, and a table of what was lost."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import damage
import disks
import hostile
import kills
import texts
import traffic
from outcome import Outcome

Part = Callable[[Path, float], Iterator[Outcome]]


def _kills(folder: Path, scale: float) -> Iterator[Outcome]:
    for operation in ("publish", "install", "remove"):
        yield kills.hub_operation(operation, folder / operation, _count(50, scale))
    for suffix in (".npy", ".parquet"):
        yield kills.encoding(folder / suffix, _count(25, scale), suffix=suffix)
    yield kills.training(folder / "train", _count(50, scale))


def _disks(_: Path, scale: float) -> Iterator[Outcome]:
    if not disks.can_mount():
        yield Outcome("full and read-only disk", note="not tried: no disks can be mounted here")
        return
    for part, count in (("hub", 300), ("train", 6), ("encode", 10)):
        yield disks.outcomes(part, _count(count, scale))


def _damage(folder: Path, scale: float) -> Iterator[Outcome]:
    yield damage.damaged_files(folder / "damage", _count(3000, scale))
    yield hostile.hubs_and_recipes(folder / "hostile")


def _texts(folder: Path, scale: float) -> Iterator[Outcome]:
    yield texts.encoding(folder / "encode", _count(500_000, scale))
    yield texts.readers(folder / "readers", _count(250_000, scale))
    yield texts.documents(folder / "documents", _count(250_000, scale))


def _traffic(folder: Path, scale: float) -> Iterator[Outcome]:
    yield traffic.threads_and_processes(folder / "threads", 600 * scale)
    yield traffic.soak(folder / "soak", 1800 * scale)


PARTS: dict[str, Part] = {
    "kills": _kills,
    "disks": _disks,
    "damage": _damage,
    "texts": _texts,
    "traffic": _traffic,
}


def main() -> int:
    """Run the parts asked for; returns 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=None)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full counts and times")
    args = parser.parse_args()
    texts.SECONDS, hostile.SECONDS = 1.0, 5.0
    lost = 0
    print(
        "| fault or input | tried | survived | lost | minutes | |\n| --- | ---: | ---: | ---: | ---: | --- |"
    )
    with tempfile.TemporaryDirectory() as place:
        for name in args.only or PARTS:
            folder = Path(place) / name
            folder.mkdir()
            started = time.monotonic()
            for outcome in PARTS[name](folder, args.scale):
                minutes = (time.monotonic() - started) / 60
                cells = [outcome.name, outcome.tried, outcome.survived, len(outcome.lost), f"{minutes:.1f}"]
                print(f"| {' | '.join(map(str, [*cells, outcome.note]))} |", flush=True)
                for line in outcome.lost[:10]:
                    print(f"    lost: {line}", file=sys.stderr, flush=True)
                lost += len(outcome.lost)
                started = time.monotonic()
    return 1 if lost else 0


def _count(full: int, scale: float) -> int:
    return max(1, round(full * scale))


if __name__ == "__main__":
    sys.exit(main())
