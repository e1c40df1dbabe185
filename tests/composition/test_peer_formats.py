"""A language's adapters open in peft and in adapters; what these wrote becomes a language."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_languages import edit_json
from tiny_models import randomize, sentences
from transformers import AutoModel, AutoModelForMaskedLM

from modenc import ModularEncoder
from modenc.base_model import resolve_base
from modenc.cli.main import main
from modenc.composition.body import compose
from modenc.composition.importing import import_language
from modenc.composition.modules import read_modules, to_modules
from modenc.errors import HubError, LanguageError, OptionError

adapters = pytest.importorskip("adapters", reason="the training half is not installed")
peft = pytest.importorskip("peft", reason="the training half is not installed")

TEXTS = sentences("az")[::40]


def _lora(base, folder, around=AutoModel, **settings):
    """Save a random LoRA as peft does; gives the model."""
    settings = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "value"], **settings}
    model = peft.get_peft_model(around.from_pretrained(base), peft.LoraConfig(**settings))
    randomize(model, "lora_", 1)
    model.save_pretrained(folder)
    return model.eval()


def _parallel(base, folder, **settings):
    """Save a random parallel adapter as adapters does; gives the model."""
    body = AutoModel.from_pretrained(base)
    adapters.init(body)
    config = adapters.ParBnConfig(**{"reduction_factor": 4, **settings})
    body.add_adapter("theirs", config=config, set_active=True)
    randomize(body, "adapters.theirs", 2)
    body.save_adapter(str(folder), "theirs", use_safetensors=True)
    return body.eval()


def _vectors(model, base, prompt="query: "):
    """Mean-pooled, as ``encode`` gives them."""
    tokenizer = resolve_base(str(base)).load_tokenizer()
    batch = tokenizer([prompt + text for text in TEXTS], padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.inference_mode():
        tokens = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return ((tokens * mask).sum(1) / mask.sum(1)).numpy()


def _composed(hub, base, lang, part):
    """With one adapter of a language alone."""
    modules = to_modules(hub.read(lang))
    size = hub.info.hidden_size
    lora = {} if part == "cla" else read_modules(hub.version_folder(lang), size, [part]).lora
    modules = replace(
        modules,
        tokenizer=None,
        embeddings=None,
        lora=lora,
        parallel_adapters=modules.parallel_adapters if part == "cla" else {},
    )
    return _vectors(compose(resolve_base(str(base)).load_body(), modules, align=True), base)


@pytest.mark.parametrize("part", ["la", "se"])
def test_la_and_se_open_in_plain_peft(part, tiny_hub, tiny_xlmr):
    folder = tiny_hub.version_folder("az") / part
    model = peft.PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_xlmr), folder).eval()
    expected = _composed(tiny_hub, tiny_xlmr, "az", part)
    np.testing.assert_allclose(_vectors(model, tiny_xlmr), expected, atol=1e-5)
    assert np.abs(_vectors(AutoModel.from_pretrained(tiny_xlmr).eval(), tiny_xlmr) - expected).max() > 1e-2


def test_cla_opens_in_plain_adapters(tiny_hub, tiny_xlmr):
    model = AutoModel.from_pretrained(tiny_xlmr)
    adapters.init(model)
    model.load_adapter(str(tiny_hub.version_folder("az") / "cla"), set_active=True, use_safetensors=True)
    expected = _composed(tiny_hub, tiny_xlmr, "az", "cla")
    np.testing.assert_allclose(_vectors(model.eval(), tiny_xlmr), expected, atol=1e-5)
    assert np.abs(_vectors(AutoModel.from_pretrained(tiny_xlmr).eval(), tiny_xlmr) - expected).max() > 1e-2


KINDS = {
    "plain": {},
    "on a model with a head": {"around": AutoModelForMaskedLM},
    "with a pooler": {"target_modules": ["query", "dense"]},
    "rank-stabilized": {"use_rslora": True},
    "ranks by layer": {"rank_pattern": {"value": 2}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lora_of_peft_becomes_a_language(kind, hub_copy, tiny_xlmr, tmp_path):
    model = _lora(tiny_xlmr, tmp_path / "lora", **KINDS[kind])
    import_language(hub_copy, "swh_Latn", se=tmp_path / "lora", license="MIT")
    inner = model.base_model.model
    expected = _vectors(getattr(inner, "roberta", model), tiny_xlmr)
    found = ModularEncoder(hub_copy.path).encode(TEXTS, lang="sw")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert hub_copy.languages() == ["en", "az", "kk", "sw"]
    again = peft.PeftModel.from_pretrained(
        AutoModel.from_pretrained(tiny_xlmr), hub_copy.version_folder("sw") / "se"
    )
    np.testing.assert_allclose(_vectors(again.eval(), tiny_xlmr), expected, atol=1e-5)


def test_all_three_adapters_and_the_card(hub_copy, tiny_xlmr, tmp_path, capsys):
    _lora(tiny_xlmr, tmp_path / "my_la")
    _lora(tiny_xlmr, tmp_path / "my_se", r=2, target_modules=["query", "key"])
    _parallel(tiny_xlmr, tmp_path / "my_cla")
    folders = [word for part in ("la", "se", "cla") for word in (f"--{part}", str(tmp_path / f"my_{part}"))]
    words = ["--hub", str(hub_copy.path), "--lang", "sw"]
    source = ["--license", "CC-BY-4.0", "--source", "https://example.org/swahili"]
    assert main(["hub", "import", *words, *folders, *source]) == 0
    assert capsys.readouterr().out == f"imported Swahili (sw) into {hub_copy.path}: 7 files\n"
    body = AutoModel.from_pretrained(tiny_xlmr)
    adapters.init(body)
    body.load_adapter(str(tmp_path / "my_cla"), set_active=True, use_safetensors=True)
    model = peft.PeftModel.from_pretrained(body, tmp_path / "my_la", adapter_name="la")
    model.load_adapter(tmp_path / "my_se", adapter_name="se")
    model.base_model.set_adapter(["la", "se"])
    found = ModularEncoder(hub_copy.path).encode(TEXTS, lang="sw")
    np.testing.assert_allclose(found, _vectors(model.eval(), tiny_xlmr), atol=1e-5)
    card = hub_copy.card("sw")
    assert card.licenses == ["CC-BY-4.0"]
    assert [entry["source"] for entry in card.data] == ["https://example.org/swahili"]
    assert list(card.stages) == ["language_adaptation", "sentence_encoding", "alignment"]
    assert card.stages["alignment"]["imported from"] == "https://example.org/swahili"
    assert card.versions["peft"] == peft.__version__
    assert card.versions["adapters"] == adapters.__version__
    readme = (hub_copy.version_folder("sw") / "README.md").read_text()
    assert f"- Trained by others, imported on {card.created}" in readme
    assert main(["hub", "check", *words]) == 0
    assert main(["hub", "show", *words]) == 0
    assert re.search(r"imported +20.*, trained by others", capsys.readouterr().out)


def test_bfloat16_becomes_float32_and_the_source_the_folders_names(hub_copy, tiny_xlmr, tmp_path):
    _lora(tiny_xlmr, tmp_path / "lora")
    file = tmp_path / "lora" / "adapter_model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(file).items()}, file)
    card = import_language(hub_copy, "sw", se=tmp_path / "lora", license="MIT")
    weights = load_file(hub_copy.version_folder("sw") / "se" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert all(torch.equal(tensor, load_file(file)[name].float()) for name, tensor in weights.items())
    assert card.data[0]["source"] == "lora (se)"


@pytest.mark.parametrize(("dtype", "bits"), [("F8_E8M0", 8), ("F6_E2M3", 6), ("F4", 4), ("C64", 64)])
def test_weights_that_float32_does_not_hold_are_refused(dtype, bits, hub_copy, theirs):
    file = theirs / "lora" / "adapter_model.safetensors"
    header = {"x": {"dtype": dtype, "shape": [4, 8], "data_offsets": [0, 4 * bits]}}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4 * bits))
    _refused(hub_copy, f"weights in F16 or BF16 or F32 or F64, found {dtype}; modenc", se=theirs / "lora")


LORA_ISSUES = [
    ("use_dora", True, "expected a plain peft LoRA .* found {'use_dora': True}"),
    ("bias", "all", "'bias': 'all'"),
    ("lora_bias", True, "'lora_bias': True"),
    ("init_lora_weights", "pissa", "'init_lora_weights': 'pissa'"),
    ("peft_type", "IA3", "found {'peft_type': 'IA3'}"),
    ("alpha_pattern", {"query": 32}, "alpha_pattern"),
    ("modules_to_save", ["classifier"], "modules_to_save"),
    ("r", 5, "expected rank 5"),
    ("base_model_name_or_path", "someone/another-base", "'someone/another-base'; add --force"),
]


@pytest.fixture(scope="module")
def made(tiny_xlmr, tmp_path_factory):
    """A folder with ``lora`` and ``parallel``; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    _lora(tiny_xlmr, folder / "lora")
    _parallel(tiny_xlmr, folder / "parallel")
    return folder


