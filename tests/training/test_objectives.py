"""Losses against the formulas that open their files, spelled out with loops."""

import math
from dataclasses import replace

import pytest
import torch

from modenc.data.kinds import ParaphraseRow
from modenc.recipe.loader import default_section
from modenc.training.all_pairs import AllPairsModel
from modenc.training.objectives.distillation import DistillationLoss
from modenc.training.objectives.pivot_loss import PivotAlignmentLoss, ScoredAlignmentLoss

PLAIN = replace(default_section("alignment"), pivot_negatives=0, symmetric=False, scored_weight=1.0)


class _Encoder(torch.nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors)

    def forward(self, features):
        return {"sentence_embedding": self.vectors[features["rows"]]}


@pytest.fixture
def vectors():
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def _unit(tensor):
    return torch.nn.functional.normalize(tensor, dim=-1)


def test_ranking_against_a_loop(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    loss = PivotAlignmentLoss(_Encoder(vectors), pivot, PLAIN, losses="mnrl")
    labels = torch.tensor([[0, 5, 0], [1, -1, 1], [2, -1, 2]])
    rows = torch.arange(3)
    expected = 0.0
    for row in range(3):
        cosines = [float(_unit(vectors)[row] @ _unit(pivot)[c]) * 20 for c in (0, 1, 2, 5)]
        expected -= math.log(math.exp(cosines[row]) / sum(map(math.exp, cosines))) / 3
    assert float(loss([{"rows": rows}], labels)) == pytest.approx(expected, rel=1e-5)


def test_a_pivot_sentence_is_not_its_own_negative(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    options = replace(PLAIN, pivot_negatives=64)
    loss = PivotAlignmentLoss(_Encoder(vectors), pivot, options, losses="mnrl")
    alone = PivotAlignmentLoss(_Encoder(vectors), pivot[:1], options, losses="mnrl")
    assert float(alone([{"rows": torch.tensor([0])}], torch.tensor([[0, -1, 0]]))) == pytest.approx(
        0.0, abs=1e-6
    )
    assert float(loss([{"rows": torch.tensor([0])}], torch.tensor([[0, -1, 0]]))) > 0


def test_cosine_and_keep_terms(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    before = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
    rows, labels = torch.tensor([0, 1]), torch.tensor([[3, -1, 2], [4, -1, 3]])
    plain, keeping = PLAIN, replace(PLAIN, keep_weight=2.0)
    cosine = PivotAlignmentLoss(_Encoder(vectors), pivot, plain, losses="cosine")([{"rows": rows}], labels)
    expected = sum(1 - float(_unit(vectors)[i] @ _unit(pivot)[3 + i]) for i in range(2)) / 2
    assert float(cosine) == pytest.approx(expected, rel=1e-5)
    kept = PivotAlignmentLoss(_Encoder(vectors), pivot, keeping, losses="cosine", before=before)
    own, old = _unit(vectors[:2]), _unit(before[2:])
    gap = float(((own @ own.T - old @ old.T) ** 2).mean())
    assert float(kept([{"rows": rows}], labels)) == pytest.approx(expected + 2 * gap, rel=1e-5)


def test_the_pivots_cosines_are_an_aim(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    rows, labels = torch.tensor([0, 1]), torch.tensor([[3, -1, 0], [4, -1, 1]])
    plain, aimed = (
        PivotAlignmentLoss(
            _Encoder(vectors), pivot, replace(PLAIN, similarity_weight=weight), losses="cosine"
        )
        for weight in (0.0, 3.0)
    )
    own, theirs = _unit(vectors[:2]), _unit(pivot[3:5])
    gap = 0.0
    for i in range(2):
        for j in range(2):
            aim = float(theirs[i] @ theirs[j])
            gap += ((float(own[i] @ own[j]) - aim) ** 2 + (float(own[i] @ theirs[j]) - aim) ** 2) / 4
    difference = aimed([{"rows": rows}], labels) - plain([{"rows": rows}], labels)
    assert float(difference) == pytest.approx(3 * gap, rel=1e-4)


def test_scored_pairs_are_ranked_within_the_language_and_across(vectors):
    pivot = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    loss = ScoredAlignmentLoss(_Encoder(vectors), pivot, replace(PLAIN, scored_weight=0.5))
    features = [{"rows": torch.tensor([0, 1])}, {"rows": torch.tensor([2, 3])}]
    labels = torch.tensor([[5.0, 1.0, 4.2], [0.0, 2.0, 1.0]])
    first, second = _unit(vectors[:2]), _unit(vectors[2:])
    pivot_first, pivot_second = _unit(pivot)[[5, 0]], _unit(pivot)[[1, 2]]
    cosines, pulled = [], 0.0
    for i, score in enumerate((4.2, 1.0)):
        sides = (first[i] @ second[i], first[i] @ pivot_second[i], pivot_first[i] @ second[i])
        cosines += [(float(side), score) for side in sides]
        pulled += 1 - float(first[i] @ pivot_first[i] + second[i] @ pivot_second[i]) / 2
    total = sum(math.exp(20 * (c - d)) for c, y in cosines for d, z in cosines if y < z)
    expected = 0.5 * math.log(1 + total) + pulled / 2
    assert float(loss(features, labels)) == pytest.approx(expected, rel=1e-4)


def test_distillation_is_zero_at_the_teacher(vectors):
    loss = DistillationLoss(_Encoder(vectors * 3), vectors)
    rows = torch.arange(4)
    assert float(loss([{"rows": rows}], rows)) == pytest.approx(0.0, abs=1e-6)
    assert float(loss([{"rows": rows}], rows.flip(0))) > 0.1


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
    texts = {
        "paraphrase": {
            "az": {0: ParaphraseRow("a", "b"), 7: ParaphraseRow("c", "")},
            "kk": {0: ParaphraseRow("p", "q", "r"), 7: ParaphraseRow("s", "t")},
        }
    }
    loss = AllPairsModel(models, texts, replace(PLAIN, symmetric=symmetric))
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
