"""Override values and TOML text."""

from __future__ import annotations

import tomllib

import pytest

from modenc.recipe.files import parse_value, to_toml


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("3", 3),
        ("1e-3", 0.001),
        ("true", True),
        ("trim", "trim"),
        ("../some data/x", "../some data/x"),
        ('"3"', "3"),
        ('["a", "b"]', ["a", "b"]),
        ("{ path = 'a' }", {"path": "a"}),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_override_values(raw, value):
    assert parse_value(raw) == value


def test_toml_text_reads_back_as_the_same_tables():
    text = """
    "a key" = "tab\\t quote\\" slash\\\\ del\\u007f ü"
    empty = []
    numbers = [1, 2.5, -3e-7, true, inf]
    sources = [{ path = "a", where = { "b c" = ["d"] } }, {}]
    [table.below]
    x = 1
    [table."dotted.key"]
    [bare]
    """
    tables = tomllib.loads(text)
    assert tomllib.loads(to_toml(tables)) == tables


def test_toml_text_puts_keys_in_order():
    assert to_toml({"b": {"x": 1}, "a": 2, "c": 3}, ["c", "a"]) == "c = 3\na = 2\n\n[b]\nx = 1\n"
