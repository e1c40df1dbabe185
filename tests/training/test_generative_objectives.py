"""MuSR's and VMSST's losses: their equations, and what their networks see."""

import math
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from scipy.stats import multivariate_normal
from test_objectives import _Encoder
from torch.nn import functional

from modenc.recipe.loader import default_section
from modenc.training.objectives.contrast import ContrastiveLoss, mask_duplicates, symmetric_contrast
from modenc.training.objectives.crossconst import CrossConstLoss, divergence
from modenc.training.objectives.decoder import (
    IGNORED,
    TargetTexts,
    VectorDecoder,
    scale_to_sqrt_dim,
    sequence_nll,
)
from modenc.training.objectives.vmsst import (
    SourceSeparation,
    TranslationSide,
    VmsstLoss,
    draw_gaussian,
    gaussian_divergence,
)

HIDDEN = 16
SIZE = replace(default_section("decoder"), heads=4, inner_factor=2, dropout=0.0, max_length=12)
ENGLISH, KAZAKH = tiny_models.sentences("en")[:6], tiny_models.sentences("kk")[:6]


def _encoder(rows=6):
    return _Encoder(torch.randn(rows, HIDDEN))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_models.unigram_tokenizer(tiny_models.all_sentences())


@pytest.fixture
def targets(tokenizer):
    return TargetTexts([*KAZAKH, *ENGLISH], tokenizer, 12, 0)


def _decoder(pieces=20, **changes):
    options = {"injection": "input", **changes}
    return VectorDecoder(torch.randn(pieces, HIDDEN), HIDDEN, SIZE, **options).eval()


def _features(*rows):
    return [{"rows": torch.tensor(row)} for row in rows]


def test_targets_write_the_texts_and_rare_pieces_as_unknown(tokenizer):
    whole, few = TargetTexts(ENGLISH, tokenizer, 40, 0), TargetTexts(ENGLISH, tokenizer, 40, 6)
    batch = whole.batch(torch.tensor([0, 3]))
    for row, text in zip(batch, (ENGLISH[0], ENGLISH[3]), strict=True):
        own = row[row != IGNORED]
        assert own[-1] == 0
        assert tokenizer.decode(whole.pieces[own[:-1]]).strip() == text
    assert len(few.pieces) == 6
    assert (few.batch(torch.arange(6)) < 6).all()
    assert (few.batch(torch.arange(6)) == 1).any()
    cut = TargetTexts(ENGLISH, tokenizer, 3, 0).batch(torch.tensor([0]))
    assert cut.shape == (1, 4)
    assert len(TargetTexts(ENGLISH, tokenizer, 40, 2).pieces) == 2


@pytest.mark.parametrize("injection", ["input", "layers"])
def test_a_decoder_sees_no_later_piece_and_no_other_row(injection):
    decoder = _decoder(injection=injection)
    condition = torch.randn(2, HIDDEN)
    targets = torch.tensor([[3, 4, 5, 0], [6, 7, 0, IGNORED]])
    scores = decoder(condition, targets)
    changed = targets.clone()
    changed[0, 2:] = 9
    # The score of a piece rests on those before it.
    torch.testing.assert_close(decoder(condition, changed)[0, :3], scores[0, :3])
    assert not torch.allclose(decoder(condition, changed)[0, 3], scores[0, 3])
    torch.testing.assert_close(decoder(condition[1:], targets[1:, :3])[0], scores[1, :3])


def test_the_loss_of_a_row_is_the_sum_over_its_pieces():
    scores, targets = torch.randn(2, 3, 5), torch.tensor([[1, 2, 0], [4, 0, IGNORED]])
    expected = [
        -sum(float(scores[row, place].log_softmax(-1)[piece]) for place, piece in enumerate(pieces))
        for row, pieces in enumerate([[1, 2, 0], [4, 0]])
    ]
    assert sequence_nll(scores, targets).tolist() == pytest.approx(expected, rel=1e-5)


def test_divergence_against_its_sum():
    own, other = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    targets = torch.tensor([[1, 2, 0], [4, 0, IGNORED]])
    p, q = own.softmax(-1).numpy().astype(float), other.softmax(-1).numpy().astype(float)
    expected = [float((p[r, :n] * np.log(p[r, :n] / q[r, :n])).sum()) for r, n in ((0, 3), (1, 2))]
    assert divergence(own, other, targets).tolist() == pytest.approx(expected, rel=1e-5)


