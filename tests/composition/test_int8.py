"""A language in 8-bit integers: near what it is in float32, whatever it is mixed with."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import openvino
import pytest
import torch
from tokenizers import Tokenizer

from modenc import ModularEncoder, extras
from modenc.base_model import resolve_base
from modenc.composition import int8
from modenc.composition.int8 import Int8Engine, _frequencies, _sample_texts, int8_file
from modenc.composition.modules import to_modules
from modenc.errors import BaseModelError, MissingExtraError

pytestmark = pytest.mark.slow

TEXTS = ["Good morning to all of you", "Қайырлы таң, достар", "Sabahınız xeyir", "Good night", "Жақсы"]
CODES = ["en", "kk", "az", "en", "kk"]


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    return ModularEncoder(tiny_hub.path, compute="int8")


@pytest.mark.parametrize("align", [True, False])
def test_integers_are_near_float32(encoder, tiny_hub, align):
    options = {"lang": CODES, "align": align, "normalize_embeddings": True}
    right = ModularEncoder(tiny_hub.path).encode(TEXTS, **options)
    found = encoder.encode(TEXTS, **options)
    assert found.dtype == np.float32
    assert (found * right).sum(axis=1).min() > 0.99
    assert np.abs(found - right).max() > 1e-6


@pytest.fixture(scope="module")
def seven_bits(tiny_hub):
    """An encoder with Kazakh's copies as they are made on processors without VNNI."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "products_overflow", lambda: True)
        encoder = ModularEncoder(tiny_hub.path, compute="int8")
        for align in (True, False):
            encoder.encode(TEXTS, lang="kk", align=align)
    return encoder


@pytest.mark.parametrize("align", [True, False])
def test_seven_bit_weights_are_near_float32(seven_bits, tiny_hub, align):
    options = {"lang": "kk", "align": align, "normalize_embeddings": True}
    right = ModularEncoder(tiny_hub.path).encode(TEXTS, **options)
    assert (seven_bits.encode(TEXTS, **options) * right).sum(axis=1).min() > 0.99


def test_copies_for_processors_that_overflow_are_others(tiny_xlmr):
    base = resolve_base(str(tiny_xlmr))
    files = []
    for overflow in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(int8, "products_overflow", lambda overflow=overflow: overflow)
            files.append(int8_file(base.load_body().eval(), base.load_tokenizer(), "base"))
    most = [_largest_weight(file) for file in files]
    assert most == [64, 127]


def _largest_weight(file):
    constants = (op for op in openvino.Core().read_model(file).get_ops() if op.get_type_name() == "Constant")
    return max(np.abs(op.data.astype(int)).max() for op in constants if op.data.dtype == np.int8)


def test_a_processor_without_vnni(seven_bits, tiny_hub):
    """The path that a processor with AVX2 alone takes, on any: sums of bytes overflow in it."""
    result = _limited_to_avx2(
        f"""
import json, torch
from modenc import ModularEncoder
from modenc.composition import int8
from modenc.composition.kernels import has_bf16

int8._quantized = None
options = {{"lang": "kk", "normalize_embeddings": True}}
right = ModularEncoder({str(tiny_hub.path)!r}).encode({TEXTS!r}, **options)
found = ModularEncoder({str(tiny_hub.path)!r}, compute="int8").encode({TEXTS!r}, **options)
bf16 = has_bf16(torch.device("cpu"))
print(json.dumps([int8.products_overflow(), bf16, float((found * right).sum(axis=1).min())]))
"""
    )
    overflow, bf16, cosine = json.loads(result)
    assert overflow
    assert not bf16
    assert cosine > 0.99


def _limited_to_avx2(program):
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | limits, capture_output=True, text=True, check=True
    ).stdout


def test_mixture_and_batch_size_change_nothing(encoder):
    together = encoder.encode([*TEXTS, "no modules"], lang=[*CODES, None], normalize_embeddings=True)
    for row, code in enumerate([*CODES, None]):
        alone = encoder.encode([[*TEXTS, "no modules"][row]], lang=[code], normalize_embeddings=True)
        assert (alone[0] * together[row]).sum() > 0.9999


def test_a_copy_is_made_once(encoder, tiny_hub, monkeypatch):
    first = encoder.encode(TEXTS, lang=CODES)
    monkeypatch.setattr(int8, "_quantized", None)
    again = ModularEncoder(tiny_hub.path, compute="int8").encode(TEXTS, lang=CODES)
    assert np.array_equal(first, again)


def test_copies_of_other_modules_and_other_packages_are_others(tiny_hub, tiny_xlmr, monkeypatch):
    base = resolve_base(str(tiny_xlmr))
    body, tokenizer = base.load_body().eval(), base.load_tokenizer()
    files = [int8_file(body, tokenizer, "base")]
    monkeypatch.setattr(int8, "version", lambda package: "0")
    files.append(int8_file(body, tokenizer, "base"))
    with torch.no_grad():
        body.encoder.layer[1].output.dense.bias += 0.5
    files.append(int8_file(body, tokenizer, "base"))
    assert len(set(files)) == 3


