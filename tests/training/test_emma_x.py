"""EMMA-X's equations against brute force and scipy, and its queue and momentum encoder."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.nn import functional

from modenc.recipe.loader import default_section
from modenc.training.objectives.emma_x import (
    EmmaXAuxiliary,
    EmmaXLoss,
    EmmaXWarmup,
    GaussianRanks,
    MomentumCopy,
    VectorQueue,
    ranking_info_nce,
    unit,
    update_rank_means,
    virtual_ranks,
)

HIDDEN = 6


def _auxiliary(encoder=None, **options):
    settings = {"queue": 8, "momentum": 0.9, "rank_momentum": 0.9, **options}
    return EmmaXAuxiliary(encoder or _Encoder(), HIDDEN, replace(default_section("emma_x"), **settings))


class _Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(HIDDEN, HIDDEN)
        self.frozen = torch.nn.Parameter(torch.eye(HIDDEN), requires_grad=False)

    def forward(self, features):
        return {"sentence_embedding": self.layer(features["states"]) @ self.frozen}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def _exactly(forward, features):
    with torch.autocast("cpu", enabled=False):
        return forward(features)


@pytest.fixture
def mixture():
    model = GaussianRanks(3, HIDDEN)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([0.5, -1.0, 0.2]))
        model.mean.normal_()
        model.log_std.normal_(std=0.3)
    return model


def test_the_posterior_is_scipys(mixture):
    differences = torch.randn(5, HIDDEN)
    weights = mixture.weight.softmax(-1).tolist()
    densities = np.array(
        [
            weight * multivariate_normal(mean, np.diag(std**2)).pdf(differences.numpy())
            for weight, mean, std in zip(
                weights, mixture.mean.detach().numpy(), mixture.log_std.detach().exp().numpy(), strict=True
            )
        ]
    ).T
    expected = densities / densities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture(differences).exp().detach().numpy(), expected, rtol=1e-4)


def test_virtual_ranks_are_equation_3():
    shares = [0.0, 0.1, 1 / 3, 0.4, 0.7, 0.99, 1.0]
    for ranks in (2, 4, 8):
        expected = [math.ceil((1 - share) * 1 + share * ranks) for share in shares]
        found = virtual_ranks(torch.tensor(shares, dtype=torch.float64), ranks) + 1
        assert found.tolist() == expected
        assert found.min() >= 1
        assert found.max() == ranks


def test_means_move_as_in_equation_11():
    means = torch.tensor([0.9, 0.5, 0.1])
    cosines, ranks = torch.tensor([[0.8, 0.6], [0.7, 0.0]]), torch.tensor([[0, 0], [0, 2]])
    found = update_rank_means(means, cosines, ranks, 0.9)
    assert found.tolist() == pytest.approx([0.9 * 0.9 + 0.1 * 0.7, 0.5, 0.9 * 0.1 + 0.1 * 0.0])


def test_ranking_info_nce_against_loops():
    cosines = torch.rand(4, 7, dtype=torch.float64) * 2 - 1
    ranks = torch.randint(0, 4, (4, 7))
    ranks[3] = 3
    excluded = torch.zeros(4, 7, dtype=torch.bool)
    excluded[0, 0] = excluded[1, 1] = True
    temperatures = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    expected = 0.0
    for i in range(4):
        for rank, tau in enumerate(temperatures.tolist()):
            kept = [k for k in range(7) if not excluded[i, k]]
            over = sum(math.exp(float(cosines[i, k]) / tau) for k in kept if ranks[i, k] == rank)
            under = sum(math.exp(float(cosines[i, k]) / tau) for k in kept if ranks[i, k] >= rank)
            expected -= math.log(over / under) / 4 if over else 0.0
    found = ranking_info_nce(cosines, ranks, temperatures, excluded)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_ranking_info_nce_without_positives_is_nothing_and_has_a_gradient():
    cosines = torch.rand(2, 3, requires_grad=True)
    nowhere = torch.zeros(2, 3, dtype=torch.bool)
    loss = ranking_info_nce(cosines, torch.full((2, 3), 3), torch.tensor([0.1, 0.2, 0.3]), nowhere)
    loss.backward()
    assert loss.item() == 0.0
    assert (cosines.grad == 0).all()


def test_the_warmup_is_equation_4(monkeypatch):
    auxiliary = _auxiliary()
    own, other = unit(torch.randn(3, HIDDEN)), unit(torch.randn(3, HIDDEN))
    share = torch.tensor([0.2, 0.5, 0.9])
    # Not the first batch, which sets the spreads.
    auxiliary.measured += 1.0
    monkeypatch.setattr(torch, "rand", lambda *_, **__: share)
    expected = 0.0
    for i in range(3):
        away = other[(i - 1) % 3]
        between = (1 - share[i]) * other[i] + share[i] * away
        rank = math.ceil((1 - float(share[i])) + float(share[i]) * 4)
        for side, known in ((other[i], 1), (away, 4), (between, rank)):
            expected -= float(auxiliary.classifier(own[i] - side)[known - 1].detach()) / 3
    assert float(auxiliary.warmup_loss(own, other).detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_each_module_moves_by_its_own_loss_alone(frozen):
    encoder = _Encoder()
    auxiliary = _auxiliary(encoder)
    sides = [{"states": torch.randn(4, HIDDEN)} for _ in range(1 if frozen else 2)]
    loss = EmmaXWarmup(encoder, auxiliary, torch.randn(4, HIDDEN) if frozen else None)
    loss(sides, torch.arange(4)[:, None]).backward()
    own = encoder.layer.weight.grad.clone()
    assert (own != 0).any()
    assert (auxiliary.classifier.mean.grad != 0).any()
    # The encoder's gradient is InfoNCE's.
    encoder.layer.weight.grad = None
    left = unit(encoder(sides[0])["sentence_embedding"])
    right = unit(loss.pivot if frozen else encoder(sides[1])["sentence_embedding"])
    functional.cross_entropy(left @ right.T / 0.04, torch.arange(4)).backward()
    torch.testing.assert_close(encoder.layer.weight.grad, own)


def test_a_step_on_unpaired_text_is_equations_6_and_7():
    encoder = _Encoder()
    auxiliary = _auxiliary(encoder, momentum=0.5, queue=16)
    auxiliary.measured += 100.0
    pivot = torch.randn(5, HIDDEN)
    loss = EmmaXLoss(encoder, auxiliary, pivot)
    with torch.no_grad():
        encoder.layer.weight.add_(0.1)
    states, means = torch.randn(4, HIDDEN), auxiliary.means.clone()
    slow_weight = auxiliary.momentum.get_buffer("slow_0").lerp(encoder.layer.weight, 0.5)
    slow = unit(functional.linear(states, slow_weight, encoder.layer.bias)).detach()
    loss.begin_step(0)
    torch.manual_seed(3)
    drawn = unit(pivot[torch.randint(5, (4,))])
    own = unit(encoder({"states": states})["sentence_embedding"])
    candidates = torch.cat([slow, drawn])
    cosines = own @ candidates.T
    log_ranks = auxiliary.classifier(own.detach()[:, None] - candidates)
    aside = torch.eye(4, 8, dtype=torch.bool)
    taught = [
        -log_ranks[i, k, int((float(cosines[i, k]) - means).abs().argmin())]
        for i in range(4)
        for k in range(8)
        if i != k
    ]
    ranks = log_ranks.argmax(-1)
    expected = sum(taught) / len(taught) + ranking_info_nce(cosines, ranks, auxiliary.temperatures(), aside)
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        encoder.forward = lambda features, own=encoder.forward: _exactly(own, features)
        found = loss([{"states": states}])
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert auxiliary.means.tolist() == pytest.approx(
        update_rank_means(means, cosines[~aside], ranks[~aside], 0.9).tolist()
    )
    torch.testing.assert_close(auxiliary.queue.vectors(), torch.cat([drawn, slow]))


def test_means_are_plain_ones_until_momentum_forgets_faster():
    auxiliary = _auxiliary()
    third = torch.tensor([0])
    for turn, cosine in enumerate((0.5, 0.7, 0.9), start=1):
        auxiliary.measure(torch.tensor([cosine]), third)
        assert auxiliary.means.tolist() == pytest.approx([(0.5, 0.6, 0.7)[turn - 1], 0.75, 0.5, 0.25])
    assert auxiliary.measured.tolist() == [3, 0, 0, 0]
    auxiliary.measured += 100.0
    auxiliary.measure(torch.tensor([0.0]), third)
    assert auxiliary.means[0] == pytest.approx(0.63)


def test_the_first_batch_sets_the_spreads():
    auxiliary = _auxiliary()
    own = unit(torch.randn(40, HIDDEN) + 4.0)
    other = unit(own + 0.02 * torch.randn(40, HIDDEN))
    auxiliary.warmup_loss(own, other)
    variance = (2 * auxiliary.classifier.log_std).exp()
    low, high = ((own - side).square().mean() for side in (other, other.roll(1, dims=0)))
    torch.testing.assert_close(variance[0], low.expand(HIDDEN))
    torch.testing.assert_close(variance[-1], high.expand(HIDDEN))
    ranks = auxiliary.classifier(own[:, None] - other).argmax(-1)
    assert (ranks.diagonal() == 0).float().mean() > 0.8
    set_before = auxiliary.classifier.log_std.clone()
    auxiliary.warmup_loss(own, other.roll(3, dims=0))
    torch.testing.assert_close(auxiliary.classifier.log_std, set_before)


def test_a_momentum_copy_follows_and_leaves_the_model_alone():
    encoder = _Encoder()
    copy = MomentumCopy(encoder, 0.9)
    assert len(copy.state_dict()) == 2
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    states = {"states": torch.randn(2, HIDDEN)}
    torch.testing.assert_close(copy(encoder, states), encoder(states))
    with torch.no_grad():
        encoder.layer.weight.add_(1.0)
    copy.follow(encoder)
    torch.testing.assert_close(copy.get_buffer("slow_0"), before["layer.weight"] + 0.1)
    assert not copy(encoder, states)["sentence_embedding"].requires_grad
    torch.testing.assert_close(encoder.layer.weight, before["layer.weight"] + 1.0)


def test_a_queue_holds_the_last_vectors():
    queue = VectorQueue(5, 2)
    assert queue.vectors().shape == (0, 2)
    rows = torch.arange(24.0).view(12, 2)
    queue.push(rows[:3])
    torch.testing.assert_close(queue.vectors(), rows[:3])
    queue.push(rows[3:7])
    assert {tuple(row) for row in queue.vectors().tolist()} == {tuple(row) for row in rows[2:7].tolist()}
    queue.push(rows)
    assert {tuple(row) for row in queue.vectors().tolist()} == {tuple(row) for row in rows[7:].tolist()}
