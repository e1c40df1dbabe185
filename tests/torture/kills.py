"""SIGKILL at random moments; afterwards the old state or the new is there, and the rerun ends the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import tiny_languages
import tiny_models
from outcome import Outcome
from tiny_recipe import save_tiny_recipe

from modenc.hub.store import Hub
from modenc.hub.verify import verify_hub

FILLS = (0.25, 0.5)


def hub_operation(name: str, folder: Path, tries: int, seed: int = 0) -> Outcome:
    """``publish``, ``install`` or ``remove`` Kazakh over and over, killed in between."""
    outcome = Outcome(f"SIGKILL: {name}")
    rng = random.Random(seed)
    hub = Hub.create(folder / "hub", tiny_languages.INFO)
    sources = []
    for number, fill in enumerate(FILLS):
        other = Hub.create(folder / f"source{number}", tiny_languages.INFO)
        tiny_languages.publish(other, "kk", fill)
        sources.append(other.layout("kk").root)
    whole = {Hub.open(source.parent).card("kk").digest() for source in sources}
    tiny_languages.publish(hub, "az", 0.75)
    untouched = hub.card("az").digest()
    halfway = 0
    for _ in range(tries):
        hub.install(sources[0])
        _kill_at_work(name, hub.path, sources, rng.uniform(0.0, 0.2))
        halfway += any(hub.path.glob(".*"))
        after = Hub.open(hub.path)
        faults = [str(problem) for problem in verify_hub(after)]
        if after.card("az").digest() != untouched:
            faults.append("az, which nobody touched, has changed")
        if "kk" in after.languages():
            if after.card("kk").digest() not in whole:
                faults.append("kk is neither the old nor the new")
        elif name != "remove":
            faults.append("kk is gone")
        hub.install(sources[1])
        faults += [f"left behind: {path.name}" for path in hub.path.glob(".*")]
        outcome.add("; ".join(faults) or None)
    outcome.note = f"{halfway} of them halfway"
    if not halfway:
        outcome.lost.append("no kill came halfway")
    return outcome


def _kill_at_work(name: str, path: Path, sources: list[Path], seconds: float) -> None:
    """Kill a process these seconds after it has begun to work."""
    context = _forks()
    begun, begins = context.Pipe(duplex=False)
    process = context.Process(target=_forever, args=(name, path, sources, begins))
    # Python gives the server of forks no sys.path, without which it passes over what it is to import.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        process.start()
    begun.recv()
    time.sleep(seconds)
    process.kill()
    process.join()


def _forks() -> ForkServerContext:
    """Forks of a process that runs no threads yet; one of this process could wait for a lock for ever."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["kills"])
    return context


def _forever(name: str, path: Path, sources: list[Path], begins: Connection) -> None:
    hub = Hub.open(path)
    begins.send(None)
    while True:
        for fill, source in zip(FILLS, sources, strict=True):
            if name == "publish":
                tiny_languages.publish(hub, "kk", fill)
            elif name == "install":
                hub.install(source)
            else:
                hub.install(source)
                hub.remove("kk")


