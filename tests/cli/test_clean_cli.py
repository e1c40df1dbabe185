"""``modenc clean`` as a user runs it, on a tiny hub and translations that are made by rule."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import tiny_models
import torch

from modenc import threads
from modenc.cli.main import main
from modenc.data.pairs import ParallelRow
from modenc.errors import DataError
from modenc.provenance import TranslationRecord, read_record, record_path, write_record
from modenc.recipe.loader import default_section
from modenc.training.translation_scores import TranslationScores, dual_cross_entropy


@pytest.fixture
def bitext(tmp_path):
    """320 translations, of which every fifth has lost its partner; a duplicate, and pairs of one language."""
    english, kazakh = tiny_models.sentences("en"), tiny_models.sentences("kk")
    pairs = list(zip(english, kazakh, strict=True))
    random.Random(1).shuffle(pairs)
    wrong = pairs[:64]
    turned = [(en, kk) for (en, _), (_, kk) in zip(wrong, wrong[32:] + wrong[:32], strict=True)]
    rows = turned + pairs[64:]
    random.Random(2).shuffle(rows)
    lines = [*rows, rows[0], ("This is no Kazakh at all, it is English.", "Neither is this one, my dear.")]
    path = tmp_path / "pairs.tsv"
    path.write_text("en\tkk\n" + "\n".join("\t".join(row) for row in lines) + "\n", encoding="utf-8")
    return path, rows, set(turned)


def _rows(path):
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def test_filters_alone_drop_duplicates_and_other_languages(bitext, tmp_path, capsys):
    path, rows, _ = bitext
    output = tmp_path / "out.tsv"
    assert main(["clean", "-i", str(path), "--lang", "kaz", "--no-scores", "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}\t{len(rows)}\n"
    assert _rows(output) == rows


def test_the_record_of_a_translation_goes_with_it(bitext, tmp_path):
    path, _, _ = bitext
    output = tmp_path / "out.tsv"
    words = ["clean", "-i", str(path), "--lang", "kk", "--no-scores", "-o", str(output)]
    record = TranslationRecord("apertium (eng-kaz)", "MIT", "t.tsv", "en", "kk", "modenc", [], [], {}, {})
    write_record(path, record)
    assert main(words) == 0
    assert read_record(output) == record
    # Nor does it say more of an output than its input does.
    record_path(path).unlink()
    assert main(words) == 0
    assert read_record(output) is None


@pytest.mark.slow
def test_the_worst_pairs_go(tiny_hub, bitext, tmp_path):
    path, rows, _ = bitext
    output, rejected = tmp_path / "out.tsv", tmp_path / "rejected.tsv"
    words = ["--hub", str(tiny_hub.path), "--keep", "0.8", "--steps", "4", "--rejected", str(rejected)]
    record = TranslationRecord("apertium (eng-kaz)", "MIT", "t.tsv", "en", "kk", "modenc", [], [], {}, {})
    write_record(path, record)
    assert main(["clean", "-i", str(path), "--lang", "kk", "-o", str(output), *words]) == 0
    assert read_record(output) == read_record(rejected) == record
    kept, dropped = _rows(output), _rows(rejected)
    assert len(kept) == pytest.approx(0.8 * len(rows), abs=1)
    assert [row for row in rows if row in {(en, kk) for en, kk, _ in kept}] == [row[:2] for row in kept]
    assert {row[:2] for row in (*kept, *dropped)} == set(rows)
    assert max(float(row[2]) for row in kept) <= min(float(row[2]) for row in dropped)
    # The same pairs and seed give the same file.
    again = tmp_path / "again.tsv"
    assert main(["clean", "-i", str(path), "--lang", "kk", "-o", str(again), *words]) == 0
    assert again.read_bytes() == output.read_bytes()


def test_a_quota_of_cores_counts(bitext, tmp_path, monkeypatch, capsys):
    asked = []

    def system(_):
        raise DataError(f"threads: {asked}")

    monkeypatch.setattr(threads, "set_threads", asked.append)
    monkeypatch.setattr("modenc.evaluation.systems.open_hub_or_base", system)
    assert main(["clean", "-i", str(bitext[0]), "--lang", "kk", "-o", str(tmp_path / "out.tsv")]) == 2
    assert "threads: [0]" in capsys.readouterr().err


@pytest.mark.slow
def test_pairs_that_do_not_translate_score_worse(bitext, tmp_path):
    """With vectors that say who does what where, a decoder soon knows what belongs together."""
    _, rows, turned = bitext
    spread = np.random.default_rng(0).normal(size=(17, 32)).astype(np.float32)
    meaning = {}
    for lang in ("en", "kk"):
        slots = list(product(range(5), range(4), range(4), range(4)))
        # Kazakh puts what is done last.
        order = (0, 1, 2, 3) if lang == "en" else (0, 2, 3, 1)
        for sentence, places in zip(tiny_models.sentences(lang), slots, strict=True):
            vector = np.zeros(32, dtype=np.float32)
            for slot, place in zip(order, places, strict=True):
                vector += spread[(0, 5, 9, 13)[slot] + place]
            meaning[sentence] = vector
    tokenizer = tiny_models.unigram_tokenizer(tiny_models.all_sentences())
    scores = TranslationScores(
        [ParallelRow(*row) for row in rows],
        tuple(np.stack([meaning[row[side]] for row in rows]) for side in (1, 0)),
        tokenizer,
        torch.randn(len(tokenizer), 32, generator=torch.Generator().manual_seed(0)),
        replace(default_section("decoder"), pivot_steps=150, layers=1, learning_rate=1e-2),
        replace(default_section("run"), precision="fp32"),
    )
    found = dual_cross_entropy(*scores.losses(tmp_path))
    bad, good = (found[[(row in turned) is wrong for row in rows]] for wrong in (True, False))
    # How often a wrong pair scores worse than a right one.
    assert (bad[:, None] > good[None, :]).mean() > 0.9


def test_the_score_is_junczys_dowmunts():
    scores = dual_cross_entropy([1.0, 2.0], [3.0, 2.0])
    assert scores.tolist() == [abs(1 - 3) + (1 + 3) / 2, 2.0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lang", "en"], "expected two languages, found en for both; set --pivot"),
        (
            ["--lang", "kk", "--no-scores", "--max-score", "3"],
            "--no-scores: expected no --max-score with it; leave one out",
        ),
        (
            ["--lang", "kk", "--text-column", "kz"],
            "expected a column 'kz' with the text, found 'en', 'kk'; name the",
        ),
    ],
)
def test_what_is_wrong_is_said(bitext, tmp_path, capsys, words, message):
    output = tmp_path / "out.tsv"
    assert main(["clean", "-i", str(bitext[0]), "-o", str(output), *words]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep", "1.5"], "--keep: expected 0 to 1, found 1.5"),
        (["--max-score", "nan"], "--max-score: expected -1000000000 to 1000000000, found nan"),
        (["--seed", "-1"], "--seed: expected 0 to 4294967295, found -1"),
        (["--keep", "0.5", "--max-score", "3"], "not allowed with argument --keep"),
    ],
)
def test_numbers_that_cannot_be(capsys, words, message):
    with pytest.raises(SystemExit, match="2"):
        main(["clean", "-i", "t.tsv", "--lang", "kk", "-o", "o.tsv", *words])
    assert message in capsys.readouterr().err


def test_too_few_pairs_to_learn_from(tmp_path, capsys):
    path = tmp_path / "few.tsv"
    path.write_text("en\tkk\nMy brother reads a book.\tМенің ағам кітап оқиды.\n", encoding="utf-8")
    assert main(["clean", "-i", str(path), "--lang", "kk", "-o", str(tmp_path / "o.tsv")]) == 2
    assert "found 1 usable pairs, expected at least 100" in capsys.readouterr().err
    assert main(["clean", "-i", str(path), "--lang", "kk", "-o", str(tmp_path / "o.txt")]) == 2
    assert "expected a name ending in .tsv" in capsys.readouterr().err
