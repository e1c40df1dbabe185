"""That a killed process leaves the old modules or the new, and nothing else for long."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tiny_languages import INFO, publish

from modenc.hub import atomic_folder
from modenc.hub.store import Hub
from modenc.hub.verify import verify_hub


def folder(path: Path, content: str) -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text(content)
    return path


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("can_exchange", [True, False])
def test_replace_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(atomic_folder, "_exchange", lambda one, other: False)
    target = tmp_path / "kk"
    for content in ("first", "second"):
        atomic_folder.replace_folder(folder(atomic_folder.staging_path(target, "tmp"), content), target)
        assert (target / "file").read_text() == content
        assert [path.name for path in tmp_path.iterdir()] == ["kk"]


def test_a_failed_second_step_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_folder, "_exchange", lambda one, other: False)
    target = folder(tmp_path / "kk", "old")
    with pytest.raises(FileNotFoundError):
        atomic_folder.replace_folder(tmp_path / "missing", target)
    assert (target / "file").read_text() == "old"


def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    dead = folder(tmp_path / f".kk.tmp-{dead_pid()}-00ff", "half")
    # In a container the one who died may have had our number.
    namesake = folder(tmp_path / f".ky.tmp-{os.getpid()}-00ff", "half")
    foreign = folder(tmp_path / ".git", "")
    half_files = [
        tmp_path / f".hub.tmp-{dead_pid()}-0123abcd.json",
        folder(tmp_path / "1_Pooling", "") / ".config.tmp-1-0123abcd.json",
    ]
    for file in half_files:
        file.write_text("{")
    with atomic_folder.staging_folder(tmp_path / "az") as living:
        atomic_folder.clean_up(tmp_path)
        assert not dead.exists()
        assert not namesake.exists()
        assert not any(file.exists() for file in half_files)
        assert living.exists()
    assert not living.exists()
    assert foreign.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_link_is_replaced_and_removed_alone(hub: Hub, tmp_path: Path) -> None:
    for act in (lambda: publish(hub, "kk"), lambda: hub.remove("kk")):
        elsewhere = (hub.path / "kk").rename(tmp_path / f"elsewhere-{len(list(tmp_path.iterdir()))}")
        (hub.path / "kk").symlink_to(elsewhere)
        act()
        assert (elsewhere / "card.json").is_file()
        assert not list(hub.path.glob(".*"))
    assert "kk" not in hub.languages()


@pytest.mark.parametrize("step", ["_delete", "sync"])
def test_what_is_removed_is_gone_though_it_cannot_be_deleted(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refused(folder: Path) -> None:
        # As rmtree does in a folder of another user's: a name that does not say which folder it is in.
        raise PermissionError(errno.EACCES, "Permission denied", "card.json")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_folder, step, refused)
        hub.remove("kk")
    assert hub.languages() == ["en", "az"]
    assert verify_hub(Hub.open(hub.path)) == []
    publish(hub, "az")
    assert not list(hub.path.glob(".*"))


def test_a_locked_folder_is_kept_whatever_its_process_id(tmp_path: Path) -> None:
    # As from another container, where the owner's process id means nothing.
    with atomic_folder.staging_folder(tmp_path / "kk") as mine:
        stranger = tmp_path / f".kk.tmp-{dead_pid()}-00ff"
        mine.rename(stranger)
        atomic_folder.clean_up(tmp_path)
        assert stranger.exists()
    atomic_folder.clean_up(tmp_path)
    assert not stranger.exists()


def test_what_cannot_be_removed_keeps_nobody_from_working(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = folder(hub.path / f".az.tmp-{dead_pid()}-00ff", "half")

    def too_deep(*_: object, **__: object) -> None:
        raise RecursionError

    said: list[str] = []
    monkeypatch.setattr(atomic_folder.logger, "warning", lambda text, *values: said.append(text % values))
    monkeypatch.setattr(atomic_folder.shutil, "rmtree", too_deep)  # of Python 3.11
    atomic_folder.clean_up(hub.path)
    assert "cannot be removed: [Errno 36] folders too deep to remove" in said[0]
    assert dead.exists()


def test_open_puts_back_what_a_dead_process_moved_away(hub: Hub) -> None:
    card = hub.card("kk")
    (hub.path / "kk").rename(hub.path / f".kk.old-{dead_pid()}-00ff")
    assert Hub.open(hub.path).card("kk") == card
    # With the new modules in place the old ones are thrown away instead.
    (hub.path / "az").rename(hub.path / f".az.old-{dead_pid()}-00ff")
    new = publish(hub, "az", fill=0.125)
    assert Hub.open(hub.path).card("az") == new
    assert not list(hub.path.glob(".*"))


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from tiny_languages import make_card, write_modules
from modenc.hub import atomic_folder, store
from modenc.hub.store import Hub

setattr({module}, {step!r}, lambda *args, **options: os._exit(9))
hub = Hub.open({path!r})
with hub.staging("kk") as staging:
    write_modules(staging, fill=0.125)
    hub.publish(staging, make_card("kk"))
"""


@pytest.mark.parametrize(
    ("module", "step", "new"),
    [
        ("atomic_folder", "sync_tree", False),  # before the exchange
        ("atomic_folder.shutil", "rmtree", True),  # after it, before the old modules are removed
    ],
)
def test_killed_while_publishing(hub: Hub, module: str, step: str, new: bool) -> None:
    before = hub.card("kk")
    script = KILLED.format(tests=str(Path(__file__).parents[1]), module=module, step=step, path=str(hub.path))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert (hub.card("kk").files != before.files) == new
    assert verify_hub(Hub.open(hub.path)) == []
    assert list(hub.path.glob(".kk.tmp-*"))
    publish(hub, "az")
    assert not list(hub.path.glob(".*"))


def publish_many(path: str, lang: str) -> int:
    hub = Hub.open(path)
    for turn in range(5):
        publish(hub, lang, fill=turn / 8)
    return os.getpid()


@pytest.mark.slow
def test_processes_do_not_disturb_each_other(tmp_path: Path) -> None:
    hub = Hub.create(tmp_path / "hub", INFO)
    languages = ["kk", "az", "uz", "kk"]
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        assert len(list(pool.map(publish_many, [str(hub.path)] * 4, languages))) == 4
    assert hub.languages() == ["az", "kk", "uz"]
    assert verify_hub(hub) == []
    assert not list(hub.path.glob(".*"))