def _cross_const(targets, pivot, encoder, **weights):
    decoder = VectorDecoder(torch.randn(len(targets.pieces), HIDDEN), HIDDEN, SIZE, injection="input")
    options = {"consistency": 1.0, "copy_weight": 0.0, "smoothing": 0.1, **weights}
    return CrossConstLoss(encoder, decoder.eval(), targets, pivot, **options)


def test_crossconst_is_nothing_where_source_and_target_have_one_vector(targets):
    encoder = _encoder()
    rows = torch.tensor([[6], [7], [8]])
    same = _cross_const(targets, None, encoder)
    alone = CrossConstLoss(encoder, same.auxiliary, targets, None, smoothing=0.1)
    features = _features([0, 1, 2], [0, 1, 2])
    other = _features([0, 1, 2], [3, 4, 5])
    with torch.no_grad():
        assert float(same(features, rows)) == pytest.approx(float(alone(features, rows)), abs=1e-6)
        assert float(same(other, rows)) > float(alone(other, rows)) + 1e-4


def test_crossconst_sends_its_gradient_into_both_passes(targets):
    encoder = _encoder()
    loss = _cross_const(targets, None, encoder)
    rows = torch.tensor([[6], [7]])
    batch = targets.batch(rows[:, 0])
    scores = [loss.auxiliary(scale_to_sqrt_dim(encoder.vectors[side]), batch) for side in ([0, 1], [2, 3])]
    divergence(*scores, batch).sum().backward()
    moved = encoder.vectors.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [True, True, True, True, False, False]


def test_crossconst_with_a_frozen_pivot_is_the_formula(targets):
    encoder, pivot = _encoder(), torch.randn(12, HIDDEN)
    loss = _cross_const(targets, pivot, encoder, consistency=0.7, copy_weight=0.3)
    rows = torch.tensor([[6], [9]])
    batch = targets.batch(rows[:, 0])
    scores = loss.auxiliary(scale_to_sqrt_dim(encoder.vectors[[0, 1]]), batch)
    copied = loss.auxiliary(scale_to_sqrt_dim(pivot[[6, 9]]), batch)
    pieces = (batch != IGNORED).sum()
    own, copies = (
        functional.cross_entropy(
            side.flatten(0, 1), batch.flatten(), ignore_index=IGNORED, label_smoothing=0.1
        )
        for side in (scores, copied)
    )
    expected = own + 0.7 * divergence(scores, copied, batch).sum() / pieces + 0.3 * copies
    assert float(loss(_features([0, 1]), rows)) == pytest.approx(float(expected), rel=1e-5)
    assert float(loss.pivot_reconstruction_loss(rows[:, 0])) == pytest.approx(float(copies), rel=1e-5)


def test_gaussian_divergence_against_the_closed_form_and_monte_carlo():
    mean, log_variance = torch.randn(2, 3), torch.randn(2, 3) * 0.5
    found = gaussian_divergence(mean, log_variance)
    torch_own = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, (0.5 * log_variance).exp()), torch.distributions.Normal(0.0, 1.0)
    )
    torch.testing.assert_close(found, torch_own.sum(dim=-1))
    draws = draw_gaussian(mean[0].expand(400_000, 3), log_variance[0].expand(400_000, 3)).numpy()
    q = multivariate_normal(mean[0].numpy(), np.diag(log_variance[0].exp().numpy()))
    p = multivariate_normal(np.zeros(3), np.eye(3))
    assert float(found[0]) == pytest.approx(float((q.logpdf(draws) - p.logpdf(draws)).mean()), rel=0.02)


def test_samples_have_their_mean_and_variance_and_pass_gradients_on():
    mean = torch.tensor([1.0, -2.0], requires_grad=True)
    log_variance = torch.tensor([0.0, -2.0], requires_grad=True)
    draws = draw_gaussian(mean.expand(200_000, 2), log_variance.expand(200_000, 2))
    assert draws.mean(dim=0).tolist() == pytest.approx([1.0, -2.0], abs=0.02)
    assert draws.std(dim=0).tolist() == pytest.approx([1.0, math.exp(-1.0)], rel=0.02)
    draws.sum().backward()
    assert mean.grad.tolist() == pytest.approx([200_000] * 2)
    assert (log_variance.grad != 0).all()


