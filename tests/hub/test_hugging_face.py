"""Hubs on Hugging Face, through its real client, from a double of its server that is a process of its own."""

from __future__ import annotations

import itertools
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hub_client
import numpy as np
import pytest
from hub_client import Server, command
from hub_server import OWNER, READER, STRANGER
from tiny_languages import INFO, make_hub, publish

from modenc import ModularEncoder
from modenc.errors import HubError
from modenc.hub.store import Hub

pytestmark = pytest.mark.slow
TEXTS = ["Müəllim yeni kitabı oxuyur.", "Balaca uşaq ilıq südü tapır."]
INDEX = [
    "1_Pooling/config.json", "README.md", "az/card.json", "config_sentence_transformers.json", "en/card.json",
    "hub.json", "kk/card.json", "modules.json",
]  # fmt: skip
_numbers = itertools.count()
Client = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with hub_client.running_server() as running:
        yield running


@pytest.fixture(scope="module")
def pool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with hub_client.running_client(server, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def client(pool: Any, server: Server, tmp_path: Path) -> Iterator[Client]:
    """Calls a function of ``hub_client`` in the client's process, with a cache of the test's own."""

    def call(function: str, *args: Any, **options: Any) -> Any:
        return pool.submit(hub_client.call, str(tmp_path / "cache"), function, *args, **options).result()

    yield call
    server.fail()


@pytest.fixture
def repo(client: Client, server: Server, tiny_hub: Hub) -> str:
    """The tiny hub (en, az, kk), pushed."""
    name = f"org/hub{next(_numbers)}"
    client("push", str(tiny_hub.path), name, token=OWNER)
    server.forget()
    return name


@pytest.fixture
def env(server: Server, tmp_path: Path) -> dict[str, str]:
    return hub_client.environment(server, tmp_path / "home", MODENC_CACHE=str(tmp_path / "cache"))


def files_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def in_cache(tmp_path: Path, lang: str) -> list[str]:
    (root,) = (tmp_path / "cache" / "hubs").glob("*/*")
    return sorted(files_of(root / lang))


def listed(hub: Hub, lang: str) -> list[str]:
    """The files of a language."""
    card = hub.card(lang)
    return sorted(["card.json", *(f"{card.version}/{name}" for name in card.files)])


def test_only_what_is_used_is_fetched(repo: str, client: Client, server: Server, tiny_hub: Hub) -> None:
    assert client("open_encoder", repo) == tiny_hub.languages()
    assert server.fetched() == INDEX
    server.forget()
    found = client("encode", TEXTS)  # identified, which takes the pivot's modules for a fallback or not
    assert ["az/card.json", *server.fetched()] == [f"az/{name}" for name in listed(tiny_hub, "az")]
    np.testing.assert_array_equal(found, ModularEncoder(tiny_hub.path).encode(TEXTS))
    server.forget()
    client("encode", TEXTS, lang="az")
    assert server.log() == []


def test_an_encoder_stays_at_its_commit(
    repo: str, client: Client, server: Server, tiny_hub: Hub, tiny_xlmr: Path, tmp_path: Path
) -> None:
    client("open_encoder", repo)
    _, commit = client("facts")
    other = make_hub(tmp_path / "other", tiny_xlmr, ("az", "ug"))
    client("push", str(other.path), repo, token=OWNER)
    server.forget()
    assert client("encode", TEXTS, lang="az").shape == (2, 32)
    assert any(f"/revision/{commit}" in line for line in server.log())
    assert client("fingerprint", "az") == tiny_hub.card("az").fingerprint()
    # Pinned, it is opened from the cache without a question; unpinned, it is the branch's newest.
    server.forget()
    assert client("open_encoder", repo, revision=commit) == ["en", "az", "kk"]
    assert server.log() == []
    assert client("open_encoder", repo) == ["en", "az", "kk", "ug"]
    assert client("facts")[1] != commit


def test_without_a_network_the_cache_serves(
    repo: str, client: Client, server: Server, env: dict[str, str], tmp_path: Path
) -> None:
    client("open_encoder", repo)
    vectors = client("encode", TEXTS, lang="az")
    server.forget()
    assert client("open_encoder", repo, local_files_only=True) == ["en", "az", "kk"]
    np.testing.assert_array_equal(client("encode", TEXTS, lang="az"), vectors)
    with pytest.raises(HubError, match="found some missing, and local_files_only is set; use the hub"):
        client("encode", TEXTS, lang="kk")
    assert server.log() == []
    offline = env | {"HF_HUB_OFFLINE": "1"}
    assert command("hub", "check", "--hub", repo, "--lang", "az", **offline).stdout.endswith("(az)\n")
    refused = command("hub", "check", "--hub", repo, "--lang", "kk", **offline)
    assert (refused.returncode, "HF_HUB_OFFLINE" in refused.stderr) == (2, True)
    out = tmp_path / "vectors.npy"
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    words = ("encode", "--hub", repo, "--lang", "az", "--input", tmp_path / "texts.txt", "--output", out)
    assert command(*words, **offline).returncode == 0
    np.testing.assert_allclose(np.load(out), vectors, atol=1e-6)
    assert server.log() == []
    # A server that is out of order, or gone, is not the end of what a branch was last found at.
    broken = env | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    found = command("hub", "list", "--hub", repo, **broken)
    assert (found.returncode, "using the cache, at commit" in found.stderr) == (0, True)
    server.fail("/api/models", "503")
    assert client("open_encoder", repo) == ["en", "az", "kk"]
    with pytest.raises(HubError, match="Hugging Face cannot be reached"):
        client("open_encoder", "org/never_seen")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (False, "Repository Not Found.* Check the id .* set HF_TOKEN"),
        ("hf_mistyped", "Check the id .* set HF_TOKEN"),
        (STRANGER, "Repository Not Found"),
    ],
)
def test_a_private_hub_is_for_those_with_its_token(
    client: Client, tiny_hub: Hub, token: Any, message: str, tmp_path: Path
) -> None:
    name = f"org/private{next(_numbers)}"
    client("push", str(tiny_hub.path), name, token=OWNER, private=True)
    with pytest.raises(HubError, match=message):
        client("open_encoder", name, token=token)
    with pytest.raises(HubError, match=message):
        client("pull", name, str(tmp_path / "out"), token=token)
    assert not (tmp_path / "out").exists()
    assert client("open_encoder", name, token=READER) == ["en", "az", "kk"]
    assert client("encode", TEXTS, lang="az").shape == (2, 32)
    assert READER.encode() not in client("pickled")


