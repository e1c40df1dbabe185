"""Hubs on Hugging Face, which is in memory here."""

from __future__ import annotations

import json
import pickle
import shutil
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import huggingface_hub
import numpy as np
import pytest
from fake_hugging_face import TOKEN, FakeHuggingFace, refusal
from tiny_languages import INFO, make_hub, publish

import modenc
from modenc import ModularEncoder
from modenc.cli.main import main
from modenc.errors import HubError
from modenc.evaluation.systems import ModularSystem
from modenc.hub.push import push_hub
from modenc.hub.remote import open_hub
from modenc.hub.store import Hub

TEXTS = ["Müəllim yeni kitabı oxuyur.", "Balaca uşaq ilıq südü tapır."]
REPO = "org/hub"
INDEX = ["az/card.json", "en/card.json", "hub.json", "kk/card.json"]
UNREACHABLE = ConnectionError("no network")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_hub: Hub) -> FakeHuggingFace:
    """Hugging Face, with the tiny hub (en, az, kk) in it."""
    fake = FakeHuggingFace()
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.download)
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "cache"))
    push_hub(tiny_hub, REPO)
    fake.forget()
    return fake


def files_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def install(source: str, target: Path, *words: str) -> list[str]:
    """Install with the command line; returns the hub's languages."""
    assert main(["hub", "install", source, "--hub", str(target), *words]) == 0
    return Hub.open(target).languages()


def listed(hub: Hub, lang: str) -> list[str]:
    """The files of a language."""
    card = hub.card(lang)
    return sorted(["card.json", *(f"{card.version}/{name}" for name in card.files)])


