"""Bases from strangers: pinned, without pickles, and nothing of theirs is run."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from modenc.base_model import resolve, resolve_base
from modenc.composition import st_module
from modenc.composition.st_module import ModularTransformer
from modenc.errors import BaseModelError, HubError


def test_a_revision_pins_a_base():
    base = resolve_base("FacebookAI/xlm-roberta-base@e73636d4f797dec63c3081bb6ed5c7b0bb3f2089")
    assert base.location == "FacebookAI/xlm-roberta-base"
    assert base.revision == "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089"
    assert resolve_base("FacebookAI/xlm-roberta-base").revision is None


def test_a_folder_may_have_an_at_sign_in_its_name(tiny_xlmr, tmp_path):
    folder = tmp_path / "mine@home"
    shutil.copytree(tiny_xlmr, folder)
    assert resolve_base(str(folder)).location == str(folder)


def test_code_beside_a_base_is_never_run(tmp_path):
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(BaseModelError, match=r"modenc never runs \(trust_remote_code is off\)"):
        resolve_base(str(tmp_path)).load_body()
    assert not (tmp_path / "ran").exists()


def test_no_loader_is_left_to_ask_whether_code_may_run(tiny_xlmr, monkeypatch):
    asked = []
    for kind in (resolve.AutoConfig, resolve.AutoModel, resolve.AutoTokenizer):
        made = kind.from_pretrained

        def noted(*args, made=made, **options):
            asked.append(options["trust_remote_code"])
            return made(*args, **options)

        monkeypatch.setattr(kind, "from_pretrained", noted)
    base = resolve_base(str(tiny_xlmr))
    base.load_body()
    base.load_tokenizer()
    assert len(asked) >= 3
    assert not any(asked)


def test_a_peft_folder_is_no_base(tiny_xlmr, tmp_path):
    shutil.copytree(tiny_xlmr, tmp_path / "base")
    (tmp_path / "base" / "adapter_config.json").write_text("{}")
    with pytest.raises(BaseModelError, match="is a peft adapter"):
        resolve_base(str(tmp_path / "base")).load_body()


def test_a_peft_adapter_elsewhere_is_no_base(monkeypatch):
    asked = []

    def found(*where, **at):
        asked.append((where, at))
        return "adapter_config.json"

    monkeypatch.setattr(resolve, "find_adapter_config_file", found)
    monkeypatch.setattr(resolve.BaseModel, "_config", lambda self: None)
    with pytest.raises(BaseModelError, match="is a peft adapter"):
        resolve_base("somebody/adapter@0123").load_body()
    assert asked == [(("somebody/adapter",), {"revision": "0123"})]


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", "[]"), ("model.safetensors", "cut"), ("tokenizer.json", "{}")],
)
def test_a_damaged_base_is_said_clearly(tiny_xlmr, tmp_path, name, content):
    folder = shutil.copytree(tiny_xlmr, tmp_path / "base")
    (folder / name).write_text(content)
    base = resolve_base(str(folder))
    with pytest.raises(BaseModelError, match=r"cannot be loaded|has no fast tokenizer"):
        base.load_tokenizer() if name == "tokenizer.json" else base.load_body()


def test_pins_may_have_slashes_and_are_not_empty():
    assert resolve_base("org/model@refs/pr/3").revision == "refs/pr/3"
    with pytest.raises(BaseModelError, match="expected a revision after the @"):
        resolve_base("org/model@")


def test_a_hub_elsewhere_comes_as_plain_files(tiny_hub, tmp_path, monkeypatch):
    commit = "0123456789" * 4

    def downloaded(name, local_dir, revision):
        assert (name, revision) == ("somebody/hub", commit)
        return shutil.copytree(tiny_hub.path, local_dir, dirs_exist_ok=True)

    monkeypatch.setattr(st_module, "snapshot_download", downloaded)
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path))
    module = ModularTransformer.load("somebody/hub", revision=commit)
    assert module.hub.languages() == tiny_hub.languages()


def test_a_hub_that_cannot_be_had_is_said_clearly():
    with pytest.raises(HubError, match="a hub on Hugging Face that this machine can reach"):
        ModularTransformer.load("somebody/hub", revision="0" * 40)


def test_pickled_weights_are_refused(tiny_xlmr, tmp_path):
    folder = tmp_path / "base"
    shutil.copytree(tiny_xlmr, folder)
    (file,) = folder.glob("*.safetensors")
    torch.save(load_file(file), folder / "pytorch_model.bin")
    file.unlink()
    with pytest.raises(BaseModelError, match=r"has no safetensors .* modenc reads no pickles"):
        resolve_base(str(folder)).load_body()


@pytest.mark.parametrize("revision", [{}, {"revision": "main"}])
def test_a_hub_elsewhere_is_pinned_to_a_commit(revision):
    with pytest.raises(HubError, match=r"expected revision= with a commit .* what a branch names may change"):
        ModularTransformer.load("somebody/hub", **revision)
