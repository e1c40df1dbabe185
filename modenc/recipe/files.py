"""Recipe files: where the shipped ones are, and reading one with all that it includes."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from modenc.errors import RecipeError
from modenc.near import nearest
from modenc.recipe.build import describe

DEFAULTS_FILE = "_defaults.toml"

_PACKAGE = Path(__file__).resolve().parents[1]

# What tomllib needs for a key of many parts grows with their square.
_MOST_BYTES, _MOST_DOTS = 1 << 20, 1000


def recipes_folder() -> Path:
    """The folder of the shipped recipes, in an installed package or in a checkout.

    Raises:
        RecipeError: the installation lacks them.
    """
    # An installed package comes first: beside it, site-packages may hold a stranger's `recipes`.
    for folder in (_PACKAGE / "_recipes", _PACKAGE.parent / "recipes"):
        if (folder / DEFAULTS_FILE).is_file():
            return folder
    raise RecipeError(
        f"expected the shipped recipes in {_PACKAGE / '_recipes'}, found none; "
        "reinstall modenc (pip install --force-reinstall modenc)"
    )


def shipped_recipes() -> dict[str, Path]:
    """Name → file of every shipped recipe, sorted; files that start with ``_`` are parts of others."""
    files = sorted(recipes_folder().glob("*.toml"))
    return {file.stem: file for file in files if not file.stem.startswith("_")}


def find_recipe(name_or_path: str | Path) -> Path:
    """The file of a recipe given by path (``my.toml``) or by a shipped name (``turkic``).

    Raises:
        RecipeError: there is no such recipe; the message names the nearest one.
    """
    path = Path(os.path.expanduser(name_or_path))
    if os.path.isfile(path):
        return path
    shipped, name = shipped_recipes(), str(name_or_path)
    if name in shipped:
        return shipped[name]
    match = nearest(path.stem, shipped)
    hint = f"did you mean {match!r}? " if match else ""
    raise RecipeError(
        f"expected a recipe file or the name of a shipped recipe, found {name!r}; {hint}"
        f"shipped: {', '.join(shipped)} (`modenc recipe list` lists them)"
    )


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a recipe merged over those it includes; ``include`` itself is gone.

    Raises:
        RecipeError: a file is missing, is no valid TOML, or includes itself.
    """
    return _read_chain(path, ())


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """``upper`` over ``lower``: tables are merged key by key, all else (lists too) is replaced."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _read_chain(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in above:
        names = " -> ".join(file.name for file in (*above, path))
        raise RecipeError(f"include goes in a circle: {names}; remove one of these includes")
    tables = read_toml(path)
    included = tables.pop("include", None)
    if included is None:
        return tables
    if not isinstance(included, str):
        raise RecipeError(f"{path}: include: expected a file name, found {describe(included)}")
    return merge(_read_chain(_find_included(path, included), (*above, path.resolve())), tables)


def _find_included(path: Path, included: str) -> Path:
    # A shipped recipe that was copied elsewhere still finds what it includes.
    for folder in (path.parent, recipes_folder()):
        # os.path, for which a name that no system takes is just none that is there.
        if os.path.isfile(folder / included):
            return folder / included
    raise RecipeError(
        f"{path}: include: expected a file beside it or among the shipped recipes, "
        f"found no {describe(included)}"
    )


def _dots(line: bytes) -> int:
    return line.count(b".")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of one file.

    Raises:
        RecipeError: it cannot be read, is too large, or is no valid TOML.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES or max(map(_dots, content.splitlines()), default=0) > _MOST_DOTS:
            raise RecipeError(
                f"{path}: expected a recipe of at most {_MOST_BYTES >> 20} MB and {_MOST_DOTS} dots in a "
                "line, found more; is it one?"
            )
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecipeError:
        raise
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: expected TOML, found a syntax error: {error}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: expected UTF-8 text, found byte {error.start} that is not") from error
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits, and tables nested as deep.
        raise RecipeError(f"{path}: expected a recipe, found what cannot be read: {error}") from error
