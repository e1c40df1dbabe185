"""Inputs for the fuzz targets: changed at random, or by atheris, which looks for branches not yet reached."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import fuzz_targets
from memory import peak, peak_from_now_on
from outcomes import Outcome
from texts import MEGABYTES, mutated

_FUZZER = Path(__file__).with_name("fuzzer.py")


def has_atheris() -> bool:
    """Whether the fuzzer is installed."""
    return importlib.util.find_spec("atheris") is not None


def shaken(name: str, folder: Path, tries: int, seconds: float, seed: int = 0) -> Outcome:
    """Sound inputs of a target, changed at random; none may take more than ``seconds`` of the processor.

    Memory may grow by :data:`~texts.MEGABYTES` in all.
    """
    outcome = Outcome(f"random changes: {name}")
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    call, sound = fuzz_targets.TARGETS[name](folder)
    before_all = peak_from_now_on()
    for turn in range(tries):
        data = sound[turn] if turn < len(sound) else mutated(rng, rng.choice(sound))
        before = time.process_time()
        try:
            call(data)
        except Exception as error:  # the promise is that none comes
            outcome.add(f"{name}, {data[:40]!r}…: {error!r:.200}")
            continue
        taken = time.process_time() - before
        outcome.add(f"{name}, {data[:40]!r}…: {taken:.1f} s" if taken > seconds else None)
    if (grown := peak() - before_all) > MEGABYTES:
        outcome.lost.append(f"{name}: {grown:.0f} MB more in memory")
    return outcome


def fuzzed(name: str, folder: Path, tries: int, seconds: float, seed: int = 0) -> Outcome:
    """A target under atheris in a process of its own, up to its first find, bounded in memory as well."""
    outcome = Outcome(f"fuzzer: {name}")
    folder.mkdir(parents=True)
    command = [sys.executable, str(_FUZZER), name, *map(str, (folder, tries, seconds, seed))]
    done = subprocess.run(command, capture_output=True, check=False)
    said = done.stderr.decode("utf-8", "replace")
    if (count := re.search(r"number_of_executed_units:\s*(\d+)", said)) is not None:
        outcome.tried = outcome.survived = int(count[1])
    if done.returncode or count is None:
        outcome.tried += 1
        outcome.lost.append(f"{name}: exit {done.returncode}: {said[-1500:]}")
    elif (reached := re.search(r"DONE\s+cov: (\d+)", said)) is not None:
        outcome.note = f"{reached[1]} branches reached"
    return outcome
