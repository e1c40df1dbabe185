"""The mixture of benchmarks/mining.py, and what modenc mine is compared with."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from modenc.evaluation.bitext import best_match, candidate_pairs, one_to_one

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from mining_mixture import Sizes, mixtures
from mining_reference import best_f1, laser, pair_scores, plain_faiss


@pytest.fixture
def sides():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(300, 24))
    left, right = ((points + 0.8 * rng.normal(size=points.shape)).astype(np.float32) for _ in range(2))
    return left[:200], right[100:]


@pytest.mark.parametrize("peer", [laser, plain_faiss])
def test_the_reference_finds_the_same_pairs(sides, peer):
    left, right = sides
    ours = one_to_one(candidate_pairs(best_match(left, right, "margin"), best_match(right, left, "margin")))
    theirs = peer(left, right)
    assert len(theirs) > 100
    assert [pair[1:] for pair in theirs] == list(zip(ours.left.tolist(), ours.right.tolist(), strict=True))
    assert [pair[0] for pair in theirs] == pytest.approx(ours.scores.tolist(), abs=1e-5)


def test_f1_and_the_threshold_between_two_scores():
    scored, gold = [(2.0, 0, 0), (1.5, 1, 1), (1.0, 2, 3)], {(0, 0), (1, 1), (2, 2)}
    f1, threshold = best_f1(scored, gold)
    assert (f1, threshold) == (pytest.approx(80), 1.25)
    found = pair_scores({(0, 0), (1, 1)}, gold)
    assert (found["precision"], found["recall"], found["f1"]) == pytest.approx((100, 200 / 3, 80))


def test_a_mixture_has_its_translations_and_nothing_twice(tmp_path):
    words = {"kk": "сөйлем туралы хабар жазылды", "en": "a report on a sentence was written"}
    for lang, text in words.items():
        folder = tmp_path / "eval/classification/sib" / lang
        folder.mkdir(parents=True)
        for number, part in enumerate(("train", "dev", "test")):
            rows = [f"{10 * number + row}\tsports\t{text} {number}{row}" for row in range(10)]
            (folder / f"{part}.tsv").write_text("\n".join(["index_id\tcategory\ttext", *rows]) + "\n")
        (tmp_path / "mono").mkdir(exist_ok=True)
        with gzip.open(tmp_path / "mono" / f"{lang}.txt.gz", "wt") as stream:
            stream.writelines(f"{text} and {row}\n" * 2 for row in range(100))
    (tmp_path / "parallel").mkdir()
    with gzip.open(tmp_path / "parallel/kk-en.tsv.gz", "wt") as stream:
        stream.write(f"en\tkk\tsource\n{words['en']} and 7\tсөз\tx\n")
    dev, test = mixtures(tmp_path, "kk", Sizes((20, 60), (5, 20)))
    assert [len(side) for side in (dev.left, dev.right, test.left, test.right)] == [20, 20, 60, 60]
    assert not set(dev.left) & set(test.left)
    assert len(set(test.right)) == 60
    assert len(test.gold) == 20
    assert all(test.left[i].split()[-1] == test.right[j].split()[-1] for i, j in test.gold)
    assert not any(text.endswith("and 7") for text in [*dev.right, *test.right])
