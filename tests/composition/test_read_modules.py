"""What is read of a language is what was checked, and of one state."""

import itertools
import json
import shutil
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import pytest
import tiny_models
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from modenc import ModularEncoder
from modenc.composition import st_module
from modenc.composition.engine import Engine
from modenc.composition.modules import dequantize_rows, quantize_rows, read_modules
from modenc.composition.st_module import ModularTransformer
from modenc.errors import HubError
from modenc.hub.store import Hub

pytest.importorskip("peft", reason="the training half is not installed")

from modenc.training.vocabulary import save_embeddings

TEXTS = ["Қайырлы таң, достар", "Бүгін ауа райы жақсы", "Кітап оқу пайдалы"]


def with_another_kk(hub, folder):
    """A copy of a hub whose Kazakh has the base's vocabulary, and Azerbaijani adapters."""
    other = Hub.open(shutil.copytree(hub.path, folder))
    with TemporaryDirectory() as temporary:
        shutil.copytree(other.version_folder("az") / "se", f"{temporary}/se")
        other.publish(temporary, other.card("kk"))
    return other


def tokenize(*options):
    """The ids of each text."""
    return [ids for ids, _ in st_module.tokenize(*options)]


def read(hub):
    """Kazakh as its folder holds it, whatever its card says."""
    return read_modules(hub.version_folder("kk"), tiny_models.HIDDEN)


def test_a_tokenizer_names_no_other_file(hub_copy, tmp_path):
    folder = hub_copy.version_folder("kk") / "tokenizer"
    right = read(hub_copy).tokenizer
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text((folder / "tokenizer.json").read_text().replace("▁", "_"))
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_file": str(elsewhere)}))
    found = read(hub_copy).tokenizer
    assert found.backend_tokenizer.to_str() == right.backend_tokenizer.to_str()
    assert found.special_tokens_map == right.special_tokens_map


def test_a_tokenizer_that_gives_up_on_a_text_says_so(hub_copy):
    path = hub_copy.version_folder("kk") / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_id"] = None
    path.write_text(json.dumps(content))
    with pytest.raises(HubError, match=r"expected a readable tokenizer\.json, found: .*unk_id"):
        read(hub_copy)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_file(str(path)))
    with pytest.raises(HubError, match=r"failed on a text \(.*unk_id.*\); install its language again"):
        tokenize(tokenizer, ["☃"], 16)


def rounded(table):
    """What a table in int8 with a scale a row is read as, in NumPy."""
    scales = np.abs(table).max(axis=1, keepdims=True) / np.float32(127)
    return np.round(table / np.where(scales, scales, 1)).astype(np.float32) * scales


def test_rows_as_integers_are_within_half_a_scale():
    table = torch.randn(50, 32) * torch.logspace(-6, 2, 50)[:, None]
    table[3], table[4, 0], table[5] = 0, 100, 1e-45
    rows, scales = quantize_rows(table)
    assert (rows.dtype, scales.dtype, scales.shape) == (torch.int8, torch.float32, (50,))
    assert rows.abs().max() == 127
    again = dequantize_rows(rows, scales)
    assert (again - table)[:5].abs().max(dim=1).values.le(scales[:5] * 0.50001).all()
    assert (again - table)[6:].abs().max(dim=1).values.le(scales[6:] * 0.50001).all()
    assert not again[3].any()
    # Smaller than any scale.
    assert not again[5].any()
    others = [row for row in range(50) if row != 5]
    assert np.array_equal(again[others], rounded(table[others].numpy()))


def test_embeddings_are_read_as_they_were_stored(hub_copy):
    folder = hub_copy.version_folder("kk")
    stored = load_file(folder / "embeddings.safetensors")["embeddings"]
    assert stored.dtype == np.float16
    assert np.array_equal(read(hub_copy).embeddings, stored)
    table = torch.from_numpy(stored).float()
    save_embeddings(table, folder, "float16")
    assert np.array_equal(load_file(folder / "embeddings.safetensors")["embeddings"], stored)
    size = (folder / "embeddings.safetensors").stat().st_size
    save_embeddings(table, folder, "int8")
    modules = read(hub_copy)
    assert modules.embeddings.dtype == torch.int8
    assert np.array_equal(dequantize_rows(modules.embeddings, modules.scales), rounded(table.numpy()))
    # A byte a number and four a row instead of two a number, beside the header.
    assert (folder / "embeddings.safetensors").stat().st_size < size * (0.5 + 2 / table.shape[1]) + 200


@pytest.mark.parametrize("length", [16, 32])
def test_a_tokenizers_own_way_to_cut_texts_is_not_taken(hub_copy, length):
    path = hub_copy.version_folder("kk") / "tokenizer" / "tokenizer.json"
    long = [" ".join(tiny_models.sentences("kk")[:5])]
    right = tokenize(read(hub_copy).tokenizer, long, length)
    own = Tokenizer.from_file(str(path))
    own.enable_truncation(32, stride=29, direction="left")
    own.enable_padding(length=500, direction="left")
    own.save(str(path))
    tokenizer = read(hub_copy).tokenizer
    assert tokenizer.backend_tokenizer.truncation is None
    assert tokenize(tokenizer, long, length) == right
    # Nor one that a training set meanwhile.
    tokenizer.backend_tokenizer.enable_truncation(length, stride=8, direction="left")
    assert tokenize(tokenizer, long, length) == right


def test_all_vectors_of_an_encoder_are_of_one_version_of_a_language(hub_copy, tmp_path, monkeypatch):
    other = with_another_kk(hub_copy, tmp_path / "other")
    encoder = ModularEncoder(hub_copy.path)
    before = encoder.encode(TEXTS, lang="kk")
    replacing = with_change(encoder[0].forward, lambda: hub_copy.install(other.path / "kk"))
    monkeypatch.setattr(encoder[0], "forward", replacing)
    for _ in range(2):
        assert np.allclose(encoder.encode(TEXTS, lang="kk", batch_size=1), before, atol=1e-6)
    after = ModularEncoder(hub_copy.path).encode(TEXTS, lang="kk")
    assert np.allclose(after, ModularEncoder(other.path).encode(TEXTS, lang="kk"), atol=1e-6)
    assert not np.allclose(after, before, atol=1e-3)


def with_change(act, change):
    """``act``, with a change just after its first call."""
    calls = itertools.count()

    def changed(*args, **options):
        result = act(*args, **options)
        if next(calls) == 0:
            change()
        return result

    return changed


def test_a_language_removed_between_batches_is_used_to_the_end(hub_copy, monkeypatch):
    encoder = ModularEncoder(hub_copy.path)
    right = encoder.encode(TEXTS, lang="kk")
    removing = with_change(ModularTransformer.forward, lambda: hub_copy.remove("kk"))
    monkeypatch.setattr(ModularTransformer, "forward", removing)
    assert np.allclose(encoder.encode(TEXTS, lang="kk", batch_size=1), right, atol=1e-5)


def test_a_restart_leaves_a_batch_what_it_has(hub_copy, monkeypatch):
    encoder = ModularEncoder(hub_copy.path)
    right = encoder.encode(TEXTS, lang="kk")
    cache, put = encoder[0].cache, Engine.put

    def restarting(engine, *given):
        language = put(engine, *given)
        Thread(target=cache.restart).start()
        return language

    monkeypatch.setattr(Engine, "put", restarting)
    for _ in range(20):
        assert np.allclose(encoder.encode(TEXTS, lang="kk"), right, atol=1e-5)
