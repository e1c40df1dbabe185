"""Many threads and processes on one hub, for long: results as alone, memory and files steady."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import psutil
import tiny_languages
import tiny_models
import torch
from outcomes import Outcome

from modenc import ModularEncoder
from modenc.errors import LanguageError
from modenc.hub.store import Hub

REPLACED, REMOVED = "kk", "fr"
LANGUAGES = ("en", "kk", "az", "ky", "uz", "tr", "de", "fr")
_NEAR = 1e-5
_SECONDS_A_STATE = 1.0
_other: ModularEncoder
"""In the process of the yardstick: its encoder."""


class _Seen(NamedTuple):
    """The process at a moment."""

    seconds: float
    memory: int
    files: int
    calls: int
    """Made so far."""
    used: float
    """Seconds of the processor."""
    yardstick: float
    """Such seconds that one piece of work took another process, which does little else."""


def threads_and_processes(
    folder: Path, seconds: float, threads: int = 16, processes: int = 4, seed: int = 0
) -> Outcome:
    """Half forked off a process without threads, half spawned; all under eviction.

    Meanwhile one language is replaced over and over by one with other content, and one removed and installed.
    """
    outcome = Outcome(f"{threads} threads in this process, {processes} processes, at once")
    path = _hub(folder)
    _add_state(path)
    whole = ModularEncoder(path)
    whole.load(LANGUAGES)
    limit = int(whole.memory * 0.6)
    # Before any thread starts, since a forked process has only the thread that forked.
    results: Queue[tuple[int, list[str]]] = get_context("spawn").Queue()
    children = [
        get_context(("forkserver", "spawn")[number % 2]).Process(
            target=_child, args=(path, limit, seconds, (processes + 1) * seed + number + 1, results)
        )
        for number in range(processes)
    ]
    for child in children:
        child.start()
    ended = Event()
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(_change_hub, path, ended)
        try:
            found = [_traffic(path, limit, seconds, threads, (processes + 1) * seed)]
            found += [results.get(timeout=seconds + 300) for _ in children]
        finally:
            ended.set()
    outcome.note = f"the hub changed {changes.result()} times"
    for child in children:
        child.join(60)
    for calls, failures in found:
        outcome.tried += calls
        outcome.survived += calls - len(failures)
        outcome.lost += failures[:5]
    return outcome


def _add_state(path: Path) -> None:
    """Another state that the hub may be in: one language has other content, and one is not there."""
    state = Hub.open(shutil.copytree(path, path.with_name("state1")))
    with state.staging(REPLACED) as staging:
        shutil.copytree(state.layout("az").se, staging / "se")
        state.publish(staging, state.card(REPLACED))
    state.remove(REMOVED)


def _change_hub(path: Path, ended: Event) -> int:
    """Bring the hub from one of its states to the other, one language after the other; how often."""
    hub, states = Hub.open(path), [Hub.open(state) for state in _states(path)]
    turn = 0
    while not ended.wait(_SECONDS_A_STATE):
        turn += 1
        state = states[turn % len(states)]
        hub.install(state.path, REPLACED)
        if REMOVED in state.languages():
            hub.install(state.path, REMOVED)
        else:
            hub.remove(REMOVED)
    return turn


def _states(path: Path) -> list[Path]:
    return sorted(path.parent.glob("state?"))


def _child(path: Path, limit: int, seconds: float, seed: int, results: Queue[tuple[int, list[str]]]) -> None:
    results.put(_traffic(path, limit, seconds, threads=2, seed=seed))


def _traffic(
    path: Path,
    limit: int,
    seconds: float,
    threads: int,
    seed: int = 0,
    watch: Callable[[int], None] | None = None,
) -> tuple[int, list[str]]:
    """Calls made and what went wrong in them, by threads that share one encoder."""
    alone = [ModularEncoder(state) for state in _states(path)]
    texts = {lang: tiny_models.sentences("kk" if lang == "kk" else "en")[:40] for lang in LANGUAGES}
    right = {lang: [encoder.encode(texts[lang], lang=lang) for encoder in alone] for lang in LANGUAGES}
    shared = ModularEncoder(path, max_memory=limit)
    end = time.monotonic() + seconds
    calls, failures = [0] * threads, []

    def work(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        while time.monotonic() < end:
            calls[number] += 1
            try:
                failure = _call(shared, rng, texts, right)
            except Exception as error:  # the promise is that none comes
                failure = repr(error)[:200]
            if failure:
                failures.append(failure)

    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, number) for number in range(threads)]
        while watch and time.monotonic() < end:
            time.sleep(min(5.0, seconds / 40))
            watch(sum(calls))
        for future in waiting:
            future.result()
    return sum(calls), failures


def _call(
    encoder: ModularEncoder,
    rng: random.Random,
    texts: dict[str, list[str]],
    right: dict[str, list[np.ndarray]],
) -> str | None:
    kind = rng.random()
    if kind < 0.02:
        hub, lang = encoder.hub, rng.choice(LANGUAGES)
        hub.install(_states(hub.path)[0] / lang)
        return None
    if kind < 0.05:
        encoder.unload(rng.choice(LANGUAGES))
        return None
    if kind < 0.1:
        try:
            encoder.encode(["text"], lang="no language at all")
        except LanguageError:
            return None
        return "an unknown language was taken"
    rows = [(rng.choice(LANGUAGES), rng.randrange(40)) for _ in range(rng.choice((1, 4, 24)))]
    if kind < 0.5:
        rows = [(rows[0][0], row) for _, row in rows]
    vectors = encoder.encode([texts[lang][row] for lang, row in rows], lang=[lang for lang, _ in rows])
    worst = max(_off(vectors, rows, lang, right[lang]) for lang in {lang for lang, _ in rows})
    return None if worst <= _NEAR else f"a vector is {worst:.2e} off"


def _off(vectors: np.ndarray, rows: list[tuple[str, int]], lang: str, states: list[np.ndarray]) -> float:
    """How far the vectors of a language are from those of the nearest state, the same for all of them."""
    found = vectors[[code == lang for code, _ in rows]]
    members = [row for code, row in rows if code == lang]
    return min(float(np.abs(found - right[members]).max()) for right in states)


def soak(folder: Path, seconds: float, seed: int = 0, most_growth: float = 2.0) -> Outcome:
    """Mixed traffic under eviction: after the first third, memory grows by ``most_growth`` % at most.

    Work done stays flat within noise.

    Work is counted in calls a second of the processor, times the seconds that one piece of work takes another
    process at that moment: a core does less while others are at work beside it. Both are kept to one core,
    since threads that run at once wait by turning, more where more cores are free. Open files are no more in
    the last third than in the second.
    """
    outcome = Outcome(f"soak, {seconds / 60:.1f} minutes")
    path = _hub(folder)
    whole = ModularEncoder(path)
    whole.load(LANGUAGES)
    process = psutil.Process(os.getpid())
    seen: list[_Seen] = []
    spawned = get_context("spawn")
    with _one_core(), ProcessPoolExecutor(1, spawned, _open_yardstick, (path,)) as other:
        other.submit(_yardstick).result()  # it starts before the traffic does
        started = time.monotonic()

        def watch(calls: int) -> None:
            used, yardstick = process.cpu_times(), other.submit(_yardstick).result()
            seen.append(
                _Seen(
                    time.monotonic() - started,
                    process.memory_info().rss,
                    process.num_fds(),
                    calls,
                    used.user + used.system,
                    yardstick,
                )
            )

        calls, failures = _traffic(path, int(whole.memory * 0.6), seconds, threads=4, seed=seed, watch=watch)
    outcome.tried, outcome.survived, outcome.lost = calls, calls - len(failures), failures[:5]
    late = [row for row in seen if row.seconds > seconds / 3]
    slope, start = np.polyfit([row.seconds for row in late], [row.memory for row in late], 1)
    growth = 100 * slope * (seconds - late[0].seconds) / (start + slope * late[0].seconds)
    # The fewest: at any moment some are open for a while.
    early, later = (min(row.files for row in half) for half in _halves(late))
    files = later - early
    yardsticks = _yardsticks(late)
    change, noise = _change(_rates(late) * yardsticks)
    machine, _ = _change(1 / yardsticks)
    outcome.note = (
        f"memory {growth:+.2f} %, files {files:+d}, "
        f"throughput {change:+.1f} % (noise {noise:.1f}; the machine's own {machine:+.1f})"
    )
    if growth > most_growth:
        outcome.lost.append(f"memory grew by {growth:.1f} %")
    if change < -max(2.0, 3 * noise):
        outcome.lost.append(f"throughput fell by {-change:.1f} %")
    if files > 0:
        outcome.lost.append(f"{files} more files are open")
    return outcome


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep all threads of this process, and its children, on one core during the context."""
    usual, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(1)
    _keep_to({max(cores)})
    try:
        yield
    finally:
        torch.set_num_threads(usual)
        _keep_to(cores)