def encoding(folder: Path, tries: int, *, suffix: str = ".npy", texts: int = 4000, seed: int = 0) -> Outcome:
    """``modenc encode`` on a file; what is finished stays right, and the rerun ends the same."""
    outcome = Outcome(f"SIGKILL: modenc encode to {suffix}")
    base = tiny_models.save_tiny_xlmr(folder / "base")
    hub = tiny_models.make_hub(folder / "hub", base)
    lines = [line for lang in ("en", "kk") for line in tiny_models.sentences(lang)]
    source = folder / "texts.txt"
    source.write_text("\n".join(lines[row % len(lines)] for row in range(texts)) + "\n", encoding="utf-8")

    def command(output: Path) -> list[str]:
        words = ["--hub", hub.path, "--input", source, "--output", output]
        return modenc_command("encode", *words, "--shard-size", max(1, texts // 40))

    right = folder / f"right{suffix}"
    seconds = _run(command(right))
    output = folder / f"killed{suffix}"
    written: dict[Path, int] = {}
    halfway = 0

    def state() -> list[str]:
        nonlocal halfway
        if output.exists():
            written.clear()
            return [] if same(vectors_of(output), vectors_of(right)) else ["the finished output is not right"]
        shards = sorted(output.with_name(f"{output.name}.parts").glob(f"[0-9]*{suffix}"))
        halfway += bool(shards)
        whole = vectors_of(right)
        found = np.concatenate([whole[:0], *(vectors_of(shard) for shard in shards)])
        faults = [] if same(found, whole[: len(found)]) else ["a finished shard is not right"]
        before = written.copy()
        written.update((shard, shard.stat().st_mtime_ns) for shard in shards)
        if any(written[shard] != time_ns for shard, time_ns in before.items()) or set(before) - set(shards):
            faults.append("a finished shard was not kept")
        return faults

    def start_over() -> None:
        output.unlink(missing_ok=True)
        written.clear()

    _kill_often(outcome, command(output), tries, seconds, random.Random(seed), state, start_over)
    outcome.note = f"{halfway} of them after a shard or more"
    return outcome


def training(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """``modenc train`` of two languages; the hub verifies after each kill, and the modules end bit-equal."""
    outcome = Outcome("SIGKILL: modenc train")
    base = tiny_models.save_tiny_xlmr(folder / "base")
    right, killed = (save_tiny_recipe(folder / name, base) for name in ("right", "killed"))
    # Texts and settings of one, work and hub of the other.
    options = [f"hub.path={killed.parent / 'hub'}", f"run.work_dir={killed.parent / 'runs'}"]
    seconds = _run(modenc_command("train", right))
    expected = digests(right.parent / "hub")

    def state() -> list[str]:
        path = killed.parent / "hub"
        if not (path / "hub.json").is_file():
            return []
        return [str(problem) for problem in verify_hub(Hub.open(path))]

    def start_over() -> None:
        found = digests(killed.parent / "hub")
        if found != expected:
            wrong = [lang for lang in expected if found.get(lang) != expected[lang]]
            outcome.lost.append(f"after the rerun {', '.join(wrong)} differ from an undisturbed run's")
        for name in ("hub", "runs"):
            shutil.rmtree(killed.parent / name)

    command = modenc_command("train", right, *options)
    _kill_often(outcome, command, tries, seconds, random.Random(seed), state, start_over)
    return outcome


def _kill_often(
    outcome: Outcome,
    command: list[str],
    tries: int,
    seconds: float,
    rng: random.Random,
    state: Callable[[], list[str]],
    start_over: Callable[[], None],
) -> None:
    """Kill a command and start it again, until it has been killed ``tries`` times and has then finished.

    Args:
        outcome: gets a try for each kill.
        command: what resumes where it was stopped.
        tries: how many kills.
        seconds: how long it takes undisturbed.
        rng: of the moments.
        state: what is wrong after a kill.
        start_over: makes a finished command start from nothing.
    """
    while outcome.tried < tries:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, errors = process.communicate(timeout=rng.uniform(0.1, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            outcome.add("; ".join(state()) or None)
            continue
        if process.returncode:
            outcome.add(f"the rerun failed: {errors.decode()[-300:]}")
            return
        outcome.lost.extend(state())
        start_over()
    _run(command)
    outcome.lost.extend(state())
    start_over()


def modenc_command(verb: str, *words: object) -> list[str]:
    """What runs a verb in a process of its own."""
    return [sys.executable, "-m", "modenc.cli", "--log-level", "ERROR", verb, *map(str, words)]


def _run(command: list[str]) -> float:
    """Seconds that a command takes."""
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def vectors_of(path: Path) -> np.ndarray:
    """Every vector in an output or a shard [texts, hidden]."""
    if path.suffix == ".npy":
        return np.load(path)
    return np.array(pq.read_table(path)["vector"].to_pylist(), dtype=np.float32)


def same(found: np.ndarray, right: np.ndarray) -> bool:
    """Whether all is there, and near: a language is merged later in a process that starts in the middle."""
    return found.shape == right.shape and bool(np.allclose(found, right, atol=1e-5))


def digests(path: Path) -> dict[str, str]:
    """Language → digest of its weights."""
    hub = Hub.open(path)
    return {lang: hub.card(lang).digest() for lang in hub.languages()}
