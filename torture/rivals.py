"""Two processes at once on one thing: one waits or is refused, and nothing is half."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import tiny_languages
import tiny_models
from kills import FILLS, fingerprints, modenc_command, same, vectors_of
from outcomes import Outcome
from tiny_recipe import save_tiny_recipe

from modenc.hub.store import Hub


def training(folder: Path, tries: int) -> Outcome:
    """``modenc train`` of one recipe: one ends as if alone, the other is refused or comes after it."""
    outcome = Outcome("two at once: modenc train")
    recipe = save_tiny_recipe(folder, tiny_models.save_tiny_xlmr(folder / "base"))
    command = modenc_command("train", recipe)
    subprocess.run(command, check=True, capture_output=True)
    right = fingerprints(folder / "hub")
    refused = 0
    for _ in range(tries):
        for name in ("hub", "runs"):
            shutil.rmtree(folder / name)
        failure, refusals = _at_once(command, command, "another training is running")
        refused += refusals
        if failure is None and fingerprints(folder / "hub") != right:
            failure = "the modules are others"
        outcome.add(failure or _failures(folder / "hub"))
    _note_refused(outcome, refused)
    return outcome


def installing(folder: Path, tries: int) -> Outcome:
    """``modenc hub install`` of one language from two places: both succeed, one after the other."""
    outcome = Outcome("two at once: modenc hub install")
    hub = Hub.create(folder / "hub", tiny_languages.INFO)
    commands, whole = [], set()
    for number, fill in enumerate(FILLS):
        other = Hub.create(folder / f"source{number}", tiny_languages.INFO)
        tiny_languages.publish(other, "kk", fill)
        commands.append(modenc_command("hub", "install", other.folder("kk"), "--hub", hub.path))
        whole.add(other.card("kk").fingerprint())
    for _ in range(tries):
        failure, refusals = _at_once(*commands, "")
        if failure is None and (refusals or fingerprints(hub.path)["kk"] not in whole):
            failure = "one was refused, or kk is neither of both"
        outcome.add(failure or _failures(hub.path))
    return outcome


def encoding(folder: Path, tries: int, texts: int = 4000) -> Outcome:
    """``modenc encode`` to one output: one ends as if alone, the other is refused or comes after it."""
    outcome = Outcome("two at once: modenc encode")
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    source, output = folder / "texts.txt", folder / "vectors"
    lines = tiny_models.sentences("kk")
    source.write_text("\n".join(lines[row % len(lines)] for row in range(texts)) + "\n", encoding="utf-8")
    words = ["--hub", hub.path, "--input", source, "--output", output, "--part-size", texts // 40]
    command = modenc_command("encode", *words)
    subprocess.run(command, check=True, capture_output=True)
    right = vectors_of(output)
    refused = 0
    for _ in range(tries):
        shutil.rmtree(output)
        failure, refusals = _at_once(command, command, "another")
        refused += refusals
        if failure is None and not same(vectors_of(output), right):
            failure = "the vectors are others"
        outcome.add(failure)
    _note_refused(outcome, refused)
    return outcome


def _at_once(one: list[str], other: list[str], words: str) -> tuple[str | None, int]:
    """Run two commands; what is wrong with how they ended, and how many were refused in these words."""
    processes = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for command in (one, other)
    ]
    said = [process.communicate()[1] for process in processes]
    refused = [text for process, text in zip(processes, said, strict=True) if process.returncode]
    if len(refused) == 2 or any("Traceback" in text or words not in text for text in refused):
        return "; ".join(text[-300:] for text in refused), len(refused)
    return None, len(refused)


def _failures(hub: Path) -> str | None:
    found = Hub.open(hub).verify()
    return "; ".join(found) or None


def _note_refused(outcome: Outcome, refused: int) -> None:
    outcome.note = f"{refused} of them refused"
    if not refused:
        outcome.lost.append("no two ever met")
