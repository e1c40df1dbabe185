"""Exported models in stock sentence-transformers: the vectors are those of the encoder."""

import json
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tiny_languages
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import sentences
from transformers import AutoModel

import modenc
from modenc import ModularEncoder
from modenc.base_model import resolve_base
from modenc.cli.main import main
from modenc.composition.body import compose
from modenc.composition.modules import to_modules
from modenc.errors import HubError, MissingExtraError, OptionError
from modenc.exporting.export import FORMATS
from modenc.exporting.widening import widen

BACKENDS = {"onnx": "optimum.onnxruntime", "openvino": "optimum.intel.openvino"}
INT8_COSINE = 0.999


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    return ModularEncoder(tiny_hub.path)


def _texts(lang):
    return [*sentences(lang)[::40], "", "query: ", "one two " * 200]


def _odd_texts(lang):
    one, two = sentences(lang)[:2]
    return [
        *(
            unicodedata.normalize("NFD", text)
            for text in ("café à l’été", "형은 새", "Tiếng Việt", "й ё ї", one)
        ),
        f"{one}{' ' * 20_000}{two}",
        f"\u200f {one}\n\n\t{two} \u200e\r\n",
        "inter\u00adnational\u00a0 news\u2028\u3000one\ufeff \u200btwo",
        "\u202bone\u202c two\x00\x1f\x85 three\u2060",
        "می\u200cخواهم क्\u200dष uni\u200bver\u200dsity ❤\ufe0f",
        "one" + "\u0301" * 100 + " two",
        *("   ", "\u00ad", "\u200b\n", " query:  one", "query:"),
    ]


def _opened(folder, to="sentence-transformers"):
    if to in BACKENDS:
        pytest.importorskip(BACKENDS[to], reason=f"the extra {to} is not installed")
    # On processors with bfloat16 OpenVINO would take it by itself, and fail if oneDNN is limited to AVX2.
    options = {"ov_config": {"INFERENCE_PRECISION_HINT": "f32"}} if to == "openvino" else {}
    return SentenceTransformer(str(folder), backend="torch" if to == FORMATS[0] else to, model_kwargs=options)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("lang", ["en", "kk", "az"])
def test_stock_sentence_transformers_gives_the_same_vectors(lang, align, encoder, tmp_path, caplog, recwarn):
    folder = modenc.export(encoder.hub, lang, tmp_path / "model", align=align)
    recwarn.clear()
    with caplog.at_level(logging.WARNING):
        model = _opened(folder)
    # sentence-transformers says once a process that there is a default prompt.
    assert [item.message for item in caplog.records if "Default prompt name" not in item.message] == []
    assert [str(warning.message) for warning in recwarn] == []
    assert model.max_seq_length == encoder.max_seq_length
    assert model.prompts == dict.fromkeys(("default", "query", "document"), "query: ")
    assert model.similarity_fn_name == "cosine"
    texts = _texts(lang)
    expected = encoder.encode(texts, lang=lang, align=align)
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode_query(texts), expected, atol=1e-5)
    bare = encoder.encode(texts[:3], lang=lang, align=align, prompt="")
    np.testing.assert_allclose(model.encode(texts[:3], prompt=""), bare, atol=1e-5)
    if lang != "en" and align:
        other = encoder.encode(texts, lang=lang, align=False)
        assert np.abs(other - expected).max() > 1e-3


