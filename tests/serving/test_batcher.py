"""Batches over requests: what goes into one, and whose issues are whose."""

import json
import time
from concurrent.futures import wait

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.composition import st_module
from modenc.composition.st_module import tokenize
from modenc.errors import LanguageError

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from modenc.serving.batcher import Batcher
from modenc.serving.errors import ApiError
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings
from modenc.texts import TaggedText


def make_batcher(hub, window):
    encoder = ModularEncoder(hub.path, fallback="error")
    settings = ServeSettings("tiny", batch_size=8, window=window, max_waiting=100, max_texts=100)
    return Batcher(lambda: encoder, settings, Metrics())


@pytest.fixture
def batcher(tiny_hub):
    """Of batches of 8; not started."""
    return make_batcher(tiny_hub, window=0.0)


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


def test_a_server_that_ends_waits_for_no_full_batch(tiny_hub):
    batcher = make_batcher(tiny_hub, window=3600.0)
    waiting = submit(batcher, sentences("kk")[:3])
    batcher.start()
    batcher.drain()
    assert waiting.result(timeout=120).shape == (3, 32)
    batcher.stop()


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


def test_what_was_given_up_is_not_encoded(batcher):
    left, stayed = submit(batcher, sentences("kk")[:30]), submit(batcher, sentences("kk")[:3])
    assert left.cancel()
    batcher.start()
    batcher.stop()
    assert len(stayed.result()) == 3
    assert "modenc_tokens_total" in batcher._metrics.page().decode()
    assert batcher._metrics.registry.get_sample_value("modenc_batch_texts_sum") == 3


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


def test_texts_of_a_removed_language_are_answered(hub_copy, monkeypatch):
    """It is removed after the texts are routed."""
    encoder = ModularEncoder(hub_copy.path, fallback="base")
    settings = ServeSettings("tiny", max_waiting=100, max_texts=100)
    batcher = Batcher(lambda: encoder, settings, Metrics())

    def encode(*args, **options):
        hub_copy.remove("kk")
        return ModularEncoder.encode(encoder, *args, **options)

    monkeypatch.setattr(encoder, "encode", encode)
    future = submit(batcher, sentences("kk")[:2])
    batcher.start()
    batcher.stop()
    expected = ModularEncoder.encode(encoder, sentences("kk")[:2], lang="base")
    np.testing.assert_allclose(future.result(), expected, atol=1e-5, rtol=0)


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


def test_the_queue_is_bounded_in_texts(batcher):
    futures = [submit(batcher, sentences("kk")[:50]) for _ in range(2)]
    with pytest.raises(ApiError, match="too many texts are waiting; try again in 1 s"):
        submit(batcher, ["a"])
    batcher.start()
    wait(futures)
    assert len(submit(batcher, ["a"]).result()) == 1
    batcher.stop()


def test_an_encoder_that_cannot_be_opened_is_never_ready():
    def failing():
        raise LanguageError("no such language")

    broken = Batcher(failing, ServeSettings("tiny"), Metrics())
    broken.start()
    with pytest.raises(LanguageError, match="no such language"):
        broken.opened.result(60)
    assert not broken.ready
