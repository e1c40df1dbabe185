"""A disk that is full or read-only at each write: a clear error, the old state whole, and a rerun that works.

Run as a program in mount and user namespaces of its own (``unshare -rm``), so that it may mount small disks.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # tiny models and recipes

import tiny_languages
import tiny_models
from kills import FILLS, fingerprints, operate, same, vectors_of
from outcomes import Outcome
from tiny_recipe import save_tiny_recipe

from modenc.cli.main import main
from modenc.errors import StorageError
from modenc.hub.store import Hub

UNSHARE = ["unshare", "-rm"]
_CLEAR = "cannot be written ("


def can_mount() -> bool:
    """Whether this system lets us have small disks of our own, and make them read-only."""
    tried = 'mount -t tmpfs -o size=1m tmpfs "$PWD" && mount -o remount,ro "$PWD"'
    with tempfile.TemporaryDirectory() as place:
        try:
            done = subprocess.run(
                [*UNSHARE, "sh", "-c", f"cd {place} && {tried}"], capture_output=True, check=False
            )
        except FileNotFoundError:
            return False
    return done.returncode == 0


def outcomes(part: str, tries: int, seed: int = 0) -> Outcome:
    """``hub``, ``train`` or ``encode`` on such disks, in namespaces of their own."""
    command = [*UNSHARE, sys.executable, str(Path(__file__).resolve()), part, str(tries), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(f"full and read-only disk: {part}", tried=1, lost=[done.stderr[-500:]])
    return Outcome(**json.loads(done.stdout))


def hub_operations(folder: Path, tries: int, seed: int) -> Outcome:
    """Publish, install and remove with whatever room is left."""
    outcome = Outcome("full and read-only disk: hub")
    rng = random.Random(seed)
    with _disk(folder / "disk", megabytes=2) as disk:
        hub = Hub.create(disk / "hub", tiny_languages.INFO)
        sources = []
        for number, fill in enumerate(FILLS):
            other = Hub.create(folder / f"source{number}", tiny_languages.INFO)
            tiny_languages.publish(other, "kk", fill)
            sources.append(other)
        stops, rooms = 0, set()
        old, new = (source.card("kk").fingerprint() for source in sources)
        for _ in range(tries):
            hub.install(sources[0].folder("kk"))
            operation = rng.choice(("publish", "install", "remove"))
            kind = rng.choices(("full", "read-only"), (9, 1))[0]
            room = rng.randrange(0, 64)  # a file takes 4 kB or more here, and a language has ten
            failure, stopped = None, False
            disturbed = _filled(disk, room) if kind == "full" else _read_only(disk)
            with disturbed:
                try:
                    operate(operation, hub, sources[1].folder("kk"))
                except StorageError as error:
                    stopped = True
                    failure = (
                        None if _CLEAR in str(error) and "the hub is as it was" in str(error) else str(error)
                    )
                except Exception as error:  # the promise is that no other comes
                    stopped, failure = True, repr(error)
            issues = Hub.open(hub.path).verify()
            there = hub.card("kk").fingerprint() if "kk" in hub.languages() else None
            expected = old if stopped else {"remove": None}.get(operation, new)
            if there != expected:
                issues.append(f"{operation}: kk is not what it should be")
            if kind == "read-only" and not stopped:
                issues.append(f"{operation} on a read-only disk went well")
            stops += stopped
            if stopped and kind == "full":
                rooms.add(room // 4)
            outcome.add(failure or "; ".join(issues) or None)
    _note_stops(outcome, stops)
    outcome.note += f", with room for {min(rooms, default=0)} to {max(rooms, default=0)} files"
    if len(rooms) < 3:
        outcome.lost.append("a full disk was met at hardly any file")
    return outcome


def _kilobytes(folder: Path) -> int:
    """The room that a folder's files take on a disk of ours, about."""
    return sum(4 + (path.stat().st_size >> 10) for path in folder.rglob("*"))