def _separation(variant, targets, languages=3, **changes):
    table = torch.randn(len(targets.pieces), HIDDEN)
    options = replace(default_section("vmsst"), **{"encoder_layers": 1, **changes})
    auxiliary = SourceSeparation(variant, table, languages, SIZE, options)
    for decoder in auxiliary.decoders:
        torch.nn.init.normal_(decoder.project.weight, std=0.1)
    return auxiliary.eval()


def _vmsst(variant, targets, encoder, **changes):
    auxiliary = _separation(variant, targets, joint_weight=0.5, kl_steps=10, **changes)
    embed = torch.nn.Embedding(1000, HIDDEN).forward
    return VmsstLoss(encoder, auxiliary, None, targets, first_pivot=6, embed=embed, scale=20.0)


def test_bitranslation_is_both_sentences_from_each_others_mean(targets):
    encoder = _encoder(12)
    loss = _vmsst("bitranslation", targets, encoder)
    labels = torch.tensor([[0, 1, 1], [4, 5, 2]])
    found = loss(_features([0, 4], [7, 11]), labels)
    expected, pieces = 0.0, 0
    decoder = loss.auxiliary.decoders[0]
    for condition, row, lang in ((7, 0, 1), (11, 4, 2), (0, 7, 0), (4, 11, 0)):
        batch = targets.batch(torch.tensor([row]))
        scores = decoder(encoder.vectors[[condition]], batch, torch.tensor([lang]))
        expected += float(sequence_nll(scores, batch))
        pieces += int((batch != IGNORED).sum())
    assert float(found) == pytest.approx(expected / pieces, rel=1e-5)


@pytest.mark.slow
def test_the_bound_against_monte_carlo_of_its_definition(targets):
    """E_q[log p - log q + log prior], with every density written out, has the bound as its mean."""
    encoder = _encoder(12)
    loss = _vmsst("vmsst", targets, encoder)
    loss.begin_step(10)
    one = TranslationSide(encoder.vectors[[0]], targets.batch(torch.tensor([0])), torch.tensor([1]))
    two = TranslationSide(encoder.vectors[[7]], targets.batch(torch.tensor([7])), torch.tensor([0]))
    with torch.no_grad():
        mean = torch.stack([loss.negative_elbo(one, two) for _ in range(1500)]).mean()
        # The first row of a batch feeds the first side to the semantic network.
        semantic = (one.mean, loss.auxiliary.log_variance(one.mean))
        inferred = []
        for side in (one, two):
            embedded = loss.embed(targets.ids(side.targets))
            mask = side.targets != IGNORED
            inferred.append(loss.auxiliary.infer(side.mean, embedded, mask, side.languages))
        total = 0.0
        normal = torch.distributions.Normal
        for _ in range(1500):
            draws = [draw_gaussian(*variable) for variable in (semantic, *inferred)]
            value = 0.0
            for (center, spread), draw in zip((semantic, *inferred), draws, strict=True):
                value += normal(center, (0.5 * spread).exp()).log_prob(draw).sum()
                value -= normal(0.0, 1.0).log_prob(draw).sum()
            for side, draw in zip((one, two), draws[1:], strict=True):
                value += loss.auxiliary.write(draws[0], draw, side.targets, side.languages)[0]
            total += float(value) / 1500
    assert float(mean) == pytest.approx(total, rel=0.02)


def test_the_side_that_feeds_the_semantic_network_alternates(targets, monkeypatch):
    encoder = _encoder(12)
    loss = _vmsst("vmsst", targets, encoder)
    fed = []
    own = loss.auxiliary.log_variance.forward
    monkeypatch.setattr(loss.auxiliary.log_variance, "forward", lambda mean: fed.append(mean) or own(mean))
    loss(_features([0, 1, 2, 3], [6, 7, 8, 9]), torch.tensor([[0, 0, 1], [1, 1, 1], [2, 2, 1], [3, 3, 1]]))
    torch.testing.assert_close(fed[0], encoder.vectors[[0, 7, 2, 9]])


def test_the_divergence_rises_with_the_steps_and_can_be_left_out(targets):
    encoder = _encoder(12)
    features, labels = _features([0, 1], [6, 7]), torch.tensor([[0, 0, 1], [1, 1, 1]])

    def at(step, **changes):
        torch.manual_seed(1)
        loss = _vmsst("vmsst", targets, encoder, **changes)
        loss.begin_step(step)
        torch.manual_seed(2)
        return float(loss(features, labels))

    start, half, whole = at(0), at(5), at(10)
    assert whole - half == pytest.approx(half - start, rel=1e-3)
    assert whole > half > start
    assert at(20) == whole
    assert at(10, kl=False) == pytest.approx(start, rel=1e-6)