def _keep_to(cores: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), cores)


def _halves(rows: Any) -> tuple[Any, Any]:
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def _rates(seen: list[_Seen]) -> np.ndarray:
    """Calls per second of the processor in each interval."""
    calls, used = np.diff([row.calls for row in seen]), np.diff([row.used for row in seen])
    return calls / used


def _yardsticks(seen: list[_Seen]) -> np.ndarray:
    """Seconds of the yardstick in each interval."""
    ends = np.array([row.yardstick for row in seen])
    return (ends[1:] + ends[:-1]) / 2


def _change(values: np.ndarray) -> tuple[float, float]:
    """From the mean of the first half to that of the second, in %, and its standard error."""
    fast, slow = _halves(values)
    errors = [half.std(ddof=1) / len(half) ** 0.5 for half in (fast, slow)]
    return 100 * (slow.mean() / fast.mean() - 1), 100 * np.hypot(*errors) / fast.mean()


def _open_yardstick(path: Path) -> None:
    global _other
    torch.set_num_threads(1)
    _other = ModularEncoder(path)
    _yardstick()


def _yardstick() -> float:
    """Seconds of the processor that ten calls take."""
    texts = tiny_models.sentences("en")[:24]
    started = time.process_time()
    for _ in range(10):
        _other.encode(texts, lang="en")
    return time.process_time() - started


def _hub(folder: Path) -> Path:
    base = tiny_models.save_tiny_xlmr(folder / "base")
    path = tiny_languages.make_hub(folder / "hub", base, LANGUAGES).path
    shutil.copytree(path, path.with_name("state0"))
    return path
