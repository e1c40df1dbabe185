"""Batches over requests: what goes into one, and whose issues are whose."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.composition import st_module
from modenc.composition.st_module import tokenize

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from modenc.serving.batcher import Batcher
from modenc.texts import TaggedText


@pytest.fixture
def encoder(tiny_hub):
    return ModularEncoder(tiny_hub.path, fallback="error")


@pytest.fixture
def batcher(encoder):
    """Of batches of 8; not started."""
    return Batcher(encoder, 8)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def submit(pool, batcher, texts, lang="kk", **options):
    """Queue a request, in the order of the calls."""
    before = batcher._queue.qsize()
    tagged = [TaggedText(text, lang) for text in texts]
    future = pool.submit(batcher.encode, tagged, align=True, **options)
    while batcher._queue.qsize() == before:
        time.sleep(0.001)
    return future


def test_a_large_request_does_not_hold_up_a_small_one(pool, batcher):
    ended = []
    futures = []
    for name, count in (("large", 60), ("small", 3)):
        futures.append(submit(pool, batcher, sentences("kk")[:count]))
        futures[-1].add_done_callback(lambda _, name=name: ended.append(name))
    batcher.start()
    assert [len(future.result()) for future in futures] == [60, 3]
    batcher.stop()
    assert ended == ["small", "large"]


def test_requests_share_a_batch(pool, batcher):
    futures = [submit(pool, batcher, sentences("kk")[:2]) for _ in range(4)]
    batcher.start()
    batcher.stop()
    assert [len(future.result()) for future in futures] == [2] * 4
    assert batcher.metrics.registry.get_sample_value("modenc_batch_texts_count") == 1


def test_damaged_modules_cost_their_own_requests(pool, hub_copy):
    card = hub_copy.path / "az" / "card.json"
    content = json.loads(card.read_text())
    next(iter(content["files"].values()))["sha256"] = "0" * 64
    card.write_text(json.dumps(content))
    encoder = ModularEncoder(hub_copy.path)
    batcher = Batcher(encoder, 8)
    good = submit(pool, batcher, sentences("kk")[:2])
    bad = submit(pool, batcher, ["Sabahınız xeyir"], "az")
    batcher.start()
    batcher.stop()
    expected = encoder.encode(sentences("kk")[:2], lang="kk")
    np.testing.assert_allclose(good.result(), expected, atol=1e-5, rtol=0)
    assert "checksum" in str(bad.exception()).lower() or "sha" in str(bad.exception()).lower()


def test_every_text_is_tokenized_once(batcher, encoder, monkeypatch):
    texts = [*sentences("kk")[:3], "", "  two   blanks\n", "word " * 300]
    tokenized = []

    def counted(tokenizer, given, max_length):
        tokenized.extend(given)
        return tokenize(tokenizer, given, max_length)

    monkeypatch.setattr(st_module, "tokenize", counted)
    tagged = encoder.route(texts, "kk")
    batcher.start()
    batcher.encode(tagged, align=True)
    batcher.stop()
    assert len(tokenized) == len(texts)
    counted = {
        name: batcher.metrics.registry.get_sample_value(f"modenc_{name}_total")
        for name in ("tokens", "texts_cut")
    }
    assert counted == {"tokens": sum(len(text.tokens) for text in tagged), "texts_cut": 1}


def test_each_request_has_its_own_prompt(pool, batcher, encoder):
    """Requests of several prompts share a batch."""
    encoder.prompts |= {"query": "question: ", "document": "a longer passage: "}
    texts, names = sentences("kk")[:2], (None, "query", "document")
    futures = [submit(pool, batcher, texts, prompt_name=name) for name in names]
    batcher.start()
    batcher.stop()
    for name, future in zip(names, futures, strict=True):
        expected = encoder.encode(texts, name, lang="kk")
        np.testing.assert_allclose(future.result(), expected, atol=1e-5, rtol=0)
    question, passage = (future.result() for future in futures[1:])
    assert abs(question - passage).max() > 1e-3