def test_making_a_copy_is_reproducible(encoder, tiny_hub, tmp_path, monkeypatch):
    first = encoder.encode(TEXTS, lang=CODES)
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path))
    again = ModularEncoder(tiny_hub.path, compute="int8").encode(TEXTS, lang=CODES)
    assert len(list(tmp_path.glob("int8/*/model.bin"))) == len(set(CODES))
    assert np.array_equal(first, again)


def test_second_products_stay_in_floating_point(tiny_xlmr):
    base = resolve_base(str(tiny_xlmr))
    file = int8_file(base.load_body().eval(), base.load_tokenizer(), "base")
    products = [op for op in openvino.Core().read_model(file).get_ops() if op.get_type_name() == "MatMul"]
    floating = {
        op.get_friendly_name()
        for op in products
        if not any(
            port.get_source_output().get_node().get_type_name() == "FakeQuantize" for port in op.inputs()
        )
    }
    wanted = [name for op in products if ".output.dense" in (name := op.get_friendly_name())]
    assert floating == {name for name in wanted if "attention" not in name}
    assert len(floating) == 2


def test_texts_are_drawn_as_often_as_the_vocabulary_says(tiny_xlmr, tiny_bert):
    for folder in (tiny_xlmr, tiny_bert):
        tokenizer = resolve_base(str(folder)).load_tokenizer()
        frequencies = _frequencies(tokenizer)
        assert frequencies.sum() == pytest.approx(1)
        assert not frequencies[tokenizer.all_special_ids].any()
        texts = [text for batch in _sample_texts(tokenizer) for text in batch]
        assert texts == [text for batch in _sample_texts(tokenizer) for text in batch]
        assert len(set(texts)) > 300


def test_texts_are_drawn_whatever_the_vocabulary_says(tiny_xlmr):
    tokenizer = resolve_base(str(tiny_xlmr)).load_tokenizer()
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    for row in content["model"]["vocab"]:
        row[1] = -1e6 if row[0] != "▁a" else 1e6
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    assert np.isfinite(_frequencies(tokenizer)).all()
    assert _frequencies(tokenizer).sum() == pytest.approx(1)


def test_memory_is_counted_and_given_back(encoder, tiny_hub, tiny_xlmr):
    base = resolve_base(str(tiny_xlmr))
    engine = Int8Engine(base.load_body().eval(), base.load_tokenizer)
    assert engine.nbytes == 0
    modules = to_modules(tiny_hub.read("kk"))
    engine.put(modules)
    assert engine.nbytes == engine.cost(modules) == modules.nbytes
    ids = torch.tensor([[5, 6, 7], [8, 9, 9]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    first = engine.run(ids, mask, ["kk", "kk"], align=True)
    assert not first[1, 2].any()
    assert first[1, 1].any()
    with_copy = engine.nbytes
    assert with_copy > modules.nbytes
    engine.shrink(1)
    assert engine.nbytes == modules.nbytes
    assert torch.equal(engine.run(ids, mask, ["kk", "kk"], align=True), first)
    engine.remove("kk")
    assert engine.nbytes == 0


def test_only_on_a_cpu(tiny_xlmr):
    base = resolve_base(str(tiny_xlmr))
    with pytest.raises(BaseModelError, match="compute='int8': expected the encoder on a CPU, found meta"):
        Int8Engine(base.load_body().to("meta"), base.load_tokenizer)


def test_without_the_packages(tiny_hub, monkeypatch):
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "openvino" else object())
    with pytest.raises(MissingExtraError, match=r'openvino not installed.*pip install "modenc\[int8\]"'):
        ModularEncoder(tiny_hub.path, compute="int8")


def test_nobody_is_told_of_its_use(encoder, tiny_hub):
    program = (
        "import sys; from modenc import ModularEncoder; "
        f"ModularEncoder({str(tiny_hub.path)!r}, compute='int8').encode('Good morning', lang='en'); "
        "print('openvino' in sys.modules, sys.modules['openvino_telemetry'])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "True None\n"


def test_making_a_model_and_loading_a_language_do_not_wait_for_each_other(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path, compute="int8")
    making, composed = threading.Event(), int8.compose

    def slowly(*args, **options):
        making.set()
        time.sleep(0.5)
        return composed(*args, **options)

    def load():
        making.wait(60)
        encoder.load("kk")

    monkeypatch.setattr(int8, "compose", slowly)
    # Azerbaijani keeps the base's vocabulary, so that the base's tokenizer is asked for.
    tasks = (lambda: encoder.encode(["Qonşumuz kitabı oxuyur."], lang="az"), load)
    threads = [threading.Thread(target=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert encoder.loaded == ["az", "kk"]
