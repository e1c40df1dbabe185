"""Languages are read once, and no thread waits for a language that it does not use."""

from threading import Thread

import numpy as np
import pytest
from slow_hub import hold_reading

from modenc import ModularEncoder
from modenc.errors import OptionError

TEXTS = ["A small child.", "Мұғалім жаңа кітапты оқиды.", "Qonşumuz qırmızı almanı alır.", "Our neighbour"]
CODES = ["en", "kk", "az", "en"]


def test_settings_of_computing(tiny_hub):
    with pytest.raises(OptionError, match="compute: expected fp32, bf16, auto, found 'fp8'"):
        ModularEncoder(tiny_hub.path, compute="fp8")
    for compute in ("bf16", "auto"):
        near = ModularEncoder(tiny_hub.path, compute=compute).encode(TEXTS, lang=CODES)
        right = ModularEncoder(tiny_hub.path).encode(TEXTS, lang=CODES)
        assert np.abs(near - right).max() < 0.1


def test_using_a_language_does_not_wait_while_another_one_is_read(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    right = ModularEncoder(tiny_hub.path).encode(TEXTS, lang=CODES)
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