@pytest.fixture
def theirs(made, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(made, tmp_path / "theirs")


def _refused(hub, match, **given):
    before = sorted(path.name for path in hub.path.iterdir())
    with pytest.raises(HubError, match=match):
        import_language(hub, "sw", license="MIT", **given)
    assert sorted(path.name for path in hub.path.iterdir()) == before


@pytest.mark.parametrize(("key", "value", "match"), LORA_ISSUES)
def test_a_lora_that_cannot_be_composed_is_refused(key, value, match, hub_copy, theirs):
    edit_json(theirs / "lora" / "adapter_config.json", **{key: value})
    _refused(hub_copy, match, se=theirs / "lora")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"non_linearity": "gelu_new"}, "expected a parallel adapter with .* found .*'gelu_new'"),
        ({"mh_adapter": True}, "found {'mh_adapter': True}"),
        ({"scaling": "learned"}, "expected a number up to 1000 for scaling .* found 'learned'"),
    ],
    ids=lambda part: "" if isinstance(part, str) else next(iter(part)),
)
def test_another_kind_of_adapter_is_refused(change, match, hub_copy, theirs):
    config = json.loads((theirs / "parallel" / "adapter_config.json").read_text())["config"]
    edit_json(theirs / "parallel" / "adapter_config.json", config=config | change)
    _refused(hub_copy, match, se=theirs / "lora", cla=theirs / "parallel")


