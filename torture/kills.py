"""SIGKILL at random moments; afterwards the old state or the new is there, and the rerun ends the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import tiny_languages
import tiny_models
from outcomes import Outcome
from tiny_recipe import save_tiny_recipe

from modenc.hub.store import Hub

FILLS = (0.25, 0.5)


def hub_operation(name: str, folder: Path, tries: int, seed: int = 0) -> Outcome:
    """``publish``, ``install`` or ``remove`` Kazakh over and over, killed in between and done once more."""
    outcome = Outcome(f"SIGKILL: {name}")
    rng = random.Random(seed)
    hub = Hub.create(folder / "hub", tiny_languages.INFO)
    sources = []
    for number, fill in enumerate(FILLS):
        other = Hub.create(folder / f"source{number}", tiny_languages.INFO)
        tiny_languages.publish(other, "kk", fill)
        sources.append(other.folder("kk"))
    old, new = (Hub.open(source.parent).card("kk").fingerprint() for source in sources)
    tiny_languages.publish(hub, "az", 0.75)
    untouched = hub.card("az").fingerprint()
    done = None if name == "remove" else new

    def failures(*expected: str | None) -> list[str]:
        found = Hub.open(hub.path).verify()
        # What is left of a removal that was cut off is said, and the next removal takes it.
        found = [issue for issue in found if "without card.json" not in issue]
        there = fingerprints(hub.path)
        if there["az"] != untouched:
            found.append("az, which nobody touched, has changed")
        if there.get("kk") not in expected:
            found.append("kk is not what it should be")
        return found

    hub.install(sources[0])
    started = time.monotonic()
    operate(name, hub, sources[1])
    seconds = time.monotonic() - started
    halfway = 0
    for _ in range(tries):
        hub.install(sources[0])
        step = _kill_at_work(rng, name, seconds, _operate_for_ever, name, hub.path, sources)
        halfway += step == name
        found = failures(old, new, done)
        if "kk" not in hub.languages():
            hub.install(sources[0])
        operate(name, hub, sources[1])
        found += [f"after the rerun: {failure}" for failure in failures(done)]
        outcome.add("; ".join(found) or None)
    _note_halfway(outcome, halfway)
    return outcome


def operate(name: str, hub: Hub, source: Path) -> None:
    """Put the second Kazakh in a hub's place of the first, or remove it."""
    if name == "publish":
        tiny_languages.publish(hub, "kk", FILLS[1])
    elif name == "install":
        hub.install(source)
    else:
        hub.remove("kk")


def _kill_at_work(
    rng: random.Random, step: str, seconds: float, work: Callable[..., None], *args: object
) -> str:
    """Kill a process within the first ``seconds`` of one of the times that it has begun a step.

    Returns:
        The step it was in.
    """
    context = _forks()
    begun, begins = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*args, begins))
    # Python gives the server of forks no sys.path, without which it passes over what it is to import.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        process.start()
    begins.close()
    times = rng.randrange(1, 4)
    while times:
        found = begun.recv()
        times -= found == step
    time.sleep(rng.uniform(0.0, seconds))
    process.kill()
    process.join()
    with suppress(EOFError):
        while True:
            found = begun.recv()
    return str(found)


