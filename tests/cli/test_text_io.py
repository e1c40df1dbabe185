"""How texts come in: of which files, and cut as an encoder cuts them."""

import os
import re

import pytest

from modenc.cli.text_io import read_texts, source_files
from modenc.errors import DataError
from modenc.texts import normalize


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("gone.txt"), lambda path: path.mkdir(), os.mkfifo]
)
def test_source_files_refuses_what_is_no_file_of_a_folder(tmp_path, make):
    (tmp_path / "a.txt").write_text("a")
    make(tmp_path / "b.txt")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'b.txt'}: expected a file of texts; move")):
        source_files(str(tmp_path))


def test_source_files_follows_links_and_leaves_out_markers_of_other_tools(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "elsewhere.txt").write_text("a")
    (folder / "b.txt").write_text("b")
    (folder / "a.txt").symlink_to(tmp_path / "elsewhere.txt")
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    (folder / ".git").mkdir()
    (folder / ".#b.txt").symlink_to("me@here.1234")  # Emacs's lock
    assert source_files(str(folder)) == [str(folder / "a.txt"), str(folder / "b.txt")]


def test_texts_are_cut_as_an_encoder_cuts_them(tmp_path):
    lines = ["  " + "a" * 50, "\x00b", "short", "", "\u2003" * 60 + "c" * 60]
    (tmp_path / "x.txt").write_text("\n".join(lines), encoding="utf-8")
    assert list(read_texts(str(tmp_path / "x.txt"))) == lines
    cut = list(read_texts(str(tmp_path / "x.txt"), max_characters=20))
    assert cut == [normalize(line, 20) for line in lines]
    assert cut == [normalize(line, 20) for line in cut]
    assert cut[4] == "c" * 20
