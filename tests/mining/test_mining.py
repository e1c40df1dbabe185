"""Mining against loops written out by hand, on vectors whose translations are known."""

import numpy as np
import pytest
from tiny_models import sentences

from modenc.encoder import ModularEncoder
from modenc.errors import DataError, OptionError
from modenc.mining import mine

LANGS = ("kk", "en")
N = 120


class Drawn:
    """Vectors drawn at random; row i of both languages is the same point, with some noise."""

    name = "drawn"

    def __init__(self, noise=0.6, seed=3):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(320, 16))
        self.table = {}
        for lang in LANGS:
            vectors = points + noise * rng.normal(size=points.shape)
            self.table |= dict(zip(sentences(lang), vectors.astype(np.float32), strict=True))
        self.calls = []

    def encode(self, texts, lang):
        self.calls.append((lang, len(texts)))
        return np.stack([self.table[text] for text in texts])

    def describe(self):
        return {"kind": "drawn"}


@pytest.fixture
def system():
    return Drawn()


@pytest.fixture
def texts():
    """Rows 40 to 119 of Kazakh and 0 to 79 of English; 40 to 79 are in both."""
    return sentences("kk")[40:N], sentences("en")[: N - 40]


GOLD = {(sentences("kk")[row], sentences("en")[row]) for row in range(40, 80)}


def _plain(system, left, right, k=4):
    """The procedure written out: (score, left, right) from the best down."""
    x, y = (np.stack([system.table[text] for text in side]) for side in (left, right))
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    cosines = x @ y.T
    of_x, of_y = np.sort(cosines, axis=1)[:, -k:].mean(axis=1), np.sort(cosines, axis=0)[-k:].mean(axis=0)
    margins = 2 * cosines / (of_x[:, None] + of_y)
    found = set()
    for i in range(len(left)):
        near = np.argsort(-cosines[i])[:k]
        found.add((i, int(near[margins[i, near].argmax()])))
    for j in range(len(right)):
        near = np.argsort(-cosines[:, j])[:k]
        found.add((int(near[margins[near, j].argmax()]), j))
    taken, pairs = (set(), set()), []
    for i, j in sorted(found, key=lambda pair: -margins[pair]):
        if i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            pairs.append((margins[i, j], left[i], right[j]))
    return pairs


def test_pairs_and_scores_are_the_loops(system, texts):
    mined = mine(*texts, system, LANGS, threshold=0)
    wanted = _plain(system, *texts)
    assert [(pair.left, pair.right) for pair in mined.pairs] == [pair[1:] for pair in wanted]
    assert [pair.score for pair in mined.pairs] == pytest.approx([pair[0] for pair in wanted], abs=1e-5)
    above = mine(*texts, system, LANGS, threshold=wanted[20][0] - 1e-5)
    assert above.pairs == mined.pairs[:21]


def test_repeated_and_empty_sentences_count_once(system, texts):
    left = [*texts[0][:3], f"  {texts[0][0].upper()} ", "", "—!", *texts[0]]
    mined = mine(left, texts[1], system, LANGS, threshold=0)
    assert mined.pairs == mine(*texts, system, LANGS, threshold=0).pairs


def test_the_threshold_is_that_of_the_best_f1(system, texts):
    dev = [*sorted(GOLD), *((text, "") for text in texts[0] if text not in dict(GOLD))]
    dev += [("", text) for text in texts[1] if text not in {right for _, right in GOLD}]
    mined = mine(*texts, system, LANGS, dev=dev)
    wanted, hits, best = _plain(system, *texts), 0, (0.0, 0.0)
    for taken, (score, *pair) in enumerate(wanted, start=1):
        hits += tuple(pair) in GOLD
        best = max(best, (200 * hits / (taken + len(GOLD)), score))
    assert (mined.dev.f1, mined.threshold) == pytest.approx(best, abs=1e-5)
    assert 60 < mined.dev.f1 < 100
    assert [pair[:2] for pair in mined.pairs] == [pair[1:] for pair in wanted if pair[0] >= best[1] - 1e-6]


def test_development_sentences_from_elsewhere_are_not_mined(system, texts):
    apart = sentences("kk")[150:200], sentences("en")[150:200]
    dev = list(zip(*apart, strict=True))
    mined = mine(*texts, system, LANGS, dev=[*dev, (sentences("kk")[201], ""), ("", sentences("en")[202])])
    assert mined.dev.recall > 50
    assert len(mined.pairs) > 10
    assert not {text for pair in mined.pairs for text in pair[:2]} & {text for side in apart for text in side}


def test_a_hub_and_a_plain_model_mine(tiny_hub, tiny_xlmr, texts):
    hub = mine(*texts, ModularEncoder(tiny_hub.path), LANGS, threshold=0)
    assert hub.pairs == mine(*texts, tiny_hub.path, LANGS, threshold=0).pairs
    assert 1 <= len(hub.pairs) <= 80
    assert mine(*texts, tiny_hub.path, ("kaz_Cyrl", "eng"), threshold=0).pairs == hub.pairs


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({}, OptionError, "expected one of threshold and dev, found neither or both"),
        ({"threshold": 1.0, "dev": []}, OptionError, "expected one of threshold and dev"),
        ({"threshold": 1.0, "neighbors": 0}, OptionError, "neighbors: expected at least 1, found 0"),
        ({"dev": [("a", "")]}, DataError, "no row with a sentence in both kk and en; give some"),
        ({"threshold": 1.0, "langs": ("kk", "kaz")}, DataError, "expected two languages, found kk for both"),
        ({"threshold": 1.0, "left": ["", "!"]}, DataError, "kk: expected sentences to mine in, found none"),
    ],
)
def test_errors_say_what_was_expected(system, texts, change, error, message):
    given = {"left": texts[0], "right": texts[1], "model": system, "langs": LANGS} | change
    with pytest.raises(error, match=message):
        mine(**given)


def test_development_pairs_that_are_never_found_are_refused(texts):
    system = Drawn(noise=0.1)
    dev = [(sentences("kk")[200], sentences("en")[300])]
    with pytest.raises(DataError, match="among the best matches, found none of 1; check which language"):
        mine(*texts, system, LANGS, dev=dev)
