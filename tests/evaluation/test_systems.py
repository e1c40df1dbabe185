"""Third-party models are evaluated without reading their pickles or running their code."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tiny_languages import edit_json

from modenc.base_model import resolve_base, trust
from modenc.errors import BaseModelError
from modenc.evaluation.systems import open_model

TEXTS = ["Good morning", "The teacher reads a new book"]


@pytest.fixture
def model(tiny_xlmr, tmp_path):
    """A folder with a sentence-transformers model: a body, pooling and a dense layer."""
    body = Transformer(str(tiny_xlmr))
    made = SentenceTransformer(modules=[body, Pooling(32), Dense(32, 8)], device="cpu")
    made.save(str(tmp_path / "model"))
    return tmp_path / "model"


def pickled(file):
    torch.save(load_file(file), file.with_name("pytorch_model.bin"))
    file.unlink()


def test_a_model_in_safetensors_is_evaluated(model, opened):
    system = open_model(str(model))
    assert np.allclose(system.encode(TEXTS, "en"), SentenceTransformer(str(model)).encode(TEXTS), atol=1e-6)
    assert not opened


@pytest.mark.parametrize("module", ["", "2_Dense"])
def test_a_model_in_pickles_is_refused(model, opened, module):
    pickled(model / module / "model.safetensors")
    with pytest.raises(BaseModelError, match=r"has no safetensors .* modenc reads no pickles"):
        open_model(str(model))
    assert not opened


@pytest.mark.parametrize("beside", [None, "modenc.composition.st_module.ModularTransformer"])
def test_code_of_a_model_is_never_run(model, tmp_path, beside):
    (model / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Module: pass")
    modules = json.loads((model / "modules.json").read_text())
    modules[1]["type"] = "mine.Module"
    modules[2]["type"] = beside or modules[2]["type"]
    (model / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BaseModelError, match=r"expected modules of sentence-transformers .*'mine.Module'"):
        open_model(str(model))
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Makes a folder what is fetched of any model, and notes which are asked for."""
    asked = []

    def of(folder):
        def snapshot(name, **_):
            asked.append(name)
            return shutil.copytree(folder, tmp_path / "fetched")

        monkeypatch.setattr(trust, "snapshot_download", snapshot)
        return asked

    return of


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("some-model", "sentence-transformers/some-model"),
        ("somebody/some-model", "somebody/some-model"),
    ],
)
def test_a_model_elsewhere_is_named_as_for_sentence_transformers(model, fetched, name, whole):
    asked = fetched(model)
    assert open_model(name).encode(TEXTS, "en").shape == (2, 8)
    assert asked == [whole]


def test_static_embeddings_are_evaluated(tiny_xlmr, tmp_path):
    table = StaticEmbedding(resolve_base(str(tiny_xlmr)).load_tokenizer(), embedding_dim=8)
    SentenceTransformer(modules=[table, Normalize()], device="cpu").save(str(tmp_path / "static"))
    (tmp_path / "static" / "1_Normalize").rmdir()
    assert open_model(str(tmp_path / "static")).encode(TEXTS, "en").shape == (2, 8)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "sentence_bert_config.json"])
def test_a_damaged_model_is_said_clearly(model, file):
    (model / file).write_text("[1]")
    with pytest.raises(BaseModelError, match="expected a sentence-transformers model's folder"):
        open_model(str(model))


def test_a_config_in_the_config_asks_for_no_attention_either(model):
    part = {"_attn_implementation": "somebody/attention"}
    (model / "config.json").write_text(json.dumps({"model_type": "clip", "text_config": part}))
    with pytest.raises(BaseModelError, match="expected attention 'eager' or 'sdpa'"):
        open_model(str(model))


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"transformers_weights": "x.safetensors"}, "expected no transformers_weights"),
        ("sentence_bert_config.json", {"model_args": {"gguf_file": "x"}}, "expected no model_"),
        ("sentence_bert_config.json", {"config_kwargs": {"a": 1}}, "expected no config_"),
    ],
)
def test_files_that_ask_for_more_than_weights_are_refused(model, file, values, message):
    edit_json(model / file, **values)
    with pytest.raises(BaseModelError, match=message):
        open_model(str(model))


@pytest.mark.parametrize("content", ["cut", "{}", "[1]", '[{"type": "x"}]'])
def test_damaged_modules_are_said_clearly(model, content):
    (model / "modules.json").write_text(content)
    with pytest.raises(BaseModelError, match=r"expected modules (with a type and a path|of sentence-)|found"):
        open_model(str(model))


def test_a_model_that_is_not_there_is_said_to_be():
    with pytest.raises(BaseModelError, match="expected a sentence-transformers model's folder, or its name"):
        open_model("no-such/model")