def test_vmsst_contrastive_is_the_sum_of_both(targets):
    encoder = _encoder(12)
    features, labels = _features([0, 1], [6, 7]), torch.tensor([[0, 0, 1], [1, 1, 1]])
    loss = _vmsst("vmsst_contrastive", targets, encoder)
    torch.manual_seed(2)
    both = float(loss(features, labels))
    loss.auxiliary.variant = "vmsst"
    torch.manual_seed(2)
    expected = 0.5 * float(loss(features, labels))
    rows = torch.tensor([0, 1])
    expected += float(symmetric_contrast(encoder.vectors[[0, 1]], encoder.vectors[[6, 7]], rows, 20.0))
    assert both == pytest.approx(expected, rel=1e-5)


def test_contrastive_against_a_loop():
    encoder = _encoder()
    loss = ContrastiveLoss(encoder, None, 20.0)
    left, right = (functional.normalize(encoder.vectors[rows]).double() for rows in ([0, 1, 2], [3, 4, 5]))
    expected = 0.0
    for a, b in ((left, right), (right, left)):
        for i in range(3):
            scores = [math.exp(20 * float(a[i] @ b[j])) for j in range(3)]
            expected -= math.log(scores[i] / sum(scores)) / 6
    features = _features([0, 1, 2], [3, 4, 5])
    assert float(loss(features, torch.arange(3)[:, None])) == pytest.approx(expected, rel=1e-5)


def test_a_sentence_is_no_negative_of_itself():
    scores = mask_duplicates(torch.arange(9.0).view(3, 3), torch.tensor([5, 7, 5]))
    assert scores.tolist() == [[0.0, 1.0, -math.inf], [3.0, 4.0, 5.0], [-math.inf, 7.0, 8.0]]


def test_contrast_is_computed_in_full_precision():
    torch.manual_seed(0)
    left, right = torch.randn(8, HIDDEN), torch.randn(8, HIDDEN)
    exact = symmetric_contrast(left, right, torch.arange(8), 20.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert symmetric_contrast(left, right, torch.arange(8), 20.0).equal(exact)


@pytest.mark.parametrize(
    "changes",
    [
        {"language_encoders": 0, "decoders": "each"},
        {"language_encoders": 2},
        {"encoder_layers": 0},
        {"factored": True},
    ],
)
def test_ablations_hold_every_row_to_its_own_networks(targets, changes):
    """A mixed batch gives each row what it gets alone."""
    encoder = _encoder(12)
    auxiliary = _separation("vmsst", targets, **changes)
    if changes.get("decoders") == "each":
        assert len(auxiliary.decoders) == len(auxiliary.language_networks) == 3
    batch = targets.batch(torch.tensor([0, 7, 3]))
    languages = torch.tensor([1, 0, 2])
    embedded = torch.randn(*batch.shape, HIDDEN)
    mean, log_variance = auxiliary.infer(encoder.vectors[:3], embedded, batch != IGNORED, languages)
    losses = auxiliary.write(encoder.vectors[:3], mean, batch, languages)
    for row in range(3):
        one = slice(row, row + 1)
        alone = auxiliary.infer(encoder.vectors[one], embedded[one], batch[one] != IGNORED, languages[one])
        torch.testing.assert_close(alone[0], mean[one])
        torch.testing.assert_close(alone[1], log_variance[one])
        loss = auxiliary.write(encoder.vectors[one], mean[one], batch[one], languages[one])
        torch.testing.assert_close(loss, losses[one])


@pytest.mark.parametrize("given", [True, False])
def test_networks_are_given_the_language_or_not(targets, given):
    auxiliary = _separation("vmsst", targets, encoder_language=given, decoder_language=given)
    batch, vector = targets.batch(torch.tensor([0])), torch.randn(1, HIDDEN)
    embedded = torch.randn(*batch.shape, HIDDEN)
    one, two = (
        (
            auxiliary.infer(vector, embedded, batch != IGNORED, torch.tensor([lang]))[0],
            auxiliary.write(vector, None, batch, torch.tensor([lang])),
        )
        for lang in (0, 1)
    )
    assert all(torch.allclose(a, b) for a, b in zip(one, two, strict=True)) is not given
