"""Row i of a file is its text i, or the file is refused: blank lines, line ends, other columns."""

import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modenc.cli.text_io import read_texts
from modenc.data import formats
from modenc.data.formats import read_file
from modenc.data.sources import Source, read_rows
from modenc.errors import DataError

CAT, RAIN, BUS = "The cat sleeps.", "It rains today.", "Күн жылы."


def _texts(folder, name, content, column="text"):
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return list(read_texts(str(folder / name), column))


def _refused(folder, name, content, message, column="text"):
    with pytest.raises(DataError, match=message):
        _texts(folder, name, content, column)


def _write_parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


# Blank lines


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz", "x.jsonl"])
def test_a_byte_order_mark_alone_is_no_text(tmp_path, monkeypatch, name):
    assert _texts(tmp_path, name, "\ufeff") == []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf")))
    assert list(read_texts("-")) == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.tsv.gz"])
def test_a_blank_line_of_one_column_is_an_empty_text(tmp_path, name, end):
    lines = ["text", "", CAT, "", RAIN, "", ""]
    assert _texts(tmp_path, name, end.join([*lines, ""])) == lines[1:]
    assert _texts(tmp_path, name, end.join(["text", CAT])) == [CAT]  # no end after the last line


def test_a_quoted_empty_field_of_one_column_is_an_empty_text(tmp_path):
    assert _texts(tmp_path, "x.csv", f'text\n""\n{CAT}\n\n"a\n\nb"\n') == ["", CAT, "", "a\n\nb"]


def test_a_blank_line_above_the_header_is_no_header(tmp_path):
    for name in ("x.tsv", "x.csv"):
        _refused(tmp_path, name, f"\ntext\n{CAT}\n", "expected a column 'text'")


@pytest.mark.parametrize("blank", ["", " ", "\u3000"])
def test_a_blank_line_of_several_columns_or_jsonl_is_no_row(tmp_path, blank):
    for name, mark in (("x.tsv", "\t"), ("x.csv", ",")):
        lines = [f"id{mark}text", blank, f"1{mark}{CAT}", blank, f"2{mark}{RAIN}", blank, ""]
        assert _texts(tmp_path, name, "\n".join(lines)) == [CAT, RAIN]
    lines = [blank, json.dumps({"text": CAT}), blank, json.dumps({"text": RAIN}), blank, ""]
    assert _texts(tmp_path, "x.jsonl", "\n".join(lines)) == [CAT, RAIN]


# Line ends


def test_a_line_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LINE_BYTES", 1 << 12)
    _refused(tmp_path, "x.txt", f"{CAT}\n" + "a" * 5000, "line 2: expected at most 0 MB in a line")


def test_line_feeds_with_and_without_carriage_returns_are_mixed(tmp_path):
    for end in ("\n", "\r\n", "\r\r\n"):
        assert _texts(tmp_path, "x.txt", f"{CAT}\r\n\n{RAIN}{end}{BUS}\n\r\n") == [CAT, "", RAIN, BUS, ""]
        assert _texts(tmp_path, "x.csv", f"text\r\n{CAT}\n{RAIN}{end}{BUS}\r") == [CAT, RAIN, BUS]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("x.txt", f"{CAT}\n{RAIN}\rmore\n", 2),  # one line or two
        ("x.txt", f"{CAT}\r{RAIN}\r", 1),
        ("x.tsv", f"text\n{CAT}\r{RAIN}\r", 2),  # a header was written above
        ("x.jsonl", '{"text": "a"}\n{"text": "b"}\r{"text": "c"}\n', 2),
    ],
)
def test_line_ends_that_could_be_part_of_a_text_are_refused(tmp_path, name, content, line):
    _refused(tmp_path, name, content, rf"line {line}: expected lines that end with \\n, found \\r; convert")


@pytest.mark.parametrize("mark", list("\v\x85\u2028"))
def test_other_separators_end_no_line(tmp_path, mark):
    text = f"one{mark}two"
    for end in ("\n", "\r\n"):
        assert _texts(tmp_path, "x.txt", end.join([text, CAT])) == [text, CAT]
        for name in ("x.tsv", "x.csv"):
            assert _texts(tmp_path, name, end.join(["text", text, CAT])) == [text, CAT]
        rows = [json.dumps({"text": text}, ensure_ascii=mark < " "), json.dumps({"text": CAT})]
        assert _texts(tmp_path, "x.jsonl", end.join(rows)) == [text, CAT]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["x.txt", "x.tsv", "x.csv", "x.jsonl", "x.txt.gz"])
def test_another_encoding_is_named(tmp_path, name, encoding):
    for mark in ("\ufeff", ""):
        content = f"{mark}text\n{BUS}\n".encode(encoding)
        _refused(tmp_path, name, content, "line 1: expected UTF-8, found a zero byte, as in UTF-16")


# Columns that were not asked for

_BAD = {
    "a date before year 1": pa.array([-800_000] * 2, pa.date32()),
    "a time zone of no clock": pa.array([0] * 2, pa.timestamp("us", tz="Mars/Phobos")),
    "a picture": pa.array([b"\xff" * 40_000_000] * 2),
    "keys of one name": pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([1, 2])], names=["b", ""]),
}


@pytest.mark.parametrize("kind", _BAD)
def test_parquet_columns_that_are_not_asked_for_do_not_matter(tmp_path, kind):
    path = _write_parquet(tmp_path / "x.parquet", {"bad": _BAD[kind], "text": [CAT, RAIN]})
    assert list(read_texts(str(path), "text")) == [CAT, RAIN]
    rows = read_rows(Source(path="x.parquet", limit=2), tmp_path, ["text"])
    assert [row["text"] for row in rows] == [CAT, RAIN]


def test_texts_in_structs_and_lists_of_parquet_have_dotted_columns(tmp_path):
    path = _write_parquet(
        tmp_path / "x.parquet", {"t": [{"en": CAT}, {"en": RAIN}], "set": [["a", "b"], ["c"]]}
    )
    assert list(read_texts(str(path), "t.en")) == [CAT, RAIN]
    assert list(read_texts(str(path), "set.0")) == ["a", "c"]
    with pytest.raises(DataError, match=r"row 2: expected a column 'set\.1' .*found 't', 'set\.0'; did you"):
        list(read_texts(str(path), "set.1"))


def test_json_values_that_are_not_asked_for_do_not_matter(tmp_path):
    others = [
        '"vector": [' + "1, " * 2000 + "1]",
        '"a": {"b": 1}, "a.b": 2',
        '"x": null',
    ]
    for other in others:
        assert _texts(tmp_path, "x.jsonl", f'{{{other}, "text": "{CAT}"}}\n') == [CAT]
    _refused(
        tmp_path, "x.jsonl", f"{{{others[0]}}}\n", "row 1: expected a column 'text' .*found 'vector'; name"
    )


# Columns of one name


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table([pa.array([CAT]), pa.array([RAIN])], names=["text", "text"]), path)
    with pytest.raises(
        DataError, match=r"x\.parquet: expected column names that differ, found 'text' twice; rename"
    ):
        list(read_texts(str(path)))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"text": {"en": "a"}, "text.en": "b"}', "text.en"),
        ('{"text.0": "a", "text": ["b"]}', "text.0"),
    ],
)
def test_json_keys_of_one_name_are_refused(tmp_path, line, name):
    (tmp_path / "x.jsonl").write_text(f"{line}\n")
    for columns in (None, ["text.en", "text.0"]):
        with pytest.raises(
            DataError, match=rf"line 1: expected column names that differ, found '{name}' twice"
        ):
            list(read_file(tmp_path / "x.jsonl", columns))
