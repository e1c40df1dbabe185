"""Scored pairs in turn with passages, on which the base's ranking is kept; the strength of the adapter."""

import math
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from test_objectives import _Encoder
from trainings import NO_DEV, SCORED_PAIRS

from modenc.data.kinds import PASSAGES, PassageRow
from modenc.data.sources import Source
from modenc.data.training_sets import load
from modenc.hub.store import Hub
from modenc.recipe.loader import default_section, load_recipe
from modenc.training.data_access import draw_passages, random_span
from modenc.training.objectives.distillation import CosineDistillationLoss, RankingDistillationLoss
from modenc.training.pipeline import train


def _draw(rows, seed):
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed))


def test_the_loss_is_the_divergence_from_the_teachers_ranking_against_a_loop():
    student, queries, passages = _draw(6, 0), _draw(5, 1), _draw(5, 2)
    loss = RankingDistillationLoss(_Encoder(student), queries, passages, weight=1.5)
    rows = [4, 0, 2]

    def ranking(query, candidates, scale):
        cosines = [float(torch.cosine_similarity(query, other, dim=0)) * scale for other in candidates]
        total = sum(map(math.exp, cosines))
        return [math.exp(cosine) / total for cosine in cosines]

    expected = 0.0
    for number, row in enumerate(rows):
        target = ranking(queries[row], passages[rows], 100)
        found = ranking(student[number], student[3:], 50)
        expected += sum(t * math.log(t / f) for t, f in zip(target, found, strict=True)) / 3
    features = [{"rows": torch.tensor([0, 1, 2])}, {"rows": torch.tensor([3, 4, 5])}]
    assert float(loss(features, torch.tensor(rows)).detach()) == pytest.approx(1.5 * expected, rel=1e-4)


