"""Recipe files: find them, and merge them with includes and overrides."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modenc.errors import RecipeError, closest_match
from modenc.languages import find_code
from modenc.recipe.parse import Issue

DEFAULTS_FILE = "_defaults.toml"

_PACKAGE = Path(__file__).resolve().parents[1]


def recipes_folder() -> Path:
    """Find the folder of the shipped recipes, installed or in a checkout; RecipeError if there is none."""
    # An installed package comes first: another package may have put `recipes` into site-packages.
    for folder in (_PACKAGE / "_recipes", _PACKAGE.parent / "recipes"):
        if (folder / DEFAULTS_FILE).is_file():
            return folder
    raise RecipeError(
        f"expected the shipped recipes in {_PACKAGE / '_recipes'}, found none; "
        "reinstall modenc (pip install --force-reinstall modenc)"
    )


def shipped_recipes() -> dict[str, Path]:
    """Map the name of every shipped recipe to its file, sorted; files with ``_`` are only included."""
    files = sorted(recipes_folder().glob("*.toml"))
    return {file.stem: file for file in files if not file.stem.startswith("_")}


def find_recipe(name_or_path: str | Path) -> Path:
    """Find a recipe's file by path (``my.toml``) or shipped name (``eighteen``); see :func:`find_shipped`."""
    return find_shipped(name_or_path, shipped_recipes(), "recipe")


def find_shipped(name_or_path: str | Path, shipped: Mapping[str, Path], kind: str) -> Path:
    """Find a file of a ``kind`` by its path, or by name among the ``shipped``; RecipeError if none is."""
    path, name = Path(os.path.expanduser(name_or_path)), str(name_or_path)
    if os.path.isfile(path):
        return path
    if name in shipped:
        return shipped[name]
    match = closest_match(path.stem, shipped)
    hint = f"did you mean {match!r}? " if match else ""
    raise RecipeError(
        f"expected a {kind} file or the name of a shipped {kind}, found {name!r}; {hint}"
        f"shipped: {', '.join(shipped)} (`modenc recipe list` lists them)"
    )


def read_tables(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the tables of a recipe, merged over those that it includes; ``above`` are files that include it.

    Raises:
        RecipeError: a file is missing, is no valid TOML, or includes itself.
    """
    if path.resolve() in above:
        names = " -> ".join(file.name for file in (*above, path))
        raise RecipeError(f"include goes in a circle: {names}; remove one of these includes")
    tables = read_toml(path)
    if (included := tables.pop("include", None)) is None:
        return tables
    # A shipped recipe that was copied elsewhere still finds what it includes.
    for folder in (path.parent, recipes_folder()):
        if isinstance(included, str) and os.path.isfile(folder / included):
            return merge(read_tables(folder / included, (*above, path.resolve())), tables)
    raise RecipeError(
        f"{path}: include: expected the name of a file beside it or of a shipped recipe, found {included!r}"
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of one file; RecipeError if it cannot be read, or is not valid TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: expected UTF-8 text, found byte {error.start} that is not") from error
    except ValueError as error:
        raise RecipeError(f"{path}: expected TOML, found a syntax error: {error}") from error


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Merge ``upper`` over ``lower``: tables key by key; all else, lists too, is replaced."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def normalize_languages(tables: dict[str, Any], issues: list[Issue]) -> dict[str, Any]:
    """Normalize the keys of ``languages`` in ``tables``; unknown codes stay as they are."""
    languages = tables.get("languages")
    if not isinstance(languages, dict):
        return tables
    renamed: dict[str, Any] = {}
    for code, own in languages.items():
        if (normalized := find_code(code) or code) in renamed:
            message = f"the same language as languages.{normalized}; keep one"
            issues.append(Issue(("languages", code), message))
        renamed[normalized] = own
    return {**tables, "languages": renamed}


def apply_overrides(tables: dict[str, Any], overrides: Sequence[str], issues: list[Issue]) -> dict[str, Any]:
    """Merge each ``a.b=value`` of the command line over ``tables``; later ones win.

    Values are TOML; a bare word is text. An override applies to every language, even if its table
    ``[languages.CODE]`` has another value.
    """
    for override in overrides:
        name, equals, raw = override.partition("=")
        keys = [key.strip() for key in name.split(".")]
        if not equals or not all(keys):
            issues.append(Issue((f"override {override!r}",), "expected KEY=VALUE such as run.seed=1"))
            continue
        upper = parse_value(raw)
        for key in reversed(keys):
            upper = {key: upper}
        upper = normalize_languages(upper, issues)
        if isinstance(languages := tables.get("languages"), dict):
            own = {code: _without(own, upper) for code, own in languages.items()}
            tables = {**tables, "languages": own}
        tables = merge(tables, upper)
    return tables


def parse_value(raw: str) -> Any:
    """Parse a TOML value; anything else (a bare word, a path) is text."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except ValueError:
        return raw.strip()


def _without(own: Any, upper: dict[str, Any]) -> Any:
    """Remove the values from a language's table that ``upper`` has, too."""
    if not isinstance(own, dict):
        return own
    return {
        key: _without(value, upper[key]) if isinstance(upper.get(key), dict) else value
        for key, value in own.items()
        if key not in upper or (isinstance(value, dict) and isinstance(upper[key], dict))
    }
