"""Joining, repeating and holding out, beyond what test_corpora shows; without a recipe."""

import json
from dataclasses import replace

import pytest
import tiny_models

from modenc.data.kinds import (
    CROSS_PARAPHRASES,
    CROSS_SCORED_PAIRS,
    CROSS_STS,
    PARALLEL,
    PARAPHRASES,
    SCORED_PAIRS,
    STS,
    TEXT,
    ScoredRow,
)
from modenc.data.sources import Source
from modenc.data.training_sets import load, load_dev
from modenc.errors import DataError

KK, EN = tiny_models.sentences("kk"), tiny_models.sentences("en")


@pytest.fixture
def read(tmp_path):
    """A function that loads Kazakh rows from sources in the test's folder."""

    def read(kind, *sources, **options):
        return load(kind, sources, "kk", root=tmp_path, **{"held_out": 200, **options})

    return read


def _write(path, *rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def test_sources_without_usable_rows_are_refused(read, tmp_path):
    _write(tmp_path / "p.tsv", ("anchor", "positive"), ("English only", "In all of it"))
    with pytest.raises(DataError, match=r"kk: found 0 usable pairs \(data\.paraphrases\).*1 wrong script"):
        read(PARAPHRASES, Source(path="p.tsv"))


def test_graded_pairs_may_be_the_pivots(read, tmp_path):
    rows = [("3.5", EN[0], EN[1]), ("0", KK[2], KK[3]), ("5", EN[4], EN[4])]
    _write(tmp_path / "s.tsv", ("score", "sentence1", "sentence2"), *rows)
    pairs = read(SCORED_PAIRS, Source(path="s.tsv"))
    assert [(row.sentence1, row.score) for row in pairs.train] == [(EN[0], 3.5), (KK[2], 0.0)]
    assert pairs.counts["identical"] == 1
    _write(tmp_path / "s.tsv", ("score", "sentence1", "sentence2"), ("high", EN[0], EN[1]))
    with pytest.raises(DataError, match=r"s\.tsv, row 1: expected a number as score, found 'high'"):
        read(SCORED_PAIRS, Source(path="s.tsv"))


def test_repeat_shows_rows_again_but_not_in_the_held_out_ones(read, tmp_path):
    _write(tmp_path / "t.txt", *([line] for line in KK[:100]))
    corpus = read(TEXT, Source(path="t.txt", repeat=3, license="CC0-1.0"))
    assert len(corpus.held_out) == len(set(corpus.held_out)) == 10
    assert len(corpus.train) == 3 * 90
    assert not set(corpus.train) & set(corpus.held_out)
    record = corpus.sources[0]
    assert [record[key] for key in ("role", "source", "license", "rows")] == ["text", "t.txt", "CC0-1.0", 100]


def test_rows_without_a_value_in_the_group_make_no_pair(read, tmp_path):
    """As pandas writes a missing value."""
    rows = [(KK[0], "NaN"), (KK[1], "NaN"), (KK[2], "null"), (KK[3], "1"), (KK[4], "1")]
    lines = (f'{{"text": {json.dumps(text)}, "image": {image}}}\n' for text, image in rows)
    (tmp_path / "g.jsonl").write_text("".join(lines), encoding="utf-8")
    pairs = read(PARAPHRASES, Source(path="g.jsonl", group="image"))
    assert [(row.anchor, row.positive) for row in pairs.train] == [(KK[3], KK[4])]


def test_a_key_may_have_a_role(read, tmp_path):
    _write(tmp_path / "k.kk.tsv", ("text", "id"), *((KK[i], EN[i]) for i in range(3)))
    _write(tmp_path / "k.en.tsv", ("text", "id"), *((EN[i], EN[i]) for i in range(3)))
    source = Source(path="k.kk.tsv", pivot_path="k.en.tsv", key="id", columns={"text": "text", "note": "id"})
    pairs = read(PARALLEL, source, held_out=0)
    assert [(row.text, row.pivot) for row in pairs.train] == [(KK[i], EN[i]) for i in range(3)]


def test_held_out_lines_hardly_change_when_text_is_added(read, tmp_path):
    _write(tmp_path / "t.txt", *([line] for line in KK[:300]))
    before = read(TEXT, Source(path="t.txt"))
    _write(tmp_path / "t.txt", *([line] for line in KK))
    after = read(TEXT, Source(path="t.txt"))
    assert len(set(before.held_out) & set(after.held_out)) > 0.8 * len(before.held_out)


def test_tables_of_two_languages_are_joined_on_their_key(read, tmp_path):
    _write(tmp_path / "x.kk.tsv", ("id", "text"), *((str(i), KK[i]) for i in (3, 1, 9)))
    _write(tmp_path / "x.en.tsv", ("id", "text"), *((str(i), EN[i]) for i in range(5)))
    source = Source(path="x.{lang}.tsv", pivot_path="x.{pivot}.tsv")
    rows = read(PARALLEL, source).train
    assert [(row.text, row.pivot) for row in rows] == [(KK[3], EN[3]), (KK[1], EN[1])]


@pytest.mark.parametrize(
    ("columns", "own", "pivots"),
    [
        ({"text": "{lang}"}, "kk", "en"),
        ({"text": "сөйлем", "pivot": "sentence"}, "сөйлем", "sentence"),
        ({"pivot": "sentence"}, "text", "sentence"),
    ],
)
def test_two_joined_tables_may_name_their_texts_apart(read, tmp_path, columns, own, pivots):
    _write(tmp_path / "x.kk.tsv", ("kk_id", own, "rank"), *((str(i), KK[i], str(i)) for i in (3, 1, 9)))
    _write(tmp_path / "x.en.tsv", ("en_id", pivots, "of"), *((str(i), EN[i], "a") for i in range(5)))
    source = Source(
        path="x.{lang}.tsv",
        pivot_path="x.{pivot}.tsv",
        columns=columns,
        key="{lang}_id",
        at_most={"rank": 2.0},
    )
    assert [(row.text, row.pivot) for row in read(PARALLEL, source).train] == [(KK[1], EN[1])]


def test_columns_of_joined_paraphrases_and_scored_pairs_may_name_the_language(read, tmp_path):
    for lang, texts in (("kk", KK), ("en", EN)):
        head = ("id", "score", *(f"{lang}_{number}" for number in (1, 2, 3)))
        _write(tmp_path / f"x.{lang}.tsv", head, ("7", "4.5", *texts[:3]))
    files = {"path": "x.{lang}.tsv", "pivot_path": "x.{pivot}.tsv"}
    names = {"anchor": "{lang}_1", "positive": "{lang}_2", "negative": "{lang}_3"}
    rows = read(CROSS_PARAPHRASES, Source(**files, columns=names)).train
    assert [tuple(row) for row in rows] == [(KK[0], EN[1], EN[2]), (KK[1], EN[0], None)]
    names = {"sentence1": "{lang}_1", "sentence2": "{lang}_2"}
    (row,) = read(CROSS_SCORED_PAIRS, Source(**files, columns=names)).train
    assert row == (KK[0], KK[1], EN[0], EN[1], 4.5)


FILTERED = [
    {"at_most": {"unknown": 0.25}},
    {"at_least": {"unknown": 0.1}, "columns": {"text": "sentence"}},
    {"where": {"by": ("kk rules",)}},
]


@pytest.mark.parametrize("filters", FILTERED)
def test_filters_are_the_languages_files(read, tmp_path, filters):
    text = filters.get("columns", {}).get("text", "text")
    rows = [("1", KK[1], "0.5", "other"), ("2", KK[2], "0.2", "kk rules")]
    if "at_least" in filters:
        rows[0] = ("1", KK[1], "0.0", "other")
    _write(tmp_path / "x.kk.tsv", ("id", text, "unknown", "by"), *rows)
    _write(tmp_path / "x.en.tsv", ("id", text), ("1", EN[1]), ("2", EN[2]))
    source = Source(path="x.{lang}.tsv", pivot_path="x.{pivot}.tsv", **filters)
    found = read(PARALLEL, source).train
    assert [(row.text, row.pivot) for row in found] == [(KK[2], EN[2])]


def test_a_filter_on_a_column_that_is_not_there_is_refused(read, tmp_path):
    for lang in ("kk", "en"):
        _write(tmp_path / f"x.{lang}.tsv", ("id", "text"), ("1", KK[1]))
    absent = Source(path="x.{lang}.tsv", pivot_path="x.{pivot}.tsv", at_most={"unknown": 0.25})
    with pytest.raises(DataError, match=r"x\.kk\.tsv: expected a column 'unknown'"):
        read(PARALLEL, absent)


def test_rows_may_be_cross_lingual_already(read, tmp_path):
    _write(tmp_path / "c.tsv", ("text", "pivot"), (KK[0], EN[1]))
    rows = read(CROSS_PARAPHRASES, Source(path="c.tsv")).train
    assert [(row.text, row.pivot, row.pivot_negative) for row in rows] == [(KK[0], EN[1], None)]


def test_keys_must_be_unique_and_shared(read, tmp_path):
    head = ("id", "anchor", "positive")
    source = Source(path="p.kk.tsv", pivot_path="p.en.tsv")
    _write(tmp_path / "p.kk.tsv", head, ("1", KK[0], KK[1]))
    _write(tmp_path / "p.en.tsv", head, ("2", EN[0], EN[1]))
    with pytest.raises(
        DataError, match=r"expected rows with the same 'id', found none in common \('1' … and '2' …\)"
    ):
        read(CROSS_PARAPHRASES, source)
    _write(tmp_path / "p.en.tsv", head, ("1", EN[0], EN[1]), ("1", EN[2], EN[3]))
    with pytest.raises(DataError, match=r"p\.en\.tsv: expected each 'id' once, found '1' again"):
        read(CROSS_PARAPHRASES, source)


def test_scored_pairs_of_two_languages_are_joined_on_their_key(read, tmp_path):
    head = ("id", "score", "sentence1", "sentence2")
    _write(tmp_path / "s.kk.tsv", head, ("7", "4.5", KK[0], KK[1]), ("9", "1", KK[2], KK[3]))
    _write(tmp_path / "s.en.tsv", head, ("8", "0", EN[4], EN[5]), ("7", "4.4", EN[0], EN[1]))
    source = Source(path="s.{lang}.tsv", pivot_path="s.{pivot}.tsv")
    (row,) = read(CROSS_SCORED_PAIRS, source).train
    assert row == (KK[0], KK[1], EN[0], EN[1], 4.5)


GROUPED = Source(path="g.{lang}.tsv", group="image", columns={"pivot": "{pivot}"})


def _write_groups(tmp_path, groups, head=("image", "text", "en", "unknown")):
    """A table of a row for each group named, with sentence i and its translation in row i."""
    rows = [(group, KK[i], EN[i], str(i / 10)) for i, group in enumerate(groups)]
    _write(tmp_path / "g.kk.tsv", head, *rows)


def _positions(rows):
    return [(KK.index(row.anchor), KK.index(row.positive)) for row in rows]


def test_rows_of_a_group_are_paraphrases_two_by_two(read, tmp_path):
    _write_groups(tmp_path, "abaacba")
    pairs = read(PARAPHRASES, replace(GROUPED, columns={}, license="MIT"))
    assert _positions(pairs.train) == [(0, 2), (1, 5), (3, 6)]
    assert {row.negative for row in pairs.train} == {None}
    (record,) = pairs.sources
    assert [record[key] for key in ("source", "license", "rows")] == ["g.kk.tsv", "MIT", 3]
    # The fourth of "a" has gone, so one is left over, and so is "c".
    _write_groups(tmp_path, "abaacb")
    pairs = read(PARAPHRASES, replace(GROUPED, columns={}))
    assert _positions(pairs.train) == [(0, 2), (1, 5)]


def test_each_of_a_group_goes_with_the_others_counterpart(read, tmp_path):
    _write_groups(tmp_path, "abacb")
    rows = read(CROSS_PARAPHRASES, GROUPED).train
    assert [(KK.index(row.text), EN.index(row.pivot)) for row in rows] == [(0, 2), (2, 0), (1, 4), (4, 1)]
    assert {row.pivot_negative for row in rows} == {None}


def test_the_limit_of_grouped_rows_counts_pairs_and_filters_count_first(read, tmp_path):
    _write_groups(tmp_path, "aabbcc")
    source = replace(GROUPED, columns={}, limit=2)
    found = read(PARAPHRASES, source).train
    assert _positions(found) == [(0, 1), (2, 3)]
    found = read(CROSS_PARAPHRASES, replace(GROUPED, limit=3)).train
    assert [KK.index(row.text) for row in found] == [0, 1, 2]
    _write_groups(tmp_path, "aaabbb")
    source = replace(GROUPED, columns={}, at_least={"unknown": 0.05}, at_most={"unknown": 0.45})
    assert _positions(read(PARAPHRASES, source).train) == [(1, 2), (3, 4)]


def test_rows_without_a_group_or_text_are_left_out(read, tmp_path):
    rows = [("", 0), ("", 1), ("a", 2), ("a", None), ("a", 3)]
    lines = [(group, "" if i is None else KK[i], EN[4 if i is None else i]) for group, i in rows]
    _write(tmp_path / "g.kk.tsv", ("image", "text", "en"), *lines)
    found = read(PARAPHRASES, replace(GROUPED, columns={})).train
    assert _positions(found) == [(2, 3)]
    (tmp_path / "g.jsonl").write_text(
        "\n".join(json.dumps(row) for row in ({"image": 7, "text": KK[0]}, {"text": KK[1]}, {"image": 7}))
    )
    with pytest.raises(DataError, match=r"expected rows with the same 'image', found none among 3;"):
        read(PARAPHRASES, Source(path="g.jsonl", group="image"))


def test_pairs_of_equal_texts_are_dropped_and_counted(read, tmp_path):
    lines = [("a", KK[0], EN[0]), ("a", KK[0].upper(), EN[1]), ("b", KK[2], EN[2]), ("b", KK[3], EN[3])]
    _write(tmp_path / "g.kk.tsv", ("image", "text", "en"), *lines)
    pairs = read(PARAPHRASES, replace(GROUPED, columns={}))
    assert (_positions(pairs.train), pairs.counts["identical"]) == ([(2, 3)], 1)
    # Across, each is a translation of the other's counterpart.
    assert len(read(CROSS_PARAPHRASES, GROUPED).train) == 4


def test_development_rows_of_one_score_are_refused(read, tmp_path):
    lines = ["sentence1\tsentence2\tscore", "Бір\tекі\t3.0", "үш\tтөрт\t3.0"]
    (tmp_path / "s.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    message = (
        r"kk: data\.dev\.cross_sts \(s\.tsv\): expected rows of different scores, found 2 with the score 3;"
    )
    with pytest.raises(DataError, match=message):
        load_dev(CROSS_STS, [Source(path="s.tsv")], "kk", root=tmp_path)


def test_development_rows_are_normalized_and_kept(read, tmp_path):
    _write(tmp_path / "s.tsv", ("score", "sentence1", "sentence2"), ("3.5", "Бір  екі", "x"), ("0", "x", "x"))
    dev = load_dev(STS, [Source(path="s.tsv")], "kk", root=tmp_path)
    assert dev == [ScoredRow("Бір екі", "x", 3.5), ScoredRow("x", "x", 0.0)]


def test_parts_of_a_file_under_several_licenses_are_told_apart(read, tmp_path):
    rows = [(EN[i], KK[i], "news" if i % 2 else "web") for i in range(40)]
    _write(tmp_path / "p.tsv", ("pivot", "text", "source"), *rows)
    parts = {"news": "CC-BY-4.0", "web": "MIT"}
    parallel = tuple(
        Source(path="p.tsv", where={"source": (part,)}, license=license) for part, license in parts.items()
    )
    found = read(PARALLEL, *parallel).sources
    # A card has one entry for each name.
    assert {record["source"]: record["license"] for record in found} == {
        "p.tsv": "CC-BY-4.0",
        "p.tsv (web)": "MIT",
    }
