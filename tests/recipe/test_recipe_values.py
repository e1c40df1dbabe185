"""Override values."""

from __future__ import annotations

import pytest

from modenc.recipe.files import parse_value


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
    ],
)
def test_override_values(raw, value):
    assert parse_value(raw) == value
