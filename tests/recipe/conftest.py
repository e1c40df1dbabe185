from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modenc.recipe.loader import load_recipe
from modenc.recipe.parse import RecipeIssues

SOUND = """
[data]
text = ["{lang}.txt"]
paraphrases = ["pairs.{lang}.tsv"]
parallel = ["{lang}-{pivot}.tsv"]
cross_paraphrases = [{ path = "pairs.{lang}.tsv", pivot_path = "pairs.{pivot}.tsv" }]

[languages.en]

[languages.kk]
"""

Write = Callable[..., Path]
IssuesOf = Callable[..., tuple[str, ...]]


@pytest.fixture
def sound() -> str:
    """A recipe without issues, but for its data, which are nowhere."""
    return SOUND


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a recipe file and gives its path."""

    def write_recipe(text: str, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_recipe


@pytest.fixture
def issues_of(write: Write) -> IssuesOf:
    """The issue lines of a recipe's text; the data are not looked for."""

    def lines(text: str, *overrides: str, check_files: bool = False) -> tuple[str, ...]:
        with pytest.raises(RecipeIssues) as caught:
            load_recipe(write(text), overrides, check_files=check_files)
        return caught.value.issues

    return lines


@pytest.fixture
def files_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked for but not looked into, so that they may be empty."""
    monkeypatch.setattr("modenc.recipe.inspection._inspect_source", lambda *_: ())
