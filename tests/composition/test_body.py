"""Composition equals peft with both LoRAs active after adapters.init, with the parallel adapter active."""

import shutil

import adapters
import pytest
import torch
from adapters import ParBnConfig
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from tiny_models import randomize

from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.errors import HubError
from modenc.training.adapters_io import ALL_LINEAR_LAYERS, ATTENTION_LAYERS
from modenc.training.tokenizers import trim

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "good morning"]


def _reference(base, folder):
    """Write random modules as the libraries write them, and keep the libraries' own model."""
    folder.mkdir()
    tokenizer, ids = trim(base.load_tokenizer(), TEXTS, 60)
    tokenizer.save_pretrained(folder / "tokenizer")
    body = base.load_body()
    table = body.get_input_embeddings().weight.detach()[ids] + 0.01
    save_file({"embeddings": table.contiguous()}, folder / "embeddings.safetensors")
    pad = tokenizer.pad_token_id
    body.set_input_embeddings(torch.nn.Embedding.from_pretrained(table, padding_idx=pad))
    adapters.init(body)
    body.add_adapter("cla", config=ParBnConfig(reduction_factor=4))
    randomize(body, "adapters.cla", seed=1, std=0.05)
    body.save_adapter(str(folder / "cla"), "cla", use_safetensors=True)
    body.set_active_adapters("cla")
    model = get_peft_model(
        body, LoraConfig(r=4, lora_alpha=8, target_modules=ATTENTION_LAYERS), adapter_name="la"
    )
    model.add_adapter(
        "se", LoraConfig(r=2, lora_alpha=6, target_modules=ALL_LINEAR_LAYERS, exclude_modules=".*adapter.*")
    )
    randomize(model, "lora_", seed=2, std=0.05)
    model.save_pretrained(folder, save_embedding_layers=False)
    model.base_model.set_adapter(["la", "se"])
    return model.eval(), tokenizer


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_xlmr"])
def test_composition_equals_peft_and_adapters(family, request, tmp_path):
    base = resolve_base(str(request.getfixturevalue(family)))
    folder = tmp_path / "kk"
    reference, tokenizer = _reference(base, folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)
    modules = read_modules(folder, base.hidden_size)
    body = base.load_body()
    with torch.inference_mode():
        expected = reference(**batch).last_hidden_state
        found = compose(body, modules, align=True)(**batch).last_hidden_state
        reference.base_model.model.set_active_adapters(None)
        expected_unaligned = reference(**batch).last_hidden_state
        unaligned = compose(body, modules, align=False)(**batch).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(unaligned, expected_unaligned, atol=1e-5, rtol=0)
    assert (found - unaligned).abs().max() > 1e-3


def test_composing_leaves_the_base_as_it_was(tiny_bert, tmp_path):
    base = resolve_base(str(tiny_bert))
    folder = tmp_path / "kk"
    _reference(base, folder)
    body = base.load_body()
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    composed = compose(body, read_modules(folder, base.hidden_size), align=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in body.state_dict().items())
    shared = composed.encoder.layer[0].attention.output.LayerNorm.weight
    assert shared.data_ptr() == body.encoder.layer[0].attention.output.LayerNorm.weight.data_ptr()


def test_modules_of_another_base_are_refused(tiny_bert, tmp_path):
    base = resolve_base(str(tiny_bert))
    folder = tmp_path / "kk"
    _reference(base, folder)
    shutil.rmtree(folder / "se")
    path = folder / "la" / "adapter_model.safetensors"
    name = "base_model.model.encoder.layer.0.attention.self.query"
    hidden = base.hidden_size
    weights = {f"{name}.lora_A.weight": torch.ones(4, hidden), f"{name}.lora_B.weight": torch.ones(7, 4)}
    save_file(weights, path)
    with pytest.raises(HubError, match="made for another base"):
        compose(base.load_body(), read_modules(folder, base.hidden_size), align=True)
