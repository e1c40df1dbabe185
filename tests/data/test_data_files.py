"""What the readers say of bad files and columns, and how they shape rows."""

import gzip
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from modenc.data.formats import file_format, flatten, read_file
from modenc.data.sources import Source, read_rows, resolve_source
from modenc.errors import DataError


def _read(folder, **settings):
    return list(read_rows(resolve_source(Source(**settings), "kk", "en"), folder))


def test_nested_values_become_dotted_columns():
    record = {"id": 7, "translation": {"en": "a", "kk": None}, "set": ["x", "y"], "good": True}
    assert flatten(record) == {
        "id": "7",
        "translation.en": "a",
        "translation.kk": "",
        "set.0": "x",
        "set.1": "y",
        "good": "true",
    }


def test_bytes_in_parquet_are_texts_where_they_are_utf8(tmp_path):
    table = pa.table({"text": ["Сәлем".encode(), b"plain"], "image": [b"\xff\xd8", b"\xff"]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert list(read_file(tmp_path / "x.parquet")) == [{"text": "Сәлем"}, {"text": "plain"}]


def test_a_tsv_is_read_literally_and_a_csv_with_quotes(tmp_path):
    (tmp_path / "x.tsv").write_text('text\tid\n"Open, he said\t1\n')
    (tmp_path / "x.csv").write_text('text,id\n"Open, he\nsaid ""now""",1\n')
    assert list(read_file(tmp_path / "x.tsv")) == [{"text": '"Open, he said', "id": "1"}]
    assert list(read_file(tmp_path / "x.csv")) == [{"text": 'Open, he\nsaid "now"', "id": "1"}]


def test_lines_end_at_line_feeds_only_and_a_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "x.txt").write_bytes("\ufeffone\u2028still one\r\n\r\ntwo".encode())
    assert [row["text"] for row in read_file(tmp_path / "x.txt")] == ["one\u2028still one", "", "two"]


def test_bad_bytes_are_placed_by_line(tmp_path):
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(b"good\nba\xffd\n"))
    with pytest.raises(DataError, match=r"x\.txt\.gz, line 2: expected UTF-8, found byte 0xff at position 2"):
        list(read_file(tmp_path / "x.txt.gz"))