def test_what_is_not_there_is_said(repo: str, client: Client, tmp_path: Path) -> None:
    with pytest.raises(HubError, match=r"org/none at main: Hugging Face refuses this .*Repository Not Found"):
        client("open_encoder", "org/none", token=READER)
    for revision in ("v9", "0" * 40):
        with pytest.raises(HubError, match=f"at {revision}: Hugging Face refuses this .*Revision Not Found"):
            client("open_encoder", repo, revision=revision)
    with pytest.raises(HubError, match="no modules for ug"):
        client("pull", repo, str(tmp_path / "out"), languages=["az", "ug"])
    assert not (tmp_path / "out").exists()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    client("upload", str(tmp_path / "model"), "org/model", OWNER)
    with pytest.raises(HubError, match=r"a repository with hub\.json\), found one without it at commit"):
        client("open_encoder", "org/model")


@pytest.mark.parametrize("how", ["cut", "404", "500"])
def test_a_download_that_fails_leaves_nothing_half(
    repo: str, client: Client, server: Server, how: str, tmp_path: Path, tiny_hub: Hub
) -> None:
    client("open_encoder", repo)
    server.fail("adapter_model.safetensors" if how == "cut" else "se/adapter_config.json", how)
    with pytest.raises(HubError, match=repo):
        client("encode", TEXTS, lang="az")
    assert set(in_cache(tmp_path, "az")) < set(listed(tiny_hub, "az"))
    with pytest.raises(HubError, match=repo):
        client("pull", repo, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    server.fail()
    assert client("encode", TEXTS, lang="az").shape == (2, 32)


def test_a_killed_pull_leaves_nothing_half(
    repo: str, server: Server, env: dict[str, str], tmp_path: Path, tiny_hub: Hub
) -> None:
    server.fail("embeddings", "hang")
    words = ("hub", "pull", repo, "--output", tmp_path / "out")
    asked = lambda: any("embeddings" in line for line in server.log())  # noqa: E731
    assert command(*words, kill_when=asked, **env).returncode == -9
    assert not (tmp_path / "out").exists()
    server.fail()
    done = command(*words, **env)
    assert (done.returncode, done.stdout.splitlines()[-1][-10:]) == (0, "en, az, kk")
    assert in_cache(tmp_path, "kk") == listed(tiny_hub, "kk")
    assert files_of(tmp_path / "out") == files_of(tiny_hub.path)


def test_push_and_pull_give_the_same_bytes(
    server: Server, env: dict[str, str], tiny_hub: Hub, tmp_path: Path
) -> None:
    owner = env | {"HF_TOKEN": OWNER}
    name = f"org/bytes{next(_numbers)}"
    words = ("hub", "push", "--hub", tiny_hub.path, "--repo", name, "--private", "--message", "First")
    done = command(*words, **owner)
    assert done.returncode == 0, done.stderr
    assert f"pushed {tiny_hub.path} to {name}: {server.url}/{name}/commit/" in done.stdout
    assert server.commits(name) == ["initial commit", "First"]
    assert any(f"{name}.git/info/lfs/objects/batch" in line for line in server.log())
    reader = env | {"HF_TOKEN": READER}
    assert command("hub", "pull", name, "--output", tmp_path / "out", **reader).returncode == 0
    assert files_of(tmp_path / "out") == files_of(tiny_hub.path)
    assert command("hub", "check", "--hub", tmp_path / "out", **env).returncode == 0
    # What has not changed makes no commit.
    assert command(*words, **owner).returncode == 0
    assert server.commits(name) == ["initial commit", "First"]
    refused = command(*words, **reader)
    assert (refused.returncode, "403" in refused.stderr) == (2, True)
    refused = command(*words, **env)
    assert (refused.returncode, "set HF_TOKEN" in refused.stderr) == (2, True)


def test_some_languages_of_a_branch(
    repo: str, client: Client, server: Server, env: dict[str, str], tiny_hub: Hub, tmp_path: Path
) -> None:
    words = ("hub", "push", "--hub", tiny_hub.path, "--repo", "org/some", "--lang", "aze", "--revision", "v1")
    assert command(*words, **env | {"HF_TOKEN": OWNER}).returncode == 0
    assert client("open_encoder", "org/some", revision="v1") == ["az"]
    with pytest.raises(HubError, match=r"found one without it"):
        client("open_encoder", "org/some")
    assert client("pull", repo, str(tmp_path / "out"), languages=["az"]) == ["az"]
    assert client("pull", repo, str(tmp_path / "out"), languages=["kk"], revision="main") == ["az", "kk"]
    for lang in ("az", "kk"):
        assert files_of(tmp_path / "out" / lang) == files_of(tiny_hub.path / lang)


def test_a_hub_elsewhere_is_called_by_its_id(
    repo: str, client: Client, env: dict[str, str], tmp_path: Path
) -> None:
    client("open_encoder", repo)
    assert client("name_of_system") == f"{repo.removeprefix('org/')}-modular"
    assert command("hub", "list", "--hub", repo, **env).stdout.startswith(f"{repo}: base ")
    with pytest.raises(HubError, match="no modules for ug"):
        client("pull", repo, str(tmp_path / "out"), languages="ug")
    assert client("export", repo, "az", str(tmp_path / "model")) == str(tmp_path / "model")


def test_half_a_character_on_a_card_can_be_pushed(client: Client, hub_copy: Hub, tmp_path: Path) -> None:
    with hub_copy.staging("az") as staging:
        shutil.copytree(hub_copy.layout("az").root, staging, dirs_exist_ok=True)
        hub_copy.publish(staging, replace(hub_copy.card("az"), licenses=["MIT \ud800"]))
    client("push", str(hub_copy.path), "org/half", token=OWNER)
    assert client("pull", "org/half", str(tmp_path / "out")) == ["en", "az", "kk"]


def test_listing_fetches_no_modules(repo: str, server: Server, env: dict[str, str]) -> None:
    listed = json.loads(command("hub", "list", "--hub", repo, "--json", **env).stdout)
    assert [entry["code"] for entry in listed["languages"]] == ["en", "az", "kk"]
    assert listed["languages"][2]["modules"] == ["vocabulary", "LA", "SE", "CLA"]
    assert command("hub", "show", "--hub", repo, "--lang", "kk", **env).returncode == 0
    assert server.fetched() == INDEX
    assert command("hub", "check", "--hub", repo, **env).stdout.endswith("no issues (en, az, kk)\n")


def test_sentence_transformers_opens_an_id(repo: str, client: Client, server: Server, tiny_hub: Hub) -> None:
    client("open_encoder", repo)
    commit = client("facts")[1]
    server.forget()
    # From 6.0 on it wants this for a module of another package.
    trust = {"trust_remote_code": True} if version("sentence_transformers") >= "6" else {}
    for options in ({"revision": commit, **trust}, trust):
        client("open_sentence_transformer", repo, **options)
        found = client("encode", TEXTS)
        np.testing.assert_allclose(found, ModularEncoder(tiny_hub.path).encode(TEXTS), atol=1e-6)
    assert not any(name.startswith(("kk/", "en/")) for name in server.fetched())


CHANGES = {
    "a byte": ("se/adapter_model.safetensors", "expected sha256"),
    "a size": ("se/adapter_config.json", r"expected \d+ bytes, found 3"),
    "code": ("mine.py", r"mine\.py: .*can run code"),
    "a file": ("cla/adapter.safetensors", r"adapter\.safetensors: expected by the card, not found"),
    "a language": (".*", "expected its files, found none; it was removed there"),
    "history": ("*", "at [0-9a-f]{40}: Hugging Face refuses this .*Revision Not Found"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_after_the_opening_is_seen(
    repo: str, client: Client, server: Server, what: str, tiny_hub: Hub, tmp_path: Path
) -> None:
    client("open_encoder", repo)
    path, message = CHANGES[what]
    content: bytes | None = None
    if what == "a byte":
        content = (tiny_hub.layout("az").root / path).read_bytes()
        content = content[:-1] + bytes([content[-1] ^ 1])
    elif what in ("a size", "code"):
        content = b"{ }"
    server.change(repo, path if what == "history" else f"az/{tiny_hub.card('az').version}/{path}", content)
    server.forget()
    with pytest.raises(HubError, match=message):
        client("encode", TEXTS, lang="az")
    assert in_cache(tmp_path, "az") == ["card.json"]
    if what != "a byte":  # which only the bytes tell
        assert server.fetched() == []
    if what != "history":
        assert client("encode", TEXTS, lang="en").shape == (2, 32)


def test_a_card_cannot_have_the_disk_filled(client: Client, server: Server, hub_copy: Hub) -> None:
    client("push", str(hub_copy.path), "org/large", token=OWNER)
    card = json.loads((hub_copy.path / "az" / "card.json").read_text())
    card["files"]["se/adapter_config.json"]["bytes"] = (1 << 24) + 1
    server.change("org/large", "az/card.json", json.dumps(card).encode())
    server.change("org/large", f"az/{card['version']}/se/adapter_config.json", bytes((1 << 24) + 1))
    client("open_encoder", "org/large")
    with pytest.raises(HubError, match="expected at most 16777216 bytes, found 16777217"):
        client("encode", TEXTS, lang="az")
    server.change("org/large", "hub.json", bytes((1 << 24) + 1))
    server.change("org/large", "kk/card.json", b"")


@pytest.mark.parametrize("gone", ["hub.json", "kk/card.json", "se", "az", "."])
def test_files_that_a_cache_lost_are_fetched_again(
    repo: str, client: Client, server: Server, gone: str, tiny_hub: Hub
) -> None:
    client("open_encoder", repo)
    expected = client("encode", TEXTS, lang="az")
    root, commit = client("facts")
    version = tiny_hub.card("az").version
    lost = Path(root) / (f"az/{version}/se/adapter_model.safetensors" if gone == "se" else gone)
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    server.forget()
    assert client("open_encoder", repo, revision=commit) == tiny_hub.languages()
    np.testing.assert_array_equal(client("encode", TEXTS, lang="az"), expected)
    assert server.fetched()
    lost.unlink() if lost.is_file() else shutil.rmtree(lost)
    with pytest.raises(HubError, match="local_files_only is set"):
        client("open_and_encode", repo, TEXTS, lang="az", revision=commit, local_files_only=True)


def test_a_damaged_cache_is_said(repo: str, client: Client) -> None:
    client("open_encoder", repo)
    client("encode", TEXTS, lang="az")
    root, commit = client("facts")
    (file,) = Path(root).glob("az/*/se/adapter_model.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    client("open_encoder", repo, revision=commit)
    with pytest.raises(
        HubError, match=r"(?s)/az: the modules of az cannot.*cache can be deleted: it is fetched again"
    ):
        client("encode", TEXTS, lang="az")


def test_a_commit_is_not_changed_here(repo: str, client: Client) -> None:
    client("open_encoder", repo)
    with pytest.raises(HubError, match=r"found one on Hugging Face; pull it \(modenc hub pull\)"):
        client("change_hub")
    assert pickle.loads(client("pickled")).languages() == ["en", "az", "kk"]


def test_an_encoder_pushes_what_it_uses(
    repo: str, client: Client, server: Server, tiny_hub: Hub, tmp_path: Path
) -> None:
    client("open_encoder", repo)
    name = f"org/again{next(_numbers)}"
    assert f"/{name}/commit/" in client("push_encoder", name, languages=["az"], token=OWNER)
    assert client("pull", name, str(tmp_path / "out")) == ["az"]
    assert files_of(tmp_path / "out" / "az") == files_of(tiny_hub.path / "az")
    client("open_encoder", str(tmp_path / "out"), prompts={"default": "", "query": "", "document": ""})
    client("push_encoder", f"{name}b", token=OWNER)
    client("pull", f"{name}b", str(tmp_path / "b"))
    assert json.loads((tmp_path / "b" / "hub.json").read_text())["prompt"] == ""


def test_a_language_is_replaced_whole(client: Client, server: Server, hub_copy: Hub, tmp_path: Path) -> None:
    name = f"org/whole{next(_numbers)}"
    client("push", str(hub_copy.path), name, token=OWNER)
    with hub_copy.staging("kk") as staging:
        shutil.copytree(hub_copy.layout("kk").root, staging, dirs_exist_ok=True)
        shutil.rmtree(staging / "cla")
        hub_copy.publish(staging, hub_copy.card("kk"))
    hub_copy.remove("az")
    client("push", str(hub_copy.path), name, token=OWNER)
    # az stays, and the old kk/cla is gone.
    assert client("pull", name, str(tmp_path / "out")) == ["en", "az", "kk"]
    assert sorted(files_of(tmp_path / "out" / "kk")) == listed(hub_copy, "kk")
    assert server.commits(name) == ["initial commit", "Add en, az, kk", "Add en, kk"]


def test_a_push_that_would_harm_is_refused(
    client: Client, server: Server, hub_copy: Hub, tmp_path: Path
) -> None:
    name = f"org/kept{next(_numbers)}"
    client("push", str(hub_copy.path), name, token=OWNER)
    before = server.commits(name)
    hub = Hub.create(tmp_path / "other", INFO)
    publish(hub, "kk")
    with pytest.raises(HubError, match=r"is another kind of hub \(base_id: expected .*nothing was uploaded"):
        client("push", str(hub.path), name, token=OWNER)
    with pytest.raises(HubError, match="expected a private repository, found a public one"):
        client("push", str(hub_copy.path), name, token=OWNER, private=True)
    server.fail("/commit/", "412")
    (hub_copy.path / "README.md").write_text("---\nthumbnail: a.png\n---\nMy own words.\n")
    with pytest.raises(HubError, match=r"Hugging Face refuses this .*412"):
        client("push", str(hub_copy.path), name, token=OWNER)
    server.fail()
    (hub_copy.path / "README.md").write_text("---\n: [\n---\n")
    with pytest.raises(HubError, match="expected front matter in YAML"):
        client("push", str(hub_copy.path), name, token=OWNER)
    (hub_copy.layout("az").root / "README.md").write_text("other")
    with pytest.raises(HubError, match=r"README\.md: expected \d+ bytes, found 5"):
        client("push", str(hub_copy.path), name, token=OWNER)
    with pytest.raises(HubError, match="expected the id of a repository"):
        client("push", str(hub_copy.path), "nameless", token=OWNER)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    client("upload", str(tmp_path / "model"), "org/other_model", OWNER)
    with pytest.raises(HubError, match=r"expected a hub or an empty repository, found config\.json"):
        client("push", str(hub.path), "org/other_model", token=OWNER)
    with pytest.raises(HubError, match="expected languages to push, found none"):
        client("push", str(Hub.create(tmp_path / "empty", hub.info).path), name, token=OWNER)
    assert server.commits(name) == before
