"""Bases from strangers: pinned, without pickles, and nothing of theirs is run."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from modenc.base_model import resolve_base
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