def test_batches_are_of_neighbors_and_a_rest_is_left_out():
    def drawn(rows, steps):
        optimizer = replace(default_section("alignment").optimizer, steps=steps, batch_size=4)
        passages = [PassageRow(f"passage {number}", None) for number in range(rows)]
        found = draw_passages(passages, optimizer, 2, seed=1)["passage"]
        return [int(text.split()[1]) for text in found]

    found = drawn(10, steps=4)
    assert sorted([found[:4], found[4:]]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert drawn(3, steps=4) == [0, 1, 2]
    assert len(drawn(100, steps=5)) == 12


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "ab",
        "One two three four five.",
        "東京は日本の首都であり、世界最大の都市である。",
        "x" * 900,
    ],
)
def test_a_span_is_a_part_of_its_text_and_at_most_half(text):
    draw = random.Random(3)
    for _ in range(50):
        span = random_span(text, draw)
        assert span in text
        assert len(span) <= max(len(text) // 2, 1)
        assert len(span) <= 150
        if len(text) > 20:
            assert span.strip()


def test_a_passage_without_a_query_is_asked_for_by_a_part_of_it():
    rows = [
        PassageRow("Alma is a fruit. It grows on trees.", "What is alma?"),
        PassageRow("Nan is bread.", None),
    ]
    optimizer = replace(default_section("alignment").optimizer, steps=1, batch_size=2)
    found = draw_passages(rows, optimizer, 1, seed=1)
    assert found["query"][0] == "What is alma?"
    assert found["query"][1] in "Nan is bread."
    assert found["label"] == [0, 1]


def test_passages_may_be_long_and_come_with_and_without_queries(tmp_path):
    long = "Алма. " * 300
    (tmp_path / "a.tsv").write_text(f"query\tpassage\nне?\t{long}\n\tНан пісірді.\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Су ішті.\n", encoding="utf-8")
    sources = [Source(path="a.tsv"), Source(path="b.txt", columns={"passage": "text"})]
    found = load(PASSAGES, sources, "kk", root=tmp_path).train
    assert found[0] == PassageRow(long.strip(), None)  # a query of three characters is too short
    assert found[1:] == [PassageRow("Нан пісірді.", None), PassageRow("Су ішті.", None)]


@pytest.fixture
def with_passages(copied):
    lines = [f"question {n}?\tThe answer to number {n} is in this passage, line {n}." for n in range(40)]
    (copied.parent / "data" / "passages.tsv").write_text("\n".join(["query\tpassage", *lines]) + "\n")
    return copied


SETTINGS = [
    SCORED_PAIRS,
    *NO_DEV,
    "data.passages=[{path='passages.tsv', license='MIT'}]",
    "languages.kk.sentence_encoding.objective=none",
    "languages.kk.sentence_encoding.keep_ranking_steps=4",
]


def _trained(path, *settings):
    train(load_recipe(path, [*SETTINGS, *settings]), languages=["kk"])
    return Hub.open(path.parent / "hub")


@pytest.mark.slow
def test_passages_take_turns_with_scored_pairs_and_stand_in_the_card(with_passages):
    card = _trained(with_passages).card("kk")
    assert card.stages["sentence_encoding"]["metrics"]["ranking"]["steps"] == 4
    (entry,) = [entry for entry in card.data if entry["role"] == "passages"]
    assert (entry["source"], entry["license"], entry["rows"]) == ("passages.tsv", "MIT", 40)


@pytest.mark.slow
def test_strength_scales_what_the_adapter_adds(with_passages):
    def adapter(*settings):
        hub = _trained(with_passages, "languages.kk.alignment.objective=none", *settings)
        return load_file(hub.version_folder("kk") / "se" / "adapter_model.safetensors")

    whole, half = adapter(), adapter("languages.kk.sentence_encoding.strength=0.5")
    for name, tensor in whole.items():
        scale = 0.5 if "lora_B" in name else 1.0
        assert torch.equal(half[name], tensor * scale) or torch.allclose(
            half[name], tensor * scale, atol=1e-7
        )
    assert any(tensor.any() for name, tensor in whole.items() if "lora_B" in name)


def test_cosines_are_kept_against_a_loop():
    student, queries, passages = _draw(4, 0), _draw(3, 1), _draw(3, 2)
    loss = CosineDistillationLoss(_Encoder(student), queries, passages, weight=30.0)
    teacher = [queries[2], queries[0], passages[2], passages[0]]
    gaps = [
        float(torch.cosine_similarity(student[i], student[j], 0))
        - float(torch.cosine_similarity(teacher[i], teacher[j], 0))
        for i in range(4)
        for j in range(4)
    ]
    features = [{"rows": torch.tensor([0, 1])}, {"rows": torch.tensor([2, 3])}]
    expected = 30.0 * sum(gap**2 for gap in gaps) / 16
    assert float(loss(features, torch.tensor([2, 0])).detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_alignment_keeps_the_cosines_of_passages(with_passages):
    keep = ["data.passages=[{path='passages.tsv', license='MIT'}]", "languages.kk.alignment.keep_weight=5.0"]
    train(load_recipe(with_passages, [*NO_DEV, *keep]), languages=["kk"])
    card = Hub.open(with_passages.parent / "hub").card("kk")
    assert "passages" in {entry["role"] for entry in card.data}


def test_a_span_is_long_also_where_a_text_has_hardly_any_blanks():
    draw = random.Random(1)
    for text in ("東" * 300 + " " + "京" * 160, "https://example.org/" + "a" * 400 + " " + "b" * 300):
        assert min(len(random_span(text, draw)) for _ in range(2000)) >= 150 / 4


@pytest.mark.slow
def test_a_card_has_what_its_own_language_read_of_a_file(with_passages):
    own = "languages.kk.data.passages=[{path='passages.tsv', license='MIT'}]"
    few = "languages.en.data.passages=[{path='passages.tsv', license='MIT', limit=12}]"
    settings = [
        *(SCORED_PAIRS, *NO_DEV, own, few),
        "languages.en.sentence_encoding.keep_ranking_steps=2",
        "languages.en.sentence_encoding.optimizer.batch_size=4",
        *("languages.kk.sentence_encoding.start=en", "languages.kk.sentence_encoding.objective=none"),
        "languages.kk.alignment.keep_weight=5.0",
    ]
    train(load_recipe(with_passages, settings))
    card = Hub.open(with_passages.parent / "hub").card("kk")
    assert [entry["rows"] for entry in card.data if entry["role"] == "passages"] == [40]
