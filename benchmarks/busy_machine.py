"""Training and encoding beside other busy processes: each way of using threads against one thread alone.

Every way is a process of its own, since the OpenMP runtime reads once, when it is loaded, how to wait. They
take turns, step by step, beside the same rivals; a process whose turn it is not sleeps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RIVALS = (0, 1, 2)
SETTLED = 0.6
_ALL = ("one", "before", "ours")
# A whole batch takes one way too long beside rivals.
REPORTED: dict[str, tuple[str, ...]] = {
    "training": ("one", "ours"),
    "training8": _ALL,
    "encode fp32": _ALL,
    "encode bf16": _ALL,
    "encode int8": ("one", "ours"),
    "one text": _ALL,
}
SENTENCES = 500
# Environment variables that each way sets before torch is loaded.
WAYS: dict[str, dict[str, str]] = {
    "one": {"OMP_NUM_THREADS": "1"},
    "before": {"OMP_NUM_THREADS": "2"},
    "ours": {"OMP_NUM_THREADS": "2"},
    "passive": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
}


def training(batch: int) -> Callable[[], object]:
    """Make steps of the quickstart's sentence encoding on its own texts."""
    import torch
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from modenc.base_model import resolve_base
    from modenc.training.adapters_io import ALL_LINEAR_LAYERS, add_lora, pack_frozen
    from modenc.training.body_module import sentence_model
    from modenc.training.processes import uses_bf16

    plan, texts = _quickstart()
    base, settings = resolve_base(plan.base.model), plan.sentence_encoding
    body = add_lora(base.load_body(), settings.lora, ALL_LINEAR_LAYERS)
    pack_frozen(body)
    model = sentence_model(body, base.load_tokenizer(), plan, settings.max_length).train()
    optimizer = torch.optim.AdamW([part for part in model.parameters() if part.requires_grad], lr=1e-4)
    loss = MultipleNegativesRankingLoss(model, scale=settings.scale)
    done = 0

    def step() -> None:
        nonlocal done
        rows = [texts[(done * batch + row) % len(texts)] for row in range(batch)]
        done += 1
        with torch.autocast("cpu", torch.bfloat16, enabled=uses_bf16(plan.run)):
            value = loss([model.preprocess(rows), model.preprocess(rows)], None)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


def encoding(count: int, compute: str) -> Callable[[], object]:
    """``encode`` of sentences through the shipped Kazakh modules."""
    from modenc import ModularEncoder

    _, texts = _quickstart()
    encoder = ModularEncoder(ROOT / "adapters_hub" / "me5-small", compute=compute)
    encoder.encode(texts[:200], lang="kk")
    return lambda: encoder.encode(texts[:count], lang="kk")


def _quickstart() -> tuple[Any, list[str]]:
    from modenc import load_recipe
    from modenc.training.data_access import TrainingData

    hub = (ROOT / "adapters_hub" / "me5-small").as_posix()
    recipe = load_recipe(ROOT / "recipes" / "quickstart.toml", [f'hub.path="{hub}"'])
    (plan,) = recipe.plans.values()
    return plan, TrainingData(plan, recipe.plans).text.train


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "training": lambda: training(32),
    "training8": lambda: training(8),
    "encode fp32": lambda: encoding(SENTENCES, "fp32"),
    "encode bf16": lambda: encoding(SENTENCES, "bf16"),
    "encode int8": lambda: encoding(SENTENCES, "int8"),
    "one text": lambda: encoding(1, "fp32"),
}


class Worker:
    """A process that does one unit of a task whenever it is asked."""

    def __init__(self, task: str, way: str) -> None:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("OMP_", "GOMP_", "KMP_", "MKL_NUM"))
        }
        command = [sys.executable, __file__, "--worker", task, "--way", way]
        self.process = subprocess.Popen(
            command,
            env=inherited | WAYS[way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def line(self) -> str:
        """Read the next line of its output."""
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        if not found:
            raise RuntimeError(f"a worker ended with code {self.process.wait()}")
        return found.strip()

    def seconds(self) -> float:
        """Measure one unit."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def rivals(count: int) -> Iterator[None]:
    """Processes that compute without end."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(1)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def serve(task: str, way: str) -> None:
    """Be a worker."""
    sys.path.insert(0, str(ROOT))
    if way == "before":
        from modenc.threads import WaitPolicy

        WaitPolicy.look = lambda self: None  # type: ignore[method-assign]
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    unit = TASKS[task]()
    for _ in range(2):
        unit()
    said.write("ready\n")
    for _ in sys.stdin:
        # What the others did in their turns is over by the time that counts.
        until = time.monotonic() + SETTLED
        while time.monotonic() < until:
            unit()
        start = time.perf_counter()
        unit()
        said.write(f"{time.perf_counter() - start}\n")


def measured(
    task: str, ways: Sequence[str], numbers: Sequence[int], turns: int, limit: float
) -> list[dict[str, Any]]:
    """Make rows with the seconds of each variant and their ratio to one thread at the same load."""
    import numpy as np

    workers: dict[str, Worker] = {}
    rows = []
    try:
        for way in ways:
            workers[way] = Worker(task, way)
        for worker in workers.values():
            worker.line()
        for count in numbers:
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            with rivals(count):
                began = time.perf_counter()
                for turn in range(turns):
                    for way in ways if turn % 2 == 0 else reversed(ways):
                        seconds[way].append(workers[way].seconds())
                    if time.perf_counter() - began > limit:
                        break
            one = np.array(seconds["one"])
            for way in ways:
                own = np.array(seconds[way])
                row = {
                    "what": task,
                    "rivals": count,
                    "way": way,
                    "seconds": float(np.median(own)),
                    "fastest": float(own.min()),
                    "ratio": float(np.median(own) / np.median(one)),
                    "turns": len(own),
                }
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    return rows


def main() -> None:
    """Measure, and print a line of JSON for each way beside each number of rivals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=["training", "encode fp32"])
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rivals", nargs="*", type=int, default=list(RIVALS))
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--limit", type=float, default=40.0, help="seconds for each number of rivals")
    args = parser.parse_args()
    if args.worker:
        serve(args.worker, args.way)
        return
    for task in args.tasks:
        measured(task, args.ways, args.rivals, args.turns, args.limit)


def rows(turns: int) -> list[dict[str, Any]]:
    """Measure all rows of the report."""
    return [row for task, ways in REPORTED.items() for row in measured(task, ways, RIVALS, turns, 30.0)]


if __name__ == "__main__":
    main()
