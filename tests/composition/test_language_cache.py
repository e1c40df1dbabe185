"""Which languages stay in memory, and what each batch computes with."""

from threading import Thread

import numpy as np
import pytest
from slow_hub import hold_reading

from modenc import ModularEncoder
from modenc.composition.modules import to_modules
from modenc.composition.options import EncoderSettings
from modenc.errors import HubError, OptionError

TEXTS = ["A small child.", "Мұғалім жаңа кітапты оқиды.", "Qonşumuz qırmızı almanı alır.", "Our neighbour"]
CODES = ["en", "kk", "az", "en"]


def test_memory_is_kept_within_its_limit(tiny_hub):
    free = ModularEncoder(tiny_hub.path)
    right = free.encode(TEXTS, lang=CODES)
    free.load(["en", "kk", "az"])
    needed = free.memory
    assert free.loaded == ["az", "en", "kk"]
    tight = ModularEncoder(tiny_hub.path, max_memory=needed - 1)
    assert np.allclose(tight.encode(TEXTS, lang=CODES), right, atol=1e-5)
    assert len(tight.loaded) == 2
    assert tight.memory < needed
    for code in ("kk", "az", "en", "kk"):
        rows = [row for row, other in enumerate(CODES) if other == code]
        vectors = tight.encode([TEXTS[row] for row in rows], lang=code)
        assert np.allclose(vectors, right[rows], atol=1e-5)
        assert tight.memory < needed
        assert code in tight.loaded
    none = ModularEncoder(tiny_hub.path, max_memory="0MB")
    assert np.allclose(none.encode(TEXTS, lang=CODES), right, atol=1e-5)
    assert (none.loaded, none.memory) == ([], 0)


def test_a_vocabulary_counts_with_its_tokenizer(tiny_hub):
    own, bases = to_modules(tiny_hub.read("kk")), to_modules(tiny_hub.read("en"))
    assert bases.tokenizer is None
    encoder = ModularEncoder(tiny_hub.path)
    encoder.load("en")
    without = encoder.memory
    encoder.load("kk")
    assert encoder.memory - without >= own.embeddings.nbytes + 600 * len(own.tokenizer)


def test_the_least_recently_used_make_room(tiny_hub):
    free = ModularEncoder(tiny_hub.path)
    needed = {}
    for pair in (["kk", "az"], ["kk", "en"], ["az", "en"]):
        free.load(pair)
        needed[*pair] = free.memory
        free.unload(free.loaded)
    free.load(CODES)
    # Room for any two, not for all three.
    room = max(needed.values())
    assert room < free.memory
    for first, second in (("kk", "az"), ("az", "kk")):
        tight = ModularEncoder(tiny_hub.path, max_memory=room)
        for code in (first, second, first):
            tight.encode(TEXTS[CODES.index(code)], lang=code)
        assert tight.loaded == ["az", "kk"]
        tight.encode(TEXTS[0], lang="en")
        assert tight.loaded == sorted(["en", first])


def test_settings_of_computing(tiny_hub):
    assert EncoderSettings(max_memory="1.5 GB").memory_limit == 1_500_000_000
    assert EncoderSettings(max_memory=300).memory_limit == 300
    with pytest.raises(OptionError, match="compute: expected fp32, bf16, auto, found 'fp8'"):
        ModularEncoder(tiny_hub.path, compute="fp8")
    for compute in ("bf16", "auto"):
        near = ModularEncoder(tiny_hub.path, compute=compute).encode(TEXTS, lang=CODES)
        right = ModularEncoder(tiny_hub.path).encode(TEXTS, lang=CODES)
        assert np.abs(near - right).max() < 0.1


def test_using_a_language_does_not_wait_while_another_one_is_read(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    right = encoder.encode(TEXTS, lang=CODES)
    encoder.unload(["kk", "az"])
    begun, go_on = hold_reading(monkeypatch, encoder.hub, "kk")
    results = {}
    slow = [
        Thread(target=lambda i=i: results.update({i: encoder.encode(TEXTS[1], lang="kk")})) for i in (0, 1)
    ]
    for thread in slow:
        thread.start()
    assert begun.wait(60)

    def use_others():
        results["others"] = encoder.encode([TEXTS[0], TEXTS[2]], lang=["en", "az"])
        encoder.load("az")
        results["memory"] = encoder.memory

    quick = Thread(target=use_others, daemon=True)
    quick.start()
    quick.join(30)
    waited = quick.is_alive()
    go_on.set()
    for thread in (*slow, quick):
        thread.join(60)
    assert not waited
    assert np.allclose(results["others"], right[[0, 2]], atol=1e-5)
    assert np.allclose(results[0], right[1], atol=1e-5)
    assert np.allclose(results[1], right[1], atol=1e-5)


def test_a_language_that_several_threads_ask_for_is_read_once(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    read, codes = encoder.hub.read, []
    monkeypatch.setattr(
        encoder.hub, "read", lambda code, **options: codes.append(code) or read(code, **options)
    )
    threads = [Thread(target=encoder.load, args=(["kk", "az"],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["az", "kk"]
    assert encoder.loaded == ["az", "kk"]


def test_a_language_that_cannot_be_read_keeps_none_of_the_others_in_use(hub_copy):
    encoder = ModularEncoder(hub_copy.path)
    (hub_copy.path / "kk" / "card.json").write_text("{")
    with pytest.raises(HubError, match=r"card\.json"):
        encoder.load(["en", "kk"])
    encoder.unload("en")
    assert encoder.loaded == []
