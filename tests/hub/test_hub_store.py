from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tiny_languages import INFO, edit_json, make_card, publish, write_modules

from modenc.errors import HubError, LanguageError, StorageError
from modenc.hub.card import Card
from modenc.hub.layout import sha256
from modenc.hub.store import Hub


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_create_open_and_create_again(tmp_path: Path) -> None:
    hub = Hub.create(tmp_path / "new" / "hub", INFO)
    assert hub.languages() == []
    assert Hub.open(hub.path).info == INFO
    assert Hub.create(hub.path, INFO).info == INFO
    assert names(hub.path) == ["1_Pooling", "config_sentence_transformers.json", "hub.json", "modules.json"]


def test_sentence_transformers_files(tmp_path: Path) -> None:
    root = Hub.create(tmp_path / "hub", INFO).path
    modules = json.loads((root / "modules.json").read_text())
    assert [module["type"] for module in modules] == [
        "modenc.composition.st_module.ModularTransformer",
        "sentence_transformers.sentence_transformer.modules.Pooling",
    ]
    config = json.loads((root / "config_sentence_transformers.json").read_text())
    assert config["prompts"] == dict.fromkeys(("default", "query", "document"), "query: ")
    assert config["default_prompt_name"] == "default"
    pooling = json.loads((root / "1_Pooling" / "config.json").read_text())
    assert pooling["word_embedding_dimension"] == INFO.hidden_size
    assert pooling["pooling_mode_mean_tokens"]
    assert not pooling["pooling_mode_cls_token"]
    bare = Hub.create(tmp_path / "bare", replace(INFO, prompt="", pooling="cls")).path
    config = json.loads((bare / "config_sentence_transformers.json").read_text())
    assert (config["prompts"], config["default_prompt_name"]) == ({}, None)
    assert json.loads((bare / "1_Pooling" / "config.json").read_text())["pooling_mode_cls_token"]


def test_a_hub_of_another_base_is_not_reused(hub: Hub) -> None:
    with pytest.raises(
        HubError, match=r"base_fingerprint: expected 'beef', found 'f00d'.*use another folder"
    ):
        Hub.create(hub.path, replace(INFO, base_fingerprint="beef"))
    assert Hub.open(hub.path).info == INFO


def test_a_folder_of_other_things_is_not_made_a_hub(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(HubError, match=r"expected a new or empty folder for a hub, found thesis\.tex"):
        Hub.create(tmp_path, INFO)
    assert names(tmp_path) == ["thesis.tex"]


def test_a_file_is_no_place_for_a_hub(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(HubError, match="expected a new or empty folder for a hub, found a file"):
        Hub.create(tmp_path / "taken", INFO)


def test_open_says_what_it_found(hub: Hub, tmp_path: Path) -> None:
    for path, found in (
        (tmp_path / "none", "found no such folder"),
        (hub.path / "hub.json", "found a file"),
        (Path("kk" * 200), "found no such folder"),
        (tmp_path, "found a folder without it"),
    ):
        with pytest.raises(HubError, match=rf"expected a hub \(a folder with hub.json\), {found}"):
            Hub.open(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "expected format_version 1, found 2; update modenc"),
        ({"hidden_size": "8"}, "hidden_size: expected int, found '8'"),
        ({"pivoot": "en"}, "expected the keys base_id, .*, found a difference in pivoot; correct"),
    ],
)
def test_a_damaged_hub_file_is_named(hub: Hub, changes: dict[str, object], message: str) -> None:
    file = hub.path / "hub.json"
    edit_json(file, **changes)
    with pytest.raises(HubError, match=message):
        Hub.open(hub.path)


def test_publish_records_every_file(hub: Hub) -> None:
    card = hub.card("kaz_Cyrl")
    root = hub.version_folder("kk")
    present = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert set(card.files) == present
    assert root == hub.path / "kk" / card.version
    record = card.files["embeddings.safetensors"]
    assert record == {
        "sha256": sha256(root / "embeddings.safetensors"),
        "bytes": (root / "embeddings.safetensors").stat().st_size,
    }
    assert card.files["README.md"]["bytes"] > 0
    assert replace(card, files={}) == make_card("kk")


def test_publishing_again_replaces_a_language_alone(hub: Hub) -> None:
    before, others = hub.card("kk"), hub.card("az")
    after = publish(hub, "kk", fill=0.25)
    assert after == hub.card("kk")
    assert after.files["embeddings.safetensors"] != before.files["embeddings.safetensors"]
    assert hub.card("az") == others


def test_broken_modules_are_not_published(hub: Hub) -> None:
    before, names = hub.card("kk"), set((hub.path / "kk").iterdir())
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_modules(folder)
        (folder / "se" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 4, "lora_alpha": 8}')
        with pytest.raises(HubError, match=r"the modules of kk cannot be used:\n  se/.*expected rank 4"):
            hub.publish(folder, make_card("kk"))
    assert (hub.card("kk"), set((hub.path / "kk").iterdir())) == (before, names)


def test_what_is_published_is_not_its_owners_alone(hub: Hub) -> None:
    before = os.umask(0o022)
    try:
        publish(hub, "ky")  # from a temporary folder, which is its owner's
    finally:
        os.umask(before)
    root = hub.version_folder("ky")
    assert all(path.stat().st_mode & 0o044 for path in (root, *root.rglob("*")))


def test_links_and_folders_that_are_none_are_not_published(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="expected a folder of modules, found none"):
        hub.publish(tmp_path / "made", make_card("ky"))
    (tmp_path / "made" / "se").mkdir(parents=True)
    (tmp_path / "made" / "se" / "extra").symlink_to(hub.path)
    with pytest.raises(HubError, match="extra: expected a plain file, found a link"):
        hub.publish(tmp_path / "made", make_card("ky"))
    assert not (hub.path / "ky").exists()


