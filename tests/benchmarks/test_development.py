"""``benchmarks/development.py``: English originals are found, and the table is written into its page."""

import sys

import numpy as np
import pytest
import tiny_models

from modenc.errors import DataError


@pytest.fixture(scope="module")
def development(program):
    return program("development")


class Meanings:
    """A system in which a sentence's vector depends on its last word alone; lengths differ."""

    def encode(self, texts, lang):
        words = ("cat", "dog", "bird")
        return np.array([[10.0 * (word == text.split()[-1]) for word in words] for text in texts]) * len(lang)


def test_originals_have_the_same_score_and_the_most_similar_sentences(development):
    sets = {
        "az": [("a cat", "a dog", 1.2), ("a bird", "a bird", 4.857)],
        # Files differ in the last digits.
        "kk": [("k cat", "k dog", 1.2), ("k bird", "k bird", 4.85699999999999)],
    }
    english = [
        ("the dog", "the cat", 1.25),
        ("the cat", "the dog", 3.0),
        ("one cat", "one dog", 1.2),
        ("two birds, a bird", "the bird", 4.857),
    ]
    found = development.originals(sets, english, Meanings())
    assert found == [("one cat", "one dog", 1.2), ("two birds, a bird", "the bird", 4.857)]


def test_scores_that_do_not_match_are_errors(development):
    pairs = [("a cat", "a dog", 1.2)]
    other = [("a cat", "a dog", 1.5)]
    with pytest.raises(DataError, match="expected the scores of 'az' in 'kk', found other ones"):
        development.originals({"az": pairs, "kk": other}, pairs, Meanings())
    with pytest.raises(DataError, match="expected the scores of 'az' in 'kk', found other ones"):
        development.originals({"az": pairs, "kk": [*pairs, *pairs]}, pairs, Meanings())
    with pytest.raises(DataError, match=r"expected English pairs of all scores, found none of 1\.2"):
        development.originals({"az": pairs}, other, Meanings())


@pytest.mark.slow
def test_the_table_is_written_into_the_page(development, tiny_hub, tmp_path, monkeypatch):
    folder = tmp_path / "eval" / "sts"
    folder.mkdir(parents=True)
    for name, lang in (("kardes_dev.az", "az"), ("kardes_dev.kk", "kk"), ("stsb_dev.en", "en")):
        texts = tiny_models.sentences(lang)[:20]
        rows = [f"{n % 5}\t{texts[n]}\t{texts[n + 10]}" for n in range(10)]
        (folder / f"{name}.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *rows]) + "\n")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{development.BEGIN}\nold\n{development.END}\nafter\n")
    monkeypatch.setattr(development, "TURKIC", ("az", "kk"))
    words = ["--data", str(tmp_path), "--hub", str(tiny_hub.path), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["development", *words, "--vectors", str(tmp_path / "vectors")])
    development.main()
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "old" not in lines
    table = [line for line in lines if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:]] == ["az", "kk", "mean", "all 3 pairs"]
    assert len({line.count("|") for line in table}) == 1