@pytest.mark.parametrize("lang", ["en", "kk"])
def test_odd_texts_have_the_same_vectors(lang, encoder, tmp_path):
    model = _opened(modenc.export(encoder.hub, lang, tmp_path / "model"))
    texts = _odd_texts(lang)
    np.testing.assert_allclose(model.encode(texts), encoder.encode(texts, lang=lang), atol=1e-5)
    bare = encoder.encode(texts, lang=lang, prompt="")
    # "query:" alone is taken for the prompt of an empty text.
    np.testing.assert_allclose(model.encode(texts, prompt="")[:-1], bare[:-1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["kk", "az"])
@pytest.mark.parametrize("to", BACKENDS)
def test_backends_give_the_same_vectors(to, lang, encoder, tmp_path):
    pytest.importorskip("openvino" if to == "openvino" else BACKENDS[to], reason="not installed")
    folder = modenc.export(encoder.hub, lang, tmp_path / "model", to=to)
    assert not list(folder.rglob("*.safetensors"))
    model, texts = _opened(folder, to), _texts(lang) + _odd_texts(lang)
    np.testing.assert_allclose(model.encode(texts), encoder.encode(texts, lang=lang), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("to", BACKENDS)
def test_integers_are_smaller_and_near(to, encoder, tmp_path):
    pytest.importorskip("nncf" if to == "openvino" else BACKENDS[to], reason="not installed")
    folder = modenc.export(encoder.hub, "kk", tmp_path / "int8", to=to, int8=True)
    assert "8-bit integers" in (folder / "README.md").read_text()
    model, texts = _opened(folder, to), sentences("kk")[::20]
    found, expected = model.encode(texts), encoder.encode(texts, lang="kk")
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > INT8_COSINE
    assert np.abs(found - expected).max() > 1e-5


@pytest.mark.slow
def test_it_needs_nothing_of_modenc(encoder, tmp_path):
    folder = modenc.export(str(encoder.hub.path), "kaz_Cyrl", tmp_path / "model")
    text = sentences("kk")[0]
    code = (
        "import json, sys; sys.modules['modenc'] = None; import sentence_transformers as st; "
        f"print(json.dumps(st.SentenceTransformer({str(folder)!r}).encode({text!r}).tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), encoder.encode(text, lang="kk"), atol=1e-5)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_xlmr"])
def test_a_parallel_adapter_is_more_neurons(family, tiny_hub, request):
    body = resolve_base(str(request.getfixturevalue(family))).load_body()
    modules = to_modules(tiny_hub.read("az"))
    del modules.parallel_adapters[0]  # a layer that its adapter leaves out
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    model = widen(body, modules, align=True)
    assert type(model) is type(body)
    assert model.config.intermediate_size == tiny_languages.TINY.inner + tiny_languages.TINY.bottleneck
    ids = torch.randint(5, 100, (8, 12), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = compose(body, modules, align=True)(ids).last_hidden_state
        found = model(ids).last_hidden_state
        half = model.to(torch.bfloat16)(ids).last_hidden_state.float()
    torch.testing.assert_close(found.mean(dim=1), expected.mean(dim=1), atol=1e-5, rtol=0)
    # A neuron within 0.001 of the bend of its ReLU is off by 0.17 / 4096 at most, which one token may show.
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert torch.nn.functional.cosine_similarity(half, expected, dim=-1).min() > 0.99
    assert all(torch.equal(tensor, before[name]) for name, tensor in body.state_dict().items())


@pytest.fixture(scope="module")
def tanh_hub(tmp_path_factory, tiny_xlmr):
    """On a base whose activation no stock model can make a ReLU of."""
    folder = tmp_path_factory.mktemp("tanh")
    body = AutoModel.from_pretrained(tiny_xlmr, add_pooling_layer=False)
    body.config.hidden_act = "tanh"
    body.save_pretrained(folder / "base")
    resolve_base(str(tiny_xlmr)).load_tokenizer().save_pretrained(folder / "base")
    return tiny_languages.make_hub(folder / "hub", folder / "base", ("en", "az"))


def test_where_no_stock_model_can_hold_the_adapter_there_is_a_choice(tanh_hub, tmp_path):
    with pytest.raises(OptionError, match=r"found 'tanh', .* onnx or openvino, .* or without alignment"):
        modenc.export(tanh_hub, "az", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    model = _opened(modenc.export(tanh_hub, "az", tmp_path / "unaligned", align=False))
    encoder = ModularEncoder(tanh_hub.path)
    texts = _texts("az")
    expected = encoder.encode(texts, lang="az", align=False)
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-5)


def test_what_cannot_be_exported_is_refused(tiny_hub, tmp_path, monkeypatch):
    with pytest.raises(
        OptionError, match="to: expected sentence-transformers, onnx, openvino, found 'tflite'"
    ):
        modenc.export(tiny_hub, "kk", tmp_path / "model", to="tflite")
    with pytest.raises(OptionError, match="int8: expected the format onnx or openvino, found 'sentence-"):
        modenc.export(tiny_hub, "kk", tmp_path / "model", int8=True)
    with pytest.raises(HubError, match="no modules for de"):
        modenc.export(tiny_hub, "de", tmp_path / "model")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"output: expected a new or empty folder, found .*mine"):
        modenc.export(tiny_hub, "kk", tmp_path / "mine")
    monkeypatch.setattr("modenc.errors.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    with pytest.raises(MissingExtraError, match=r'onnxruntime.* Run: pip install "modenc\[onnx\]"'):
        modenc.export(tiny_hub, "kk", tmp_path / "model", to="onnx")
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    with pytest.raises(MissingExtraError, match=r'openvino.* Run: pip install "modenc\[openvino\]"'):
        modenc.export(tiny_hub, "kk", tmp_path / "model", to="openvino")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_command_writes_a_page_that_says_what_it_is(tiny_hub, tmp_path, capsys):
    words = ["export", "--hub", str(tiny_hub.path), "--lang", "az", "--output", str(tmp_path / "model")]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'model'}\n"
    page = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert page.startswith("---\nlanguage: az\nlibrary_name: sentence-transformers\nlicense: cc0-1.0\n")
    for part in (
        "# Azerbaijani (az) sentence encoder",
        "with the alignment adapter",
        f"Base: `{Path(tiny_hub.info.base_id).name}`",
        "Prompt: `query: `",
        "Pooling: mean; 32 dimensions; texts are cut at 128 tokens",
        "| text | made up | 320 | CC0-1.0 |  |",
    ):
        assert part in page
    assert tiny_hub.info.base_id not in page
    assert main([*words[:-1], str(tmp_path / "unaligned"), "--no-align"]) == 0
    assert "without an alignment adapter" in (tmp_path / "unaligned" / "README.md").read_text()
    assert main(words) == 2
    assert "expected a new or empty folder" in capsys.readouterr().err