def training(folder: Path, tries: int, seed: int) -> Outcome:
    """``modenc train`` whose work folder or hub cannot be written; later it ends as it should.

    In turn there is little room, the hub alone is read-only, and all is. The hub has all languages from a
    training with another seed: each stays, or is the new one.
    """
    outcome = Outcome("full and read-only disk: modenc train")
    rng = random.Random(seed)
    recipe = save_tiny_recipe(folder / "recipe", tiny_models.save_tiny_xlmr(folder / "base"))

    def words(place: Path, number: int, work: Path | None = None) -> list[object]:
        runs = (work or place) / "runs"
        where = (f"hub.path={place / 'hub'}", f"run.work_dir={runs}", f"run.seed={number}")
        return ["train", recipe, *where]

    for number, name in enumerate(("old", "new")):
        _modenc(words(folder / name, number), check=True)
    old, new = (fingerprints(folder / name / "hub") for name in ("old", "new"))
    stops = 0
    for turn in range(tries):
        with _disk(folder / "disk", megabytes=8) as disk, _disk(folder / "work", megabytes=8) as work:
            shutil.copytree(folder / "old" / "hub", disk / "hub")
            room = rng.randrange(16, 1500)
            train = words(disk, 1, work if turn % 3 == 1 else None)
            with _read_only(disk) if turn % 3 else _filled(disk, room):
                done = _modenc(train)
            stops += done.code != 0
            failure = _clear(done, read_only=turn % 3 != 0)
            found = fingerprints(disk / "hub")
            if any(found.get(lang) not in (old[lang], new[lang]) for lang in old):
                failure = failure or "a language is neither the old nor the new"
            if issues := Hub.open(disk / "hub").verify():
                failure = failure or issues[0]
            again = _modenc(train)
            if again.code:
                failure = failure or f"the rerun failed: {again.errors[-300:]}"
            elif fingerprints(disk / "hub") != new:
                failure = failure or "the rerun's modules are others"
            outcome.add(failure)
    _note_stops(outcome, stops)
    return outcome


def encoding(folder: Path, tries: int, seed: int) -> Outcome:
    """``modenc encode`` whose output cannot be written; later it goes on to the same vectors."""
    outcome = Outcome("full and read-only disk: modenc encode")
    rng = random.Random(seed)
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    source = folder / "texts.txt"
    source.write_text("\n".join(tiny_models.sentences("kk") * 10), encoding="utf-8")
    stops = 0
    for turn in range(tries):
        suffix, options = ((".npy", []), ("", ["--part-size", 200]))[turn // 2 % 2]

        def words(output: Path, options: list[object] = options) -> list[object]:
            return ["encode", "--hub", hub.path, "--input", source, "--output", output, *options]

        right = folder / f"right{suffix}"
        if not right.exists():
            _modenc(words(right), check=True)
        with _disk(folder / "disk", megabytes=4) as disk:
            output = disk / f"vectors{suffix}"
            room = rng.randrange(0, 2 * (_kilobytes(right) if right.is_dir() else right.stat().st_size >> 10))
            with _read_only(disk) if turn % 3 == 1 else _filled(disk, room):
                done = _modenc(words(output))
            stops += done.code != 0
            failure = _clear(done, read_only=turn % 3 == 1)
            again = _modenc(words(output))
            if again.code:
                failure = failure or f"the rerun failed: {again.errors[-300:]}"
            elif not same(vectors_of(output), vectors_of(right)):
                failure = failure or "the rerun's vectors are others"
            outcome.add(failure)
    _note_stops(outcome, stops)
    return outcome


@dataclass(frozen=True)
class _Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    errors: str


def _modenc(words: Sequence[object], *, check: bool = False) -> _Ended:
    """A command of ``modenc`` in this process, which has imported what takes seconds."""
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        try:
            code = main(["--quiet", *map(str, words)])
        except Exception:  # the promise is that none comes
            code = 1
            traceback.print_exc()
    if check and code:
        raise RuntimeError(f"modenc {words[0]}: {errors.getvalue()}")
    return _Ended(code, errors.getvalue())


def _note_stops(outcome: Outcome, stops: int) -> None:
    outcome.note = f"{stops} of them had too little room"
    if not stops:
        outcome.lost.append("no disk was ever full or read-only")


def _clear(done: _Ended, *, read_only: bool) -> str | None:
    """What is wrong with how a command ended on a full or read-only disk."""
    if done.code == 0:  # it had room enough
        return "the command went well on a read-only disk" if read_only else None
    if done.code != 2 or "Traceback" in done.errors or _CLEAR not in done.errors:
        return f"exit {done.code}: {done.errors[-300:]}"
    return None


@contextmanager
def _disk(folder: Path, megabytes: int) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def _read_only(disk: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


@contextmanager
def _filled(disk: Path, kilobytes: int) -> Iterator[None]:
    """All room taken but this."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    size = filler.stat().st_size
    with filler.open("r+b") as stream:
        stream.truncate(max(0, size - (kilobytes << 10)))
    try:
        yield
    finally:
        filler.unlink()


if __name__ == "__main__":
    parts = {"hub": hub_operations, "train": training, "encode": encoding}
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(asdict(parts[sys.argv[1]](Path(place), *map(int, sys.argv[2:])))))
