"""Reading, filtering and pairing texts, and what is said of bad ones."""

import gzip
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_models
import zstandard

from modenc.data.sources import Source, read_rows, resolve_source
from modenc.errors import DataError
from modenc.recipe.loader import load_recipe

pytest.importorskip("peft", reason="the training half is not installed")

from modenc.training.data_access import TrainingData

ROWS = [{"a": "first line", "b": "one"}, {"a": "second line", "b": "two"}, {"a": "third line", "b": "one"}]


def _write(path):
    suffixes = path.suffixes
    if ".jsonl" in suffixes:
        content = "".join(json.dumps(row) + "\n" for row in ROWS)
    else:
        comma = "," if ".csv" in suffixes else "\t"
        content = "\n".join(comma.join(row) for row in (ROWS[0], *(r.values() for r in ROWS))) + "\n"
    data = content.encode()
    if suffixes[-1] == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif suffixes[-1] == ".gz":
        path.write_bytes(gzip.compress(data))
    elif suffixes[-1] == ".zst":
        path.write_bytes(zstandard.compress(data))
    else:
        path.write_bytes(data)


@pytest.mark.parametrize(
    "name", ["x.tsv", "x.csv", "x.jsonl", "x.parquet", "x.tsv.gz", "x.jsonl.zst", "x.csv.gz"]
)
def test_every_format_gives_the_same_rows(tmp_path, name):
    _write(tmp_path / name)
    source = Source(path=name, columns={"text": "a"}, where={"b": ("one",)})
    texts = [row["text"] for row in read_rows(source, tmp_path, ("text",))]
    assert texts == ["first line", "third line"]


def test_limit_and_placeholders(tmp_path):
    (tmp_path / "mono.kk.txt").write_text("бір\nекі\nүш\n", encoding="utf-8")
    source = resolve_source(Source(path="mono.{lang}.txt", limit=2), "kk", "en")
    rows = read_rows(source, tmp_path, ("text",))
    assert [row["text"] for row in rows] == ["бір", "екі"]


@pytest.fixture
def plan(tmp_path, tiny_xlmr):
    """A plan for Kazakh whose files a test writes into tmp_path."""
    path = tmp_path / "r.toml"
    path.write_text(
        f'name = "r"\npivot = "en"\n[hub]\npath = "{tmp_path}/hub"\n[base]\nmodel = "{tiny_xlmr}"\n'
        f'[data]\nroot = "{tmp_path}"\ntext = ["t.txt"]\nparaphrases = ["p.tsv"]\n'
        'parallel = [{ path = "x.tsv", columns = { pivot = "en", text = "kk" } }]\n'
        'cross_paraphrases = [{ path = "p.tsv", pivot_path = "p.en.tsv" }]\n'
        "[languages.en]\n[languages.kk]\n"
    )
    return load_recipe(path, check_files=False).plans["kk"]


