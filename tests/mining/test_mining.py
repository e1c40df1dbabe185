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
    assert [(pair.left, pair.right) for pair in mined] == [pair[1:] for pair in wanted]
    assert [pair.score for pair in mined] == pytest.approx([pair[0] for pair in wanted], abs=1e-5)
    above = mine(*texts, system, LANGS, threshold=wanted[20][0] - 1e-5)
    assert above == mined[:21]


def test_repeated_and_empty_sentences_count_once(system, texts):
    left = [*texts[0][:3], f"  {texts[0][0].upper()} ", "", "—!", *texts[0]]
    mined = mine(left, texts[1], system, LANGS, threshold=0)
    assert mined == mine(*texts, system, LANGS, threshold=0)


def test_a_hub_and_a_plain_model_mine(tiny_hub, tiny_xlmr, texts):
    hub = mine(*texts, ModularEncoder(tiny_hub.path), LANGS, threshold=0)
    assert hub == mine(*texts, tiny_hub.path, LANGS, threshold=0)
    assert 1 <= len(hub) <= 80
    assert mine(*texts, tiny_hub.path, ("kaz_Cyrl", "eng"), threshold=0) == hub


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"neighbors": 0}, OptionError, "neighbors: expected at least 1, found 0"),
        ({"langs": ("kk", "kaz")}, DataError, "expected two languages, found kk for both"),
        ({"left": ["", "!"]}, DataError, "kk: expected sentences to mine in, found none"),
    ],
)
def test_errors_say_what_was_expected(system, texts, change, error, message):
    given = {"left": texts[0], "right": texts[1], "model": system, "langs": LANGS, "threshold": 1.0} | change
    with pytest.raises(error, match=message):
        mine(**given)