def _forks() -> ForkServerContext:
    """Forks of a process that runs no threads yet; one of this process could wait for a lock for ever."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["kills"])
    return context


def _operate_for_ever(name: str, path: Path, sources: list[Path], begins: Connection) -> None:
    hub = Hub.open(path)
    while True:
        for source in reversed(sources):
            if name == "remove":
                begins.send("install")
                hub.install(source)
            begins.send(name)
            if name == "publish":
                tiny_languages.publish(hub, "kk", FILLS[sources.index(source)])
            else:
                operate(name, hub, source)


def _note_halfway(outcome: Outcome, halfway: int) -> None:
    outcome.note = f"{halfway} of them halfway"
    if not halfway:
        outcome.lost.append("no kill came halfway")


def encoding(folder: Path, tries: int, *, texts: int = 20000, seed: int = 0) -> Outcome:
    """``modenc encode`` to a folder; finished parts stay, no part is half, and the rerun ends the same."""
    outcome = Outcome("SIGKILL: modenc encode")
    base = tiny_models.save_tiny_xlmr(folder / "base")
    hub = tiny_languages.make_hub(folder / "hub", base)
    lines = [line for lang in ("en", "kk") for line in tiny_models.sentences(lang)]
    source = folder / "texts.txt"
    source.write_text("\n".join(lines[row % len(lines)] for row in range(texts)) + "\n", encoding="utf-8")

    def command(output: Path) -> list[str]:
        words = ["--hub", hub.path, "--input", source, "--output", output]
        return modenc_command("encode", *words, "--part-size", max(1, texts // 40))

    right, output = folder / "right", folder / "killed"
    seconds = _run(command(right))
    written: dict[Path, int] = {}

    def parts() -> set[Path]:
        return set(output.glob("[!.]*.parquet"))

    def state() -> list[str]:
        failures = []
        for part in parts():
            if not same(vectors_of(part), vectors_of(right / part.name)):
                failures.append("a finished part is not right")
        times = {part: part.stat().st_mtime_ns for part in parts()}
        if not written.items() <= times.items():
            failures.append("a finished part was not kept")
        written.update(times)
        return failures

    def start_over() -> None:
        if {path.name for path in output.iterdir()} != {path.name for path in right.iterdir()}:
            outcome.lost.append("after the rerun a part is missing, or something else is left")
        shutil.rmtree(output)
        written.clear()

    _kill_often(outcome, command(output), tries, seconds, random.Random(seed), parts, state, start_over)
    return outcome


def training(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """``modenc train`` of two languages; the hub verifies after each kill, and the modules end bit-equal.

    The hub has both languages from a training with another seed: each stays, or is the new one.
    """
    outcome = Outcome("SIGKILL: modenc train")
    base = tiny_models.save_tiny_xlmr(folder / "base")
    right, killed = (save_tiny_recipe(folder / name, base) for name in ("right", "killed"))
    # Texts and settings of one, work and hub of others.
    hub, runs = killed.parent / "hub", killed.parent / "runs"
    seconds = _run(modenc_command("train", right))
    earlier = (f"hub.path={folder / 'earlier'}", f"run.work_dir={folder / 'earlier_runs'}", "run.seed=1")
    _run(modenc_command("train", right, *earlier))
    old, new = fingerprints(folder / "earlier"), fingerprints(right.parent / "hub")

    def stored() -> set[Path]:
        return {path for path in _below(runs) if path.name == "done.json" or path.match("checkpoint-*")}

    def state() -> list[str]:
        failures = Hub.open(hub).verify()
        found = fingerprints(hub)
        if any(found.get(lang) not in (old[lang], new[lang]) for lang in old):
            failures.append("a language is neither the old nor the new")
        return failures

    def start_over() -> None:
        if (found := fingerprints(hub)) != new:
            wrong = [lang for lang in new if found.get(lang) != new[lang]]
            outcome.lost.append(f"after the rerun {', '.join(wrong)} differ from an undisturbed run's")
        shutil.rmtree(runs)
        shutil.rmtree(hub)
        shutil.copytree(folder / "earlier", hub)

    shutil.copytree(folder / "earlier", hub)
    command = modenc_command("train", right, f"hub.path={hub}", f"run.work_dir={runs}")
    _kill_often(outcome, command, tries, seconds, random.Random(seed), stored, state, start_over)
    return outcome


def _below(folder: Path) -> Iterator[Path]:
    """List all files below a folder; unlike ``Path.glob``, ignores files that are removed in the meantime."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def _kill_often(
    outcome: Outcome,
    command: list[str],
    tries: int,
    seconds: float,
    rng: random.Random,
    stored: Callable[[], set[Path]],
    state: Callable[[], list[str]],
    start_over: Callable[[], None],
) -> None:
    """Kill a command and start it again, until it has been killed ``tries`` times and has then finished.

    The first kill and each second one after it come once the command has stored something more; the others
    at any moment.

    Args:
        outcome: gets a try for each kill.
        command: what resumes where it was stopped.
        tries: how many kills.
        seconds: how long it takes undisturbed.
        rng: of the moments.
        stored: what a rerun can go on from.
        state: what is wrong after a kill.
        start_over: makes a finished command start from nothing.
    """
    halfway = 0
    while outcome.tried < tries:
        before = stored()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        shares = (0.1, 1.0) if outcome.tried % 2 else (0.0, 0.05)
        while outcome.tried % 2 == 0 and process.poll() is None and not stored() - before:
            time.sleep(0.01)
        try:
            _, errors = process.communicate(timeout=rng.uniform(*shares) * seconds)
        except subprocess.TimeoutExpired:
            halfway += bool(stored() - before)
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
    _note_halfway(outcome, halfway)


def modenc_command(*words: object) -> list[str]:
    """What runs a command in a process of its own."""
    return [sys.executable, "-m", "modenc.cli", "--quiet", *map(str, words)]


def _run(command: list[str]) -> float:
    """Seconds that a command takes."""
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def vectors_of(path: Path) -> np.ndarray:
    """Every vector in an output file, or a folder of parts [texts, hidden]."""
    if path.suffix == ".npy":
        return np.load(path)
    return np.array(pq.read_table(path)["vector"].to_pylist(), dtype=np.float32)


def same(found: np.ndarray, right: np.ndarray) -> bool:
    """Whether all is there, and near: a language is merged later in a process that starts in the middle."""
    return found.shape == right.shape and bool(np.allclose(found, right, atol=1e-5))


def fingerprints(path: Path) -> dict[str, str]:
    """Language → fingerprint of its weights."""
    hub = Hub.open(path)
    return {lang: hub.card(lang).fingerprint() for lang in hub.languages()}
