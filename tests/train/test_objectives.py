"""Losses against the formulas that open their files, spelled out with loops."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from modenc.train.objectives.alignment import PivotAlignmentLoss
from modenc.train.objectives.all_pairs import AllPairs, Side
from modenc.train.objectives.distillation import DistillationLoss
from modenc.train.objectives.pivot_map import fit_pivot_map
from modenc.train.objectives.whitening import translation_whitening


class _Encoder(torch.nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors)

    def forward(self, features):
        return {"sentence_embedding": self.vectors[features["rows"]]}


def _settings(**changes):
    return SimpleNamespace(
        **{"scale": 20.0, "pivot_negatives": 0, "symmetric": False, "keep_weight": 0.0, **changes}
    )


@pytest.fixture
def vectors():
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def _unit(tensor):
    return torch.nn.functional.normalize(tensor, dim=-1)


def test_ranking_against_a_loop(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    loss = PivotAlignmentLoss(_Encoder(vectors), pivot, None, _settings(), "mnrl")
    labels = torch.tensor([[0, 5, 0], [1, -1, 1], [2, -1, 2]])
    rows = torch.arange(3)
    expected = 0.0
    for row in range(3):
        cosines = [float(_unit(vectors)[row] @ _unit(pivot)[c]) * 20 for c in (0, 1, 2, 5)]
        expected -= math.log(math.exp(cosines[row]) / sum(map(math.exp, cosines))) / 3
    assert float(loss([{"rows": rows}], labels)) == pytest.approx(expected, rel=1e-5)


def test_a_pivot_sentence_is_not_its_own_negative(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    loss = PivotAlignmentLoss(_Encoder(vectors), pivot, None, _settings(pivot_negatives=64), "mnrl")
    alone = PivotAlignmentLoss(_Encoder(vectors), pivot[:1], None, _settings(pivot_negatives=64), "mnrl")
    assert float(alone([{"rows": torch.tensor([0])}], torch.tensor([[0, -1, 0]]))) == pytest.approx(
        0.0, abs=1e-6
    )
    assert float(loss([{"rows": torch.tensor([0])}], torch.tensor([[0, -1, 0]]))) > 0


def test_cosine_and_keep_terms(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    before = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
    rows, labels = torch.tensor([0, 1]), torch.tensor([[3, -1, 2], [4, -1, 3]])
    cosine = PivotAlignmentLoss(_Encoder(vectors), pivot, None, _settings(), "cosine")(
        [{"rows": rows}], labels
    )
    expected = sum(1 - float(_unit(vectors)[i] @ _unit(pivot)[3 + i]) for i in range(2)) / 2
    assert float(cosine) == pytest.approx(expected, rel=1e-5)
    kept = PivotAlignmentLoss(_Encoder(vectors), pivot, before, _settings(keep_weight=2.0), "cosine")
    own, old = _unit(vectors[:2]), _unit(before[2:])
    gap = float(((own @ own.T - old @ old.T) ** 2).mean())
    assert float(kept([{"rows": rows}], labels)) == pytest.approx(expected + 2 * gap, rel=1e-5)


def test_distillation_is_zero_at_the_teacher(vectors):
    loss = DistillationLoss(_Encoder(vectors * 3), vectors)
    rows = torch.arange(4)
    assert float(loss([{"rows": rows}], rows)) == pytest.approx(0.0, abs=1e-6)
    assert float(loss([{"rows": rows}], rows.flip(0))) > 0.1


def test_distillation_weighs_the_geometry(vectors):
    teacher = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    rows = torch.arange(4)
    plain, weighed = (
        float(DistillationLoss(_Encoder(vectors), teacher, geometry_weight=w)([{"rows": rows}], rows))
        for w in (0.0, 3.0)
    )
    s, t = _unit(vectors), _unit(teacher)
    gap = sum(float(s[i] @ s[j] - t[i] @ t[j]) ** 2 for i in range(4) for j in range(4)) / 16
    assert weighed - plain == pytest.approx(3 * gap, rel=1e-4)


@pytest.fixture
def translations():
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(400, 6))
    noise = rng.normal(size=(400, 6)) * [5, 1, 1, 1, 1, 0.2]
    return meaning.astype(np.float32), (meaning + noise + 3.0).astype(np.float32)


def test_full_whitening_makes_translations_differ_alike_in_all_directions(translations):
    texts, others = translations
    whitener = translation_whitening(texts, others, ridge=1e-9, power=0.5)
    gaps = (texts - others) @ whitener
    np.testing.assert_allclose(np.cov(gaps.T, bias=True), np.eye(6), atol=1e-3)
    np.testing.assert_allclose(whitener, whitener.T, atol=1e-9)


def test_whitening_shrinks_noise_less_with_more_ridge_and_less_power(translations):
    def ratio(ridge, power):
        whitener = translation_whitening(*translations, ridge=ridge, power=power)
        return whitener[0, 0] / whitener[5, 5]

    assert ratio(1e-9, 0.5) == pytest.approx(0.2 / 5, rel=0.2)
    assert ratio(1e-9, 0.5) < ratio(1.0, 0.5) < ratio(1.0, 0.25) < 1
    assert ratio(1e9, 0.5) == pytest.approx(1.0)


def test_whitening_says_what_it_lacks(translations):
    texts, others = translations
    with pytest.raises(ValueError, match="expected two pairs or more to whiten by, found 1"):
        translation_whitening(texts[:1], others[:1], ridge=1.0, power=0.5)
    with pytest.raises(ValueError, match="expected translations that differ from each other, found none"):
        translation_whitening(texts, texts, ridge=1.0, power=0.5)


def test_the_pivot_map_is_ridge_regression_on_the_change(translations):
    texts, others = translations
    fitted = fit_pivot_map(texts, others, ridge=2.0)
    x, y = (part.astype(float) - part.astype(float).mean(axis=0) for part in (texts, others))
    strength = 2.0 * np.square(x).sum() / 6
    change = Ridge(alpha=strength, fit_intercept=False).fit(x, y - x).coef_.T
    np.testing.assert_allclose(fitted.matrix, np.eye(6) + change, atol=1e-6)
    np.testing.assert_allclose(fitted(texts), (x + x @ change) + others.mean(axis=0), atol=1e-4)


def test_the_pivot_map_finds_a_rotation_and_is_held_to_none(translations):
    texts, _ = translations
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0].astype(np.float32)
    np.testing.assert_allclose(
        fit_pivot_map(texts, texts @ rotation, ridge=1e-9)(texts), texts @ rotation, atol=1e-3
    )
    held = fit_pivot_map(texts, texts @ rotation, ridge=1e9)
    np.testing.assert_allclose(held.matrix, np.eye(6), atol=1e-6)
    with pytest.raises(ValueError, match="two or more different texts to fit a map on, found 3 alike"):
        fit_pivot_map(np.ones((3, 6), np.float32), texts[:3], ridge=1.0)


class _Words(torch.nn.Module):
    """A sentence model whose vectors are looked up by text."""

    def __init__(self, table):
        super().__init__()
        self.words = list(table)
        self.vectors = torch.nn.Parameter(torch.stack(list(table.values())))

    def preprocess(self, texts):
        return {"rows": torch.tensor([self.words.index(text) for text in texts])}

    def forward(self, features):
        return {"sentence_embedding": self.vectors[features["rows"]]}


@pytest.mark.parametrize("symmetric", [False, True])
def test_all_pairs_against_a_loop(vectors, symmetric):
    other = torch.randn(5, 8, generator=torch.Generator().manual_seed(3))
    models = {
        "az": _Words(dict(zip("abcd", vectors, strict=True))),
        "kk": _Words(dict(zip("pqrst", other, strict=True))),
    }
    sides = {
        "paraphrase": {
            "az": {0: Side("a", "b"), 7: Side("c", None)},
            "kk": {0: Side("p", "q", "r"), 7: Side("s", "t")},
        }
    }
    loss = AllPairs(models, sides, _settings(parallel_loss="cosine", symmetric=symmetric))
    value = loss(torch.tensor([0]), torch.tensor([[0, 1]]), torch.tensor([[0, 7]]))["loss"]
    queries, answers = _unit(vectors)[[0, 2]], _unit(other)[[1, 4, 2]]
    scores = [[20 * float(q @ a) for a in answers] for q in queries]
    expected = sum(math.log(sum(map(math.exp, scores[row]))) - scores[row][row] for row in range(2)) / 2
    if symmetric:
        back = (
            sum(
                math.log(sum(math.exp(scores[row][column]) for row in range(2))) - scores[column][column]
                for column in range(2)
            )
            / 2
        )
        expected = (expected + back) / 2
    assert value.item() == pytest.approx(expected, rel=1e-5)
    value.backward()
    assert all(model.vectors.grad.abs().sum() > 0 for model in models.values())
