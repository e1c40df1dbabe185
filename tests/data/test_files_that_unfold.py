"""Small files of much content: refused, or read, in bounded memory."""

import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modenc.data import limits
from modenc.data.formats import COMPRESSIONS, read_file
from modenc.errors import DataError

pytestmark = pytest.mark.slow

MEGABYTES = 1000
# A gigabyte is the most that a compressed Parquet file may be of.
MEGABYTES_OF_PARQUET = 1200

_READ = """
import sys
import pyarrow.parquet  # before measuring: how large the library is says nothing
from itertools import islice
from pathlib import Path
from modenc.data.formats import read_file

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) >> 10

before = peak()
try:
    for row in islice(read_file(Path(sys.argv[1])), int(sys.argv[2])):
        pass
except Exception as error:
    print(f"{type(error).__name__}: {error}")
print(peak() - before)
"""


def _nested(depth, key):
    return (f'{{"{key}":' * depth + "1" + "}" * depth).encode()


def _repeated(length, rows):
    """A text in each of so many rows, once in the file."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["a" * length])


_TOO_LARGE = "row 1: expected at most 64 MB in a row, found more"
LINES = {
    "a record of many lines": ("x.csv.gz", b'a\n"' + (b"\n" + b'","a' * 50) * 100_000),
    "a header of millions of columns": ("x.csv.gz", b",a" * 5_000_000),
    "a header of a longer line": ("x.tsv.gz", b"\tabc" * 10_000_000),
    "a line of millions of fields": ("x.tsv.gz", b"a\tb\n" + b"\tab" * 20_000_000),
    "a line of as many fields as there may be": ("x.tsv.gz", b"a\tb\n" + b"\tab" * 5_000_000),
    "a list of millions": ("x.jsonl.gz", b'{"a":[' + b"1," * 20_000_000 + b"1]}"),
    "a list of a million": ("x.jsonl.gz", b'{"a":[' + b"1," * 1_000_000 + b"1]}"),
    "long names, one in another": ("x.jsonl.gz", _nested(400, "k" * 4000)),
    "a line of many megabytes": ("x.txt.gz", b"a" * 300_000_000),
    "a line of many megabytes, in Zstandard": ("x.txt.zst", b"a" * 300_000_000),
    "a list of millions, in Zstandard": ("x.jsonl.zst", b'{"a":[' + b"1," * 20_000_000 + b"1]}"),
}

TABLES = {
    "a text of megabytes in each row": (_repeated(10_000_000, 2000), None),
    "a text of many megabytes in each row": (_repeated(100_000_000, 5), _TOO_LARGE),
}

_LINE = "at most 16 MB in a line, found more"
_NAMES = "line 1: expected at most 4194304 characters in the names"
WORDS = {
    "a record of many lines": "at most 16777216 characters in a row, found more",
    "a header of millions of columns": _NAMES,
    "a header of a longer line": _LINE,
    "a line of millions of fields": _LINE,
    "a line of as many fields as there may be": "line 2: expected 2 fields (a, b), found 5000001",
    "a list of millions": _LINE,
    "a list of a million": _NAMES,
    "long names, one in another": _NAMES,
    "a line of many megabytes": _LINE,
    "a line of many megabytes, in Zstandard": _LINE,
    "a list of millions, in Zstandard": _LINE,
}


def _packed(content, ending):
    """``content`` compressed as a file's ``ending`` says."""
    if ending == ".gz":
        return gzip.compress(content, 1)
    return pa.compress(content, codec="zstd", asbytes=True)


def _said(path, rows=1 << 30, most=MEGABYTES):
    """What reading says in a process of its own, which takes at most ``most`` megabytes."""
    limited = 'ulimit -v 4194304; exec "$@"'
    command = ["sh", "-c", limited, "sh", sys.executable, "-c", _READ, str(path), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, megabytes = done.stdout.splitlines()
    assert int(megabytes) <= most, said
    return "\n".join(said)


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in /proc")
@pytest.mark.parametrize("case", LINES)
def test_lines_that_unfold_are_refused(tmp_path, case):
    name, content = LINES[case]
    (tmp_path / name).write_bytes(_packed(content, f".{name.rsplit('.', 1)[1]}"))
    assert f"DataError: {tmp_path / name}, line " in (said := _said(tmp_path / name))
    assert WORDS[case] in said


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in /proc")
@pytest.mark.parametrize(
    ("case", "store_schema"), [*((case, False) for case in TABLES), ("a text of megabytes in each row", True)]
)
def test_parquet_that_unfolds(tmp_path, case, store_schema):
    column, words = TABLES[case]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=store_schema)
    assert path.stat().st_size < 20_000
    said = _said(path, rows=30)
    assert said == "" if words is None else f"DataError: {path}, row 1: expected" in said
    assert (words or "") in said


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in /proc")
@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_compressed_parquet_file_that_unfolds_is_refused(tmp_path, ending):
    path = tmp_path / f"x.parquet{ending}"
    # Both formats allow pieces one after another; all of them would take 1.6 GB.
    path.write_bytes(_packed(bytes(1 << 24), ending) * 100)
    assert path.stat().st_size < 10_000_000
    said = _said(path, most=MEGABYTES_OF_PARQUET)
    assert f"DataError: {path}: expected at most 1024 MB in a compressed Parquet file, found more" in said


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in /proc")
@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_compressed_parquet_file_with_rows_that_unfold_is_refused(tmp_path, ending):
    column, words = TABLES["a text of many megabytes in each row"]
    table = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": column}), table, compression="zstd")
    path = tmp_path / f"x.parquet{ending}"
    path.write_bytes(_packed(table.getvalue().to_pybytes(), ending))
    assert f"DataError: {path}, {words}" in _said(path)


def test_parquet_rows_stay_as_they_are_however_few_are_read_at_once(tmp_path, monkeypatch):
    rows = [
        {"text": f"{i} сөз", "more": {"l": [str(i), None], "n": i}, "map": [("k", str(i))]} for i in range(50)
    ]
    kinds = {"l": pa.list_(pa.string()), "n": pa.int64()}
    schema = pa.schema(
        [("text", pa.string()), ("more", pa.struct(kinds)), ("map", pa.map_(pa.string(), pa.string()))]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "x.parquet", row_group_size=20)
    expected = list(read_file(tmp_path / "x.parquet"))
    assert expected[7]["more.l.0"] == "7"
    assert expected[7]["map.0.1"] == "7"
    monkeypatch.setattr(limits, "_PARQUET_ROW_BYTES", 300)
    monkeypatch.setattr(limits, "_PARQUET_ROWS_AT_ONCE", 7)
    assert list(read_file(tmp_path / "x.parquet")) == expected


def test_a_parquet_batch_is_halved_to_rows_and_a_row_that_is_too_large_is_named(tmp_path, monkeypatch):
    texts = ["a" * length for length in (10, 20, 5000, 30)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "x.parquet", use_dictionary=False)
    monkeypatch.setattr(limits, "_PARQUET_ROW_BYTES", 6000)
    assert [row["text"] for row in read_file(tmp_path / "x.parquet")] == texts
    monkeypatch.setattr(limits, "_PARQUET_ROW_BYTES", 4000)
    with pytest.raises(DataError, match=r"x\.parquet, row 3: expected at most .* in a row, found more"):
        list(read_file(tmp_path / "x.parquet"))
