"""Composition equals peft with both LoRAs active after adapters.init, with the parallel adapter active."""

import json
import shutil

import adapters
import pytest
import torch
from adapters import ParBnConfig
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import concatenate, read_lora, read_modules
from modenc.errors import HubError
from modenc.hub.layout import LanguageLayout
from modenc.training.adapters_io import ALL_LINEAR_LAYERS, ATTENTION_LAYERS
from modenc.training.tokenizers import trim

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "good morning"]


def _randomize(model, fragment, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if fragment in name:
                parameter.normal_(0, 0.05)


def _reference(base, layout):
    """Write random modules as the libraries write them, and keep the libraries' own model."""
    tokenizer, ids = trim(base.load_tokenizer(), TEXTS, 60)
    tokenizer.save_pretrained(layout.tokenizer)
    body = base.load_body()
    table = body.get_input_embeddings().weight.detach()[ids] + 0.01
    save_file({"embeddings": table.contiguous()}, layout.embeddings)
    pad = tokenizer.pad_token_id
    body.set_input_embeddings(torch.nn.Embedding.from_pretrained(table, padding_idx=pad))
    adapters.init(body)
    body.add_adapter("cla", config=ParBnConfig(reduction_factor=4))
    _randomize(body, "adapters.cla", 1)
    body.save_adapter(str(layout.cla), "cla", use_safetensors=True)
    body.set_active_adapters("cla")
    model = get_peft_model(
        body, LoraConfig(r=4, lora_alpha=8, target_modules=ATTENTION_LAYERS), adapter_name="la"
    )
    model.add_adapter(
        "se", LoraConfig(r=2, lora_alpha=6, target_modules=ALL_LINEAR_LAYERS, exclude_modules=".*adapter.*")
    )
    _randomize(model, "lora_", 2)
    model.save_pretrained(layout.root, save_embedding_layers=False)
    model.base_model.set_adapter(["la", "se"])
    return model.eval(), tokenizer


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_xlmr"])
def test_composition_equals_peft_and_adapters(family, request, tmp_path):
    base = resolve_base(str(request.getfixturevalue(family)))
    layout = LanguageLayout(tmp_path / "kk")
    layout.root.mkdir()
    reference, tokenizer = _reference(base, layout)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)
    modules = read_modules(layout, base.hidden_size)
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
    layout = LanguageLayout(tmp_path / "kk")
    layout.root.mkdir()
    _reference(base, layout)
    body = base.load_body()
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    composed = compose(body, read_modules(layout, base.hidden_size), align=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in body.state_dict().items())
    shared = composed.encoder.layer[0].attention.output.LayerNorm.weight
    assert shared.data_ptr() == body.encoder.layer[0].attention.output.LayerNorm.weight.data_ptr()


def test_concatenating_one_adapter_is_that_adapter(tiny_bert, tmp_path):
    base = resolve_base(str(tiny_bert))
    layout = LanguageLayout(tmp_path / "kk")
    layout.root.mkdir()
    _reference(base, layout)
    adapter = read_lora(layout.la, base.hidden_size)
    assert all(torch.equal(concatenate(adapter)[name].b, change.b) for name, change in adapter.items())


def test_modules_of_another_base_are_refused(tiny_bert, tmp_path):
    base = resolve_base(str(tiny_bert))
    layout = LanguageLayout(tmp_path / "kk")
    layout.root.mkdir()
    _reference(base, layout)
    shutil.rmtree(layout.se)
    path = layout.la / "adapter_model.safetensors"
    name = "base_model.model.encoder.layer.0.attention.self.query"
    hidden = base.hidden_size
    weights = {f"{name}.lora_A.weight": torch.ones(4, hidden), f"{name}.lora_B.weight": torch.ones(7, 4)}
    save_file(weights, path)
    with pytest.raises(HubError, match="made for another base"):
        compose(base.load_body(), read_modules(layout, base.hidden_size), align=True)


def test_a_lora_that_is_not_plain_is_refused(tiny_bert, tmp_path):
    base = resolve_base(str(tiny_bert))
    layout = LanguageLayout(tmp_path / "kk")
    layout.root.mkdir()
    _reference(base, layout)
    config = layout.la / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "use_dora": True}))
    with pytest.raises(HubError, match="expected a plain peft LoRA"):
        read_modules(layout, base.hidden_size)
