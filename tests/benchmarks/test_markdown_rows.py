"""``benchmarks/markdown_rows.py``: a table's place within a page."""

import re

import pytest


def test_a_table_goes_between_its_markers(program, tmp_path):
    rows, page = program("markdown_rows"), tmp_path / "page.md"
    page.write_text("before\n<!-- from -->\nold\n<!-- to -->\nafter\n")
    rows.write_table(page, "new", "<!-- from -->", "<!-- to -->")
    assert page.read_text() == "before\n<!-- from -->\nnew\n<!-- to -->\nafter\n"
    with pytest.raises(SystemExit, match=f"{re.escape(str(page))}: expected the lines"):
        rows.write_table(page, "newer", "<!-- from -->", "<!-- missing -->")
    with pytest.raises(SystemExit, match=r"none\.md: expected a page, found none to read \(No such file"):
        rows.write_table(tmp_path / "none.md", "newer", "<!-- from -->", "<!-- to -->")
    assert "new\n" in page.read_text()