def test_a_language_with_a_damaged_card_can_be_published_again(hub: Hub) -> None:
    (hub.path / "kk" / "card.json").write_text("{")
    publish(hub, "kk", fill=0.25)
    assert hub.verify() == []


def test_modules_for_another_base_are_not_published(hub: Hub) -> None:
    expected = r"(?s)ky.*expected modules for the base tiny/base \(f00d\), found .* \(beef\)"
    with pytest.raises(HubError, match=expected):
        hub.publish(hub.version_folder("kk"), make_card("ky", base_fingerprint="beef"))
    assert not (hub.path / "ky").exists()


def test_absent_languages_are_named(hub: Hub) -> None:
    with pytest.raises(HubError, match=r"no modules for ky \(Kyrgyz\); languages here: en, az, kk"):
        hub.card("kir")
    with pytest.raises(LanguageError, match="expected a language code"):
        hub.version_folder("kazak")


def test_install_a_languages_folder(hub: Hub, tmp_path: Path) -> None:
    other = Hub.create(tmp_path / "other", INFO)
    shutil.copytree(hub.path / "kk", tmp_path / "download")
    assert other.install(tmp_path / "download") == hub.card("kk") == other.card("kk")
    assert other.install(hub.path, "aze") == other.card("az")
    assert other.languages() == ["az", "kk"]


@pytest.mark.parametrize("change", [{"prompt": "passage: "}, {"pooling": "cls"}, {"pivot": "kk"}])
def test_modules_are_not_installed_where_they_would_be_used_in_another_way(
    hub: Hub, tmp_path: Path, change: dict[str, str]
) -> None:
    other = Hub.create(tmp_path / "other", replace(INFO, **change))
    (name, value), *_ = change.items()
    for folder, lang in ((hub.path, "kk"), (hub.path / "kk", None)):
        with pytest.raises(HubError, match=f"used in another way.*{name}: expected '{value}'.*same settings"):
            other.install(folder, lang)
    assert other.languages() == []


def full_after(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has room for so many more languages."""
    take_in, taken = Hub._put_in_use, itertools.count()

    def full(*args: Any, **options: Any) -> None:
        if next(taken) >= times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return take_in(*args, **options)

    monkeypatch.setattr(Hub, "_put_in_use", full)


def test_a_copy_is_a_hub_once_all_languages_are_in_it(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    with monkeypatch.context() as patch:
        full_after(2, patch)
        with pytest.raises(
            StorageError, match=r"copy: cannot be written .*; the incomplete hub cannot be opened"
        ):
            hub.copy(copy, INFO)
    with pytest.raises(HubError, match="expected a hub"):
        Hub.open(copy)
    assert (copy / "az" / "card.json").is_file()
    with pytest.raises(HubError, match=r"found az, en; .* if saving a hub there was interrupted"):
        hub.copy(copy, INFO)
    shutil.rmtree(copy)
    assert hub.copy(copy, INFO).languages() == hub.languages()
    assert Hub.open(copy).verify() == []
    assert all(hub.card(lang) == Hub.open(copy).card(lang) for lang in hub.languages())


def test_a_copy_adds_to_a_hub_one_language_after_the_other(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Hub.create(tmp_path / "other", INFO)
    publish(other, "ky")
    full_after(1, monkeypatch)
    with pytest.raises(
        StorageError, match="each language there is complete, in the old version or the new one"
    ):
        hub.copy(other.path, INFO)
    assert Hub.open(other.path).languages() == ["en", "ky"]
    assert other.verify() == []


def _damage(folder: Path, how: str) -> None:
    root = folder / json.loads((folder / "card.json").read_text())["version"]
    if how == "content":
        weights = root / "embeddings.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif how == "foreign":
        (root / "run.sh").touch()
    elif how == "link":
        (root / "README.md").unlink()
        (root / "README.md").symlink_to("/etc/hostname")
    else:
        changes = {"base": {"base_fingerprint": "beef"}, "lang": {"lang": "../kk"}, "code": {"lang": "kaz"}}
        edit_json(folder / "card.json", **changes[how])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "content",
            r"download: the modules of kk cannot be used:\n  embeddings.safetensors: expected sha256",
        ),
        ("foreign", "run.sh: not in the card"),
        ("link", "README.md: expected a plain file, found a link"),
        ("base", r"found modules for tiny/base \(beef\); use a hub of that base"),
        ("lang", r"expected a language code such as .*'\.\./kk'"),
        ("code", "expected the modules of 'kk', found those of 'kaz'"),
    ],
)
def test_damaged_modules_are_not_installed(hub: Hub, tmp_path: Path, how: str, message: str) -> None:
    download = tmp_path / "download"
    shutil.copytree(hub.path / "kk", download)
    _damage(download, how)
    before = Card.to_json(hub.card("kk"))
    with pytest.raises((HubError, LanguageError), match=message):
        hub.install(download)
    assert hub.card("kk").to_json() == before


def test_install_says_what_it_expected(hub: Hub, tmp_path: Path) -> None:
    for folder, lang, message in (
        (hub.path, "ky", "languages here: en, az, kk"),
        (hub.path / "kk", "az", "expected the modules of 'az', found those of 'kk'"),
        (tmp_path / "none", None, r"none.card\.json: expected a readable file, found"),
        (tmp_path / "none", "kk", "found no such folder"),
    ):
        with pytest.raises(HubError, match=message):
            hub.install(folder, lang)