def test_adapters_of_other_shapes_layers_and_formats_are_refused(hub_copy, theirs, tiny_xlmr):
    file = theirs / "lora" / "adapter_model.safetensors"
    tensors = load_file(file)
    save_file({name: torch.zeros(3, *tensor.shape[1:]) for name, tensor in tensors.items()}, file)
    _refused(hub_copy, "expected rank 4", se=theirs / "lora")
    save_file({name.replace("layer.1", "layer.7"): tensor for name, tensor in tensors.items()}, file)
    _refused(hub_copy, r"an adapter for the layer 'encoder.layer.7.attention.self.", se=theirs / "lora")
    file.write_bytes(file.read_bytes()[:-5])
    _refused(
        hub_copy, "modenc cannot compute with this adapter, and the hub is as it was", se=theirs / "lora"
    )
    file.rename(file.with_name("adapter_model.bin"))
    _refused(
        hub_copy, r"found .*adapter_model.bin.* reads no pickles: .*model.save_pretrained", se=theirs / "lora"
    )
    _refused(hub_copy, "found no such folder", se=theirs / "nothing")
    assert main(["hub", "check", "--hub", str(hub_copy.path)]) == 0


def test_a_base_may_be_named_otherwise(hub_copy, theirs, caplog):
    config = theirs / "lora" / "adapter_config.json"
    edit_json(config, base_model_name_or_path="/home/her/model")
    _refused(
        hub_copy, "expected an adapter for .*tiny_xlmr, found one for '/home/her/model'", se=theirs / "lora"
    )
    words = ["--hub", str(hub_copy.path), "--lang", "sw", "--se", str(theirs / "lora"), "--license", "MIT"]
    assert main(["hub", "import", *words]) == 2
    assert main(["hub", "import", *words, "--force"]) == 0
    assert hub_copy.card("sw").stages["sentence_encoding"]["base"] == "/home/her/model"
    edit_json(config, base_model_name_or_path=None)
    _refused(hub_copy, "found one that names no base", se=theirs / "lora")


def test_a_license_and_a_language_are_needed(hub_copy, theirs):
    with pytest.raises(OptionError, match="license is required"):
        import_language(hub_copy, "sw", se=theirs / "lora", license=" ")
    with pytest.raises(LanguageError):
        import_language(hub_copy, "nothing", se=theirs / "lora", license="MIT")
