"""What is read of a language is what was checked, and of one state."""

import json
import shutil

import pytest

from modenc import ModularEncoder
from modenc.composition.modules import load_tokenizer
from modenc.errors import HubError
from modenc.hub.store import Hub


def test_a_tokenizer_names_no_other_file(hub_copy, tmp_path):
    folder = hub_copy.path / "kk" / "tokenizer"
    right = load_tokenizer(folder)
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text((folder / "tokenizer.json").read_text().replace("▁", "_"))
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_file": str(elsewhere)}))
    found = load_tokenizer(folder)
    assert found.backend_tokenizer.to_str() == right.backend_tokenizer.to_str()
    assert found.special_tokens_map == right.special_tokens_map


def test_a_language_replaced_while_it_is_read_is_read_again(hub_copy, tmp_path, monkeypatch):
    from modenc.composition import residency

    other = Hub.open(shutil.copytree(hub_copy.path, tmp_path / "other"))
    with other.staging("kk") as staging:
        shutil.copytree(other.path / "az" / "se", staging / "se")
        other.publish(staging, other.card("kk"))
    read, states = residency.read_modules, []

    def replaced_after(layout):
        modules = read(layout)
        if not states:
            hub_copy.install(other.path / "kk")
        states.append(modules)
        return modules

    monkeypatch.setattr(residency, "read_modules", replaced_after)
    encoder = ModularEncoder(hub_copy.path)
    encoder.load("kk")
    assert [modules.embeddings is None for modules in states] == [False, True]


def test_a_language_removed_while_it_is_read_is_missed_clearly(hub_copy, monkeypatch):
    from modenc.composition import residency

    def removed_before(layout):
        shutil.rmtree(layout.root)
        raise FileNotFoundError(layout.root)

    monkeypatch.setattr(residency, "read_modules", removed_before)
    with pytest.raises(HubError, match="no modules for kk"):
        ModularEncoder(hub_copy.path).load("kk")
