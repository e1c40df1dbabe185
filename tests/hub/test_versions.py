"""That a language is replaced by its card alone: whoever reads has the old version or the new one, whole."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tiny_languages import INFO, edit_json, publish

from modenc.errors import HubError, StorageError
from modenc.hub import store
from modenc.hub.store import Hub


def versions(hub: Hub, lang: str = "kk") -> set[str]:
    return {path.name for path in hub.folder(lang).iterdir()} - {"card.json"}


def age(folder: Path) -> None:
    """Have a folder be as old as what no process is at work on."""
    os.utime(folder, (0, 0))


def test_the_version_before_stays_until_the_next_one(hub: Hub) -> None:
    first = hub.card("kk").version
    second = publish(hub, "kk", fill=0.25).version
    assert versions(hub) == {first, second}
    for name in versions(hub):
        age(hub.path / "kk" / name)
    third = publish(hub, "kk", fill=0.125).version
    assert versions(hub) == {second, third}
    assert hub.verify() == []


def test_the_same_modules_again_repair_what_is_damaged(hub: Hub) -> None:
    first = hub.card("kk")
    (hub.version_folder("kk") / "README.md").unlink()
    second = publish(hub, "kk")
    assert second.fingerprint() == first.fingerprint()
    assert second.version != first.version
    assert hub.verify() == []


def test_copies_have_the_same_names(hub: Hub, tmp_path: Path) -> None:
    copy = hub.copy(tmp_path / "copy", INFO)
    for lang in hub.languages():
        assert (copy.folder(lang) / "card.json").read_bytes() == (hub.folder(lang) / "card.json").read_bytes()


def test_a_card_names_a_folder_of_its_own(hub: Hub) -> None:
    for name in ("..", "../az/v-0123abcd", "/etc", "v-0123abcd/.."):
        edit_json(hub.folder("kk") / "card.json", version=name)
        with pytest.raises(HubError, match="version: expected a name such as v-0123abcd, found"):
            hub.read("kk")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_linked_language_is_neither_read_nor_written(hub: Hub, tmp_path: Path) -> None:
    elsewhere = (hub.path / "kk").rename(tmp_path / "elsewhere")
    (hub.path / "kk").symlink_to(elsewhere)
    with pytest.raises(HubError, match="expected a plain folder with a plain file, found a link"):
        hub.read("kk")
    with pytest.raises(HubError, match="found a link; remove the language first"):
        publish(hub, "kk")
    hub.remove("kk")
    assert (elsewhere / "card.json").is_file()
    assert "kk" not in hub.languages()


def test_a_removed_language_is_gone_though_its_files_cannot_be_deleted(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store.shutil, "rmtree", lambda *_, **__: None)
        hub.remove("kk")
    assert hub.languages() == ["en", "az"]
    hub.remove("kk")
    assert not (hub.path / "kk").exists()
    with pytest.raises(HubError, match="no modules for kk"):
        hub.remove("kk")


def test_what_a_failed_publication_wrote_is_removed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    before = versions(hub)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in ("sync_tree", "write_atomically"):
        with monkeypatch.context() as patch:
            patch.setattr(store, step, full)
            with pytest.raises(StorageError, match=r"cannot be written .*; the hub is as it was"):
                publish(hub, "kk", fill=0.25)
        assert versions(hub) == before
    assert hub.verify() == []


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from tiny_languages import publish
from modenc.hub import store
from modenc.hub.store import Hub

setattr(store, {step!r}, lambda *args, **options: os._exit(9))
publish(Hub.open({path!r}), "kk", fill=0.125)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "new"), [("sync_tree", False), ("write_atomically", False), ("_remove_unused", True)]
)
def test_killed_while_publishing(hub: Hub, step: str, new: bool) -> None:
    before = hub.card("kk")
    script = KILLED.format(tests=str(Path(__file__).parents[1]), step=step, path=str(hub.path))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert (hub.card("kk").files != before.files) == new
    assert Hub.open(hub.path).verify() == []
    left = versions(hub)
    assert len(left) == 2
    for name in left:
        age(hub.path / "kk" / name)
    last = hub.card("kk").version
    assert versions(hub) == left
    after = publish(hub, "kk", fill=0.75)
    assert versions(hub) == {last, after.version}


def test_a_language_replaced_while_it_is_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old version is still there after one replacement; after a removal it is read again, or missed."""
    read_language = store.read_language

    def filled_with(value: float) -> bool:
        return bool((hub.read("kk").embeddings == value).all())

    def before_reading(act: Any) -> None:
        def acted(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(store, "read_language", read_language)
            act()
            return read_language(*args, **options)

        monkeypatch.setattr(store, "read_language", acted)

    publish(hub, "kk", fill=0.75)
    before_reading(lambda: publish(hub, "kk", fill=0.25))
    assert filled_with(0.75)
    before_reading(lambda: (hub.remove("kk"), publish(hub, "kk", fill=0.125)))
    assert filled_with(0.125)
    before_reading(lambda: hub.remove("kk"))
    with pytest.raises(HubError, match="no modules for kk"):
        hub.read("kk")


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
    assert hub.verify() == []


def test_a_version_folder_that_is_a_link_is_refused(hub: Hub, tmp_path: Path) -> None:
    root = hub.version_folder("kk")
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert "found a link" in str(hub.verify())