def _lines(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_lines_are_cleaned_counted_and_split(plan, tmp_path):
    lines = tiny_models.sentences("kk")
    english = [f"This is an English sentence about the house number {i} in our town." for i in range(40)]
    _lines(tmp_path / "t.txt", [*lines, lines[0], "  ", "аб", "Сөз\x07дік  бар  бұл  үйде", *english])
    corpus = TrainingData(plan).text
    assert corpus.counts["wrong_script"] == 40
    assert corpus.counts["duplicate"] == 1
    assert corpus.counts["too_short"] == 1
    assert "Сөздік бар бұл үйде" in [*corpus.train, *corpus.held_out]
    assert len(corpus.train) + len(corpus.held_out) == corpus.counts["kept"] == len(lines) + 1
    assert not set(corpus.train) & set(corpus.held_out)
    again = TrainingData(plan).text
    assert again == corpus
    _lines(tmp_path / "t.txt", lines)
    assert TrainingData(plan).text.fingerprint != corpus.fingerprint


def test_a_corpus_of_another_language_is_refused_with_numbers(plan, tmp_path):
    _lines(tmp_path / "t.txt", [*tiny_models.sentences("kk")[:60], *tiny_models.sentences("ug")])
    with pytest.raises(DataError, match=r"kk: .*%"):
        assert TrainingData(plan).text


def _triplets(tmp_path):
    for name, lang in (("p.tsv", "kk"), ("p.en.tsv", "en")):
        lines = tiny_models.sentences(lang)
        rows = ["id\tanchor\tpositive\tnegative"]
        rows += [
            f"{i}\t{lines[i]}\t{lines[i + 1]}\t{lines[-i - 1] if i % 4 else ''}" for i in range(0, 160, 2)
        ]
        _lines(tmp_path / name, rows)


def test_paraphrases_and_their_join_with_the_pivots(plan, tmp_path):
    _triplets(tmp_path)
    pairs = TrainingData(plan).paraphrases
    assert len(pairs.train) == 80
    assert sum(row.negative is None for row in pairs.train) == 40
    cross = TrainingData(replace(plan, data=replace(plan.data, parallel=()))).cross_paraphrases
    english, kazakh = tiny_models.sentences("en"), tiny_models.sentences("kk")
    first, second = cross.train[2:4]
    assert (first.text, first.pivot, first.pivot_negative) == (kazakh[2], english[3], english[-3])
    assert (second.text, second.pivot, second.pivot_negative) == (kazakh[3], english[2], None)


def test_held_out_pivot_sentences_are_not_trained_on(plan, tmp_path):
    rows = zip(tiny_models.sentences("en"), tiny_models.sentences("kk"), strict=True)
    _lines(tmp_path / "x.tsv", ["en\tkk", *("\t".join(row) for row in rows)])
    parallel = TrainingData(plan).parallel
    assert len(parallel.held_out) == 32
    assert not {row.pivot for row in parallel.held_out} & {row.pivot for row in parallel.train}


def test_no_side_of_a_held_out_translation_is_trained_on(plan, tmp_path):
    """Two English sentences of one Kazakh one."""
    kazakh, english = (tiny_models.sentences(lang) for lang in ("kk", "en"))
    rows = [f"{english[i]}\t{kazakh[i // 2]}{'!' * (i % 2)}" for i in range(200)]
    _lines(tmp_path / "x.tsv", ["en\tkk", *rows])
    parallel = TrainingData(plan).parallel
    held_out = {row.text.rstrip("!") for row in parallel.held_out}
    assert len(parallel.held_out) == 20
    assert not held_out & {row.text.rstrip("!") for row in parallel.train}
    assert len(parallel.train) == 200 - 2 * len(held_out)


def test_sentences_that_are_evaluated_on_are_in_no_pairs(plan, tmp_path):
    """Those of the development set in no pairs, those of held-out translations in no pairs across."""
    kazakh, english = (tiny_models.sentences(lang) for lang in ("kk", "en"))
    _lines(tmp_path / "x.tsv", ["en\tkk", *map("\t".join, zip(english, kazakh, strict=True))])
    _triplets(tmp_path)
    both = zip(kazakh[:40:2], kazakh[1:40:2], "0123" * 5, english[:40:2], english[1:40:2], strict=True)
    _lines(tmp_path / "s.tsv", ["sentence1\tsentence2\tscore\tp1\tp2", *map("\t".join, both)])
    dev = [f"{kazakh[0].upper()} !\t{english[3]}\t1", f"{kazakh[201]}\t{kazakh[202]}\t2"]
    _lines(tmp_path / "dev.tsv", ["sentence1\tsentence2\tscore", *dev])
    pivots = Source(path="s.tsv", columns={"sentence1": "p1", "sentence2": "p2"})
    own = replace(plan.data, scored_pairs=(Source(path="s.tsv"), pivots))
    before = TrainingData(replace(plan, data=own))
    counts = [len(before.scored_pairs.train), len(before.paraphrases.train)]
    data = TrainingData(replace(plan, data=replace(own, dev=replace(own.dev, sts=(Source(path="dev.tsv"),)))))
    # Kazakh's first pair, and the second of English ones; the first paraphrase; four translations.
    assert len(data.scored_pairs.train) == counts[0] - 2
    assert len(data.paraphrases.train) == counts[1] - 1
    assert data.parallel.counts["kept"] == before.parallel.counts["kept"] - 4
    assert data.parallel.counts["in_evaluation_data"] == 4
    pairs = {text for row in data.parallel.held_out for text in row[:2]}
    assert pairs & {text for row in before.cross_paraphrases.train for text in row[:2]} == set()
    assert len(before.cross_paraphrases.train) < 160