def test_only_what_is_used_is_fetched(
    server: FakeHuggingFace, tiny_hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "list", "--hub", REPO, "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert (listing["hub"], [found["code"] for found in listing["languages"]]) == (REPO, ["en", "az", "kk"])
    encoder = ModularEncoder(REPO)
    assert server.fetched == INDEX
    server.forget()
    found = encoder.encode(TEXTS)  # identified
    assert ["az/card.json", *server.fetched] == [f"az/{name}" for name in listed(tiny_hub, "az")]
    np.testing.assert_array_equal(found, ModularEncoder(tiny_hub.path).encode(TEXTS))
    server.forget()
    encoder.encode(TEXTS, lang="az")
    assert server.asked == 0
    assert ModularSystem(encoder).name == "hub-modular"


def test_an_encoder_stays_at_its_commit(
    server: FakeHuggingFace, tiny_hub: Hub, tiny_xlmr: Path, tmp_path: Path
) -> None:
    encoder = ModularEncoder(REPO)
    commit = encoder.hub.commit
    push_hub(make_hub(tmp_path / "other", tiny_xlmr, ("az", "ug")), REPO)
    expected = ModularEncoder(tiny_hub.path).encode(TEXTS, lang="az")
    np.testing.assert_array_equal(encoder.encode(TEXTS, lang="az"), expected)
    assert open_hub(REPO, revision=commit).languages() == ["en", "az", "kk"]
    assert open_hub(REPO).languages() == ["en", "az", "kk", "ug"]


def test_without_a_network_the_cache_serves(
    server: FakeHuggingFace, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = ModularEncoder(REPO).encode(TEXTS, lang="az")
    server.broken["*"] = UNREACHABLE
    offline = ModularEncoder(REPO, local_files_only=True)
    np.testing.assert_array_equal(offline.encode(TEXTS, lang="az"), vectors)
    with pytest.raises(HubError, match="found some missing, and local_files_only is set; use the hub"):
        offline.encode(TEXTS, lang="kk")
    assert open_hub(REPO).languages() == ["en", "az", "kk"]
    assert open_hub(REPO, revision=offline.hub.commit).languages() == ["en", "az", "kk"]
    assert "using the cache, at commit" in caplog.text
    with pytest.raises(HubError, match="org/never_seen at main: Hugging Face refuses this or cannot be"):
        open_hub("org/never_seen")


def test_a_private_hub_is_for_those_with_its_token(server: FakeHuggingFace) -> None:
    server.private[REPO] = True
    with pytest.raises(HubError, match=r"Repository Not Found.* Check the id .* set HF_TOKEN"):
        ModularEncoder(REPO, token="hf_stranger")
    encoder = ModularEncoder(REPO, token=TOKEN)
    assert encoder.encode(TEXTS, lang="az").shape == (2, 32)
    pickled = pickle.dumps(encoder.hub)
    assert TOKEN.encode() not in pickled
    assert pickle.loads(pickled).languages() == ["en", "az", "kk"]


def test_what_is_not_there_is_said(
    server: FakeHuggingFace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(HubError, match=r"org/none at main: Hugging Face refuses this .*Repository Not Found"):
        open_hub("org/none")
    with pytest.raises(HubError, match=r"at v9: Hugging Face refuses this .*Revision Not Found"):
        open_hub(REPO, revision="v9")
    words = ["hub", "install", REPO, "--hub", str(tmp_path / "out"), "--lang", "az", "--lang", "ug"]
    assert main(words) == 2
    assert "no modules for ug" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    server.put("org/model", {"config.json": b"{}"})
    with pytest.raises(HubError, match=r"a repository with hub\.json\), found one without it at commit"):
        open_hub("org/model")


@pytest.mark.parametrize("error", [UNREACHABLE, KeyboardInterrupt()], ids=["failed", "interrupted"])
def test_a_download_that_ends_early_leaves_nothing_half(
    server: FakeHuggingFace, tmp_path: Path, tiny_hub: Hub, error: BaseException
) -> None:
    encoder = ModularEncoder(REPO)
    server.broken["adapter_model.safetensors"] = error
    with pytest.raises((HubError, KeyboardInterrupt)):
        encoder.encode(TEXTS, lang="az")
    assert main(["hub", "install", REPO, "--hub", str(tmp_path / "out")]) in (2, 130)
    assert not (tmp_path / "out").exists()
    server.broken.clear()
    assert encoder.encode(TEXTS, lang="az").shape == (2, 32)
    assert server.fetched.count(f"az/{tiny_hub.card('az').version}/README.md") == 1  # it goes on


def test_push_and_install_give_the_same_bytes(
    server: FakeHuggingFace, tiny_hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hub", "push", "--hub", str(tiny_hub.path), "--repo", "org/new", "--message", "First"]
    assert main(words) == 0
    assert (
        f"pushed {tiny_hub.path} to org/new: https://huggingface.co/org/new/commit/"
        in capsys.readouterr().out
    )
    assert server.messages[-1] == "First"
    install("org/new", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tiny_hub.path)
    assert main(["hub", "check", "--hub", "org/new"]) == 0


def test_some_languages_of_a_branch(server: FakeHuggingFace, tiny_hub: Hub, tmp_path: Path) -> None:
    push_hub(tiny_hub, "org/some", languages="aze", revision="v1")
    assert open_hub("org/some", revision="v1").languages() == ["az"]
    with pytest.raises(HubError, match=r"found one without it"):
        open_hub("org/some")
    assert install(REPO, tmp_path / "out", "--lang", "az") == ["az"]
    assert install(REPO, tmp_path / "out", "--lang", "kk", "--revision", "main") == ["az", "kk"]
    for lang in ("az", "kk"):
        assert files_of(tmp_path / "out" / lang) == files_of(tiny_hub.path / lang)
    assert modenc.export(REPO, "az", tmp_path / "model") == tmp_path / "model"


def test_sentence_transformers_opens_an_id(
    server: FakeHuggingFace, tiny_hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import file_io

    monkeypatch.setattr(file_io, "hf_hub_download", partial(server.download_file, tmp_path / "files"))
    # From 6.0 on it wants this for a module of another package.
    trust = {"trust_remote_code": True} if version("sentence_transformers") >= "6" else {}
    found = SentenceTransformer(REPO, **trust).encode(TEXTS)
    np.testing.assert_allclose(found, ModularEncoder(tiny_hub.path).encode(TEXTS), atol=1e-6)


def test_bytes_that_differ_from_the_card_are_not_kept(server: FakeHuggingFace, tiny_hub: Hub) -> None:
    encoder, files = ModularEncoder(REPO), server.files(REPO)
    path = f"az/{tiny_hub.card('az').version}/se/adapter_model.safetensors"
    files[path] = files[path][:-1] + bytes([files[path][-1] ^ 1])
    with pytest.raises(HubError, match="expected sha256"):
        encoder.encode(TEXTS, lang="az")
    assert sorted(files_of(encoder.hub.path / "az")) == ["card.json"]
    assert encoder.encode(TEXTS, lang="en").shape == (2, 32)


def test_code_is_refused_before_anything_is_fetched(server: FakeHuggingFace, tiny_hub: Hub) -> None:
    encoder = ModularEncoder(REPO)
    server.forget()
    server.files(REPO)[f"az/{tiny_hub.card('az').version}/mine.py"] = b"{ }"
    with pytest.raises(HubError, match=r"mine\.py: not in the card"):
        encoder.encode(TEXTS, lang="az")
    assert server.fetched == []


def test_a_card_cannot_have_the_disk_filled(server: FakeHuggingFace) -> None:
    files = server.files(REPO)
    card = json.loads(files["az/card.json"])
    card["files"]["se/adapter_config.json"]["bytes"] = (1 << 24) + 1
    files["az/card.json"] = json.dumps(card).encode()
    files[f"az/{card['version']}/se/adapter_config.json"] = bytes((1 << 24) + 1)
    with pytest.raises(HubError, match="expected at most 16777216 bytes, found 16777217"):
        ModularEncoder(REPO).encode(TEXTS, lang="az")


def test_a_damaged_cache_is_said(server: FakeHuggingFace) -> None:
    encoder = ModularEncoder(REPO)
    encoder.encode(TEXTS, lang="az")
    (file,) = encoder.hub.path.glob("az/*/se/adapter_model.safetensors")
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(
        HubError, match=r"(?s)/az: the modules of az cannot.*cache can be deleted: it is fetched again"
    ):
        ModularEncoder(REPO).encode(TEXTS, lang="az")


def test_an_encoder_pushes_what_it_uses(server: FakeHuggingFace, tiny_hub: Hub, tmp_path: Path) -> None:
    assert "/org/again/commit/" in ModularEncoder(REPO).push_to_hub("org/again", languages=["az"])
    assert install("org/again", tmp_path / "out") == ["az"]
    assert files_of(tmp_path / "out" / "az") == files_of(tiny_hub.path / "az")
    prompts = {"default": "", "query": "", "document": ""}
    ModularEncoder(tmp_path / "out", prompts=prompts).push_to_hub("org/plain")
    assert open_hub("org/plain").info.prompt == ""


def test_a_language_is_replaced_whole(server: FakeHuggingFace, hub_copy: Hub, tmp_path: Path) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(hub_copy.version_folder("kk"), folder, dirs_exist_ok=True)
        shutil.rmtree(folder / "cla")
        hub_copy.publish(folder, hub_copy.card("kk"))
    hub_copy.remove("az")
    (hub_copy.path / "README.md").write_text("My own words.\n")
    push_hub(hub_copy, REPO)
    assert server.files(REPO)["README.md"] == b"My own words.\n"
    # az stays, and the old kk/cla is gone.
    assert install(REPO, tmp_path / "out") == ["en", "az", "kk"]
    assert sorted(files_of(tmp_path / "out" / "kk")) == listed(hub_copy, "kk")
    assert server.messages == ["initial commit", "Add en, az, kk", "Add en, kk"]


def test_a_push_that_would_harm_is_refused(server: FakeHuggingFace, hub_copy: Hub, tmp_path: Path) -> None:
    before = dict(server.heads)
    other = Hub.create(tmp_path / "other", INFO)
    with pytest.raises(HubError, match="expected languages to push, found none"):
        push_hub(other, REPO)
    publish(other, "kk")
    with pytest.raises(HubError, match=r"is another kind of hub \(base_id: expected .*nothing was uploaded"):
        push_hub(other, REPO)
    with pytest.raises(HubError, match="expected a private repository, found a public one"):
        push_hub(hub_copy, REPO, private=True)
    with pytest.raises(HubError, match="expected a repository's id"):
        push_hub(hub_copy, "nameless")
    server.broken["commit"] = refusal(huggingface_hub.errors.HfHubHTTPError, 403, "403 Forbidden")
    with pytest.raises(HubError, match=r"Hugging Face refuses this .*403"):
        push_hub(hub_copy, REPO)
    (hub_copy.version_folder("az") / "README.md").write_text("other")
    with pytest.raises(HubError, match=r"README\.md: expected \d+ bytes, found 5"):
        push_hub(hub_copy, REPO)
    assert server.heads == before
    server.put("org/model", {"config.json": b"{}"})
    with pytest.raises(HubError, match=r"expected a hub or an empty repository, found config\.json"):
        push_hub(other, "org/model")