@pytest.mark.parametrize("name", ["x.txt.gz", "x.txt.zst"])
def test_a_truncated_file_is_called_damaged(tmp_path, name):
    compress = gzip.compress if name.endswith(".gz") else zstandard.compress
    data = compress("".join(f"line {i * i}\n" for i in range(5000)).encode())
    (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(DataError, match="damaged after line"):
        list(read_file(tmp_path / name))


def test_a_file_of_another_kind_is_called_damaged(tmp_path):
    (tmp_path / "x.txt.zst").write_bytes(b"plain text\n")
    (tmp_path / "x.txt.gz").write_bytes(b"plain text\n")
    (tmp_path / "x.parquet").write_bytes(b"plain text\n")
    for name in ("x.txt.zst", "x.txt.gz"):
        with pytest.raises(DataError, match="damaged after line 0"):
            list(read_file(tmp_path / name))
    with pytest.raises(DataError, match="not a readable Parquet file"):
        list(read_file(tmp_path / "x.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "a\tb\n1\t2\n1\t2\t3\n", r"line 3: expected 2 fields \(a, b\), found 3"),
        ("x.tsv", "", "expected a header line"),
        ("x.tsv", "en\t\t\ten\n1\t2\t3\t4\n", "line 1: expected column names that differ, found 'en' twice"),
        ("x.csv", "", "expected a header line"),
        ("x.csv", "a,b\n1,2,3\n", r"line 2: expected 2 .*, found 3; fix the line \(.* in quotes in CSV\)"),
        ("x.tsv", "a\tb\n1\n", r"found 1; fix the line \(tabs and .* not allowed in TSV\)"),
        ("x.csv", 'a,b\n"1,2\n', "not valid CSV"),
        ("x.jsonl", '{"a": 1}\n{"a": \n', "line 2: not valid JSON"),
        ("x.jsonl", "[1]\n", "line 1: expected a JSON object, found list"),
        ("x.jsonl", '{"a": ' * 100_000, "line 1: not valid JSON"),
    ],
)
def test_malformed_tables(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        list(read_file(tmp_path / name))


def test_formats_by_name(tmp_path):
    assert file_format(tmp_path / "a.b.TSV.gz") == ".tsv"
    with pytest.raises(DataError, match=r"expected a file ending in .*found '\.docx'"):
        file_format(tmp_path / "a.docx")


def test_a_missing_file_is_guessed(tmp_path):
    (tmp_path / "mono.kk.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"mono\.kkk\.txt: no such file; did you mean 'mono\.kk\.txt'"):
        _read(tmp_path, path="mono.kkk.txt")
    with pytest.raises(DataError, match=r"nor its folder; check the path"):
        _read(tmp_path, path="nowhere/mono.txt")


def test_rows_are_keyed_by_role_and_filters_name_roles_or_columns(tmp_path):
    (tmp_path / "x.tsv").write_text("kk\ten\tsource\tscore\nа\ta\tx\t4.5\nб\tb\tx\t1\nв\tc\ty\t5\n")
    columns = {"text": "{lang}", "pivot": "{pivot}"}
    rows = _read(tmp_path, path="x.tsv", columns=columns, at_least={"score": 4}, where_not={"source": ("y",)})
    assert rows == [{"text": "а", "pivot": "a", "source": "x", "score": "4.5"}]
    rows = _read(tmp_path, path="x.tsv", columns=columns, at_least={"score": 2}, at_most={"score": 4.5})
    assert [row["score"] for row in rows] == ["4.5"]
    for name in ("kk", "text"):
        assert len(_read(tmp_path, path="x.tsv", columns=columns, where={name: ("б", "в")})) == 2


def test_a_filter_on_a_missing_column_or_a_word_for_a_number(tmp_path):
    (tmp_path / "x.tsv").write_text("text\tscore\na\thigh\n")
    with pytest.raises(
        DataError, match=r"expected a column 'scores' of .*, found 'text', 'score'; did you mean 'score'"
    ):
        _read(tmp_path, path="x.tsv", where={"scores": ("1",)})
    with pytest.raises(DataError, match=r"row 1: expected a number in 'score' \(at_least\), found 'high'"):
        _read(tmp_path, path="x.tsv", at_least={"score": 4})
    with pytest.raises(DataError, match=r"row 1: expected a number in 'score' \(at_most\), found 'high'"):
        _read(tmp_path, path="x.tsv", at_most={"score": 4})


def test_a_data_set_that_cannot_be_reached_says_what_to_do(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")

    def unreachable(*_, **__):
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        DataError, match=r"data set d \(kk\), split 'train'.*found: no network\. Check the name"
    ):
        _read(tmp_path, dataset="d", config="{lang}")


@pytest.mark.parametrize("name", ["pandas", "hf://datasets/pandas"])
@pytest.mark.parametrize("streaming", [False, True])
def test_no_data_set_is_read_from_pickles(tmp_path, monkeypatch, name, streaming):
    pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.pkl").write_bytes(pickle.dumps(_Ran(tmp_path / "ran")))
    with pytest.raises(DataError, match="found the reader of pickles, which can run code; load them where"):
        _read(tmp_path, dataset=name, streaming=streaming)
    assert not (tmp_path / "ran").exists()


def test_a_data_set_with_a_script_is_refused_and_the_script_not_run(tmp_path):
    pytest.importorskip("datasets")
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "rows.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (folder / "train.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"Dataset scripts are no longer supported, but found rows\.py"):
        _read(tmp_path, dataset=str(folder))
    assert not (tmp_path / "ran").exists()


class _Ran:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_data_set_is_read_with_its_config_split_and_streaming(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(*args, **options):
        asked.append((args, options))
        return iter([{"translation": {"kk": "а", "en": "a"}}, {"translation": {"kk": "б", "en": "b"}}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    columns = {"text": "translation.{lang}"}
    rows = _read(tmp_path, dataset="d", config="{lang}-en", streaming=True, columns=columns, limit=1)
    assert [row["text"] for row in rows] == ["а"]
    assert asked == [(("d", "kk-en"), {"split": "train", "streaming": True})]
