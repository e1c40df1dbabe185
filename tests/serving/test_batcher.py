"""Batches over requests: what goes into one, and whose issues are whose."""

import json
import time

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.composition import st_module
from modenc.composition.st_module import tokenize

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from modenc.serving.batcher import Batcher
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings
from modenc.texts import TaggedText


@pytest.fixture
def batcher(tiny_hub):
    """Of batches of 8; not started."""
    encoder = ModularEncoder(tiny_hub.path, fallback="error")
    settings = ServeSettings("tiny", batch_size=8, window=0.0, max_waiting=100, max_texts=100)
    return Batcher(lambda: encoder, settings, Metrics())


def submit(batcher, texts, lang="kk", **options):
    return batcher.submit([TaggedText(text, lang) for text in texts], align=True, **options)


def test_a_large_request_does_not_hold_up_a_small_one(batcher):
    ended = []
    for name, count in (("large", 60), ("small", 3)):
        future = submit(batcher, sentences("kk")[:count])
        future.add_done_callback(lambda _, name=name: ended.append(name))
    batcher.start()
    batcher.stop()
    assert ended == ["small", "large"]


def test_damaged_modules_cost_their_own_requests(hub_copy):
    card = hub_copy.path / "az" / "card.json"
    content = json.loads(card.read_text())
    settings = ServeSettings("tiny", max_waiting=100, max_texts=100)
    next(iter(content["files"].values()))["sha256"] = "0" * 64
    card.write_text(json.dumps(content))
    batcher = Batcher(lambda: ModularEncoder(hub_copy.path), settings, Metrics())
    good, bad = submit(batcher, sentences("kk")[:2]), submit(batcher, ["Sabahınız xeyir"], "az")
    batcher.start()
    batcher.stop()
    expected = batcher.opened.result().encode(sentences("kk")[:2], lang="kk")
    np.testing.assert_allclose(good.result(), expected, atol=1e-5, rtol=0)
    assert "checksum" in str(bad.exception()).lower() or "sha" in str(bad.exception()).lower()


def test_it_goes_on_after_all_that_waited_was_given_up(batcher):
    assert submit(batcher, ["a"]).cancel()
    batcher.start()
    end = time.monotonic() + 60
    while batcher._metrics.registry.get_sample_value("modenc_texts_waiting") and time.monotonic() < end:
        time.sleep(0.01)
    assert len(submit(batcher, ["a"]).result(60)) == 1
    batcher.stop()


@pytest.mark.parametrize("prompt_name", [None, "document"])
def test_every_text_is_tokenized_once(batcher, monkeypatch, prompt_name):
    texts = [*sentences("kk")[:3], "", "  two   blanks\n", "e\u0301 and a soft\u00adhyphen", "word " * 300]
    texts += ["abc " * 3000]  # its last character before the cut is a blank
    tokenized = []

    def counted(tokenizer, given, max_length):
        tokenized.extend(given)
        return tokenize(tokenizer, given, max_length)

    monkeypatch.setattr(st_module, "tokenize", counted)
    langs = ["kk", "base", None, *["kk"] * 5]
    encoder = batcher._open()
    tagged = encoder.route(texts, langs)
    batcher.submit(tagged, align=True, prompt_name=prompt_name)
    batcher.start()
    batcher.stop()
    assert len(tokenized) == len(texts)
    tokens = sum(len(text.tokens.ids) for text in tagged)
    mask = encoder.preprocess(encoder.route(texts, langs), prompt=encoder.prompts["document"])
    assert tokens == mask["attention_mask"].sum()
    counted = {
        name: batcher._metrics.registry.get_sample_value(f"modenc_{name}_total")
        for name in ("tokens", "texts_cut")
    }
    assert counted == {"tokens": tokens, "texts_cut": 2}


def test_each_request_has_its_own_prompt(batcher):
    """Requests of several prompts share a batch."""
    texts, names = sentences("kk")[:3], (None, "query", "document")
    futures = [submit(batcher, texts, prompt_name=name) for name in names]
    encoder = batcher._open()
    encoder.prompts |= {"query": "question: ", "document": "a longer passage: "}
    batcher.start()
    batcher.stop()
    for name, future in zip(names, futures, strict=True):
        expected = encoder.encode(texts, name, lang="kk")
        np.testing.assert_allclose(future.result(), expected, atol=1e-5, rtol=0)
    question, passage = (future.result() for future in futures[1:])
    assert abs(question - passage).max() > 1e-3
