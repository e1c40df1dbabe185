"""Pages that mkdocs writes from the code and the benchmarks when it builds the site."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

import mkdocs_gen_files

from modenc.cli.main import COMMANDS, build_parser
from modenc.data.sources import Source
from modenc.recipe.loader import RecipeHeader
from modenc.recipe.plan import SECTIONS

ROOT = Path(__file__).resolve().parents[1]
DEFAULTS = ROOT / "recipes" / "_defaults.toml"
_ROLE = re.compile(r":\w+:`~?(?:\w+\.)*(\w+)`")


def recipe_reference() -> Iterator[str]:
    """Every table and key: its default, its meaning from the settings classes, and the default's reason."""
    yield (
        "# Recipes\n\nA recipe is a TOML file. What it leaves out has the default given here, and a table "
        "`[languages.CODE]` may hold any of these keys for one language. `modenc recipe show my.toml` prints "
        "a recipe with every key filled in.\n"
    )
    defaults, reasons = tomllib.loads(DEFAULTS.read_text(encoding="utf-8")), _reasons()
    for place, text in explanations().items():
        default: Any = defaults
        for name in place:
            default = default.get(name, "") if isinstance(default, dict) else ""
        if isinstance(default, dict) and default:
            title = f"[{'.'.join(place)}]" if place else "At the top"
            yield f"\n## {title}\n\n{_plain(text)}\n\n| key | default | meaning |\n|---|---|---|"
        else:
            reason = f" *Default: {_plain(reasons[place])}*" if place in reasons else ""
            shown = f"`{json.dumps(default, ensure_ascii=False)}`" if default != "" else ""
            yield f"| `{place[-1]}` | {shown} | {_plain(text)}{reason} |"
    yield (
        "\n## Sources\n\nAn entry of `data.text`, `data.parallel` and the other lists is a path, or a table "
        "with these keys.\n\n| key | meaning |\n|---|---|"
    )
    for key, text in _field_texts(Source).items():
        yield f"| `{key}` | {_plain(text)} |"


def explanations() -> dict[tuple[str, ...], str]:
    """Place of a key or table → its explanation in the settings classes."""
    texts: dict[tuple[str, ...], str] = {}
    _collect(RecipeHeader, (), texts)
    for name, section in SECTIONS.items():
        _collect(section, (name,), texts)
    return texts


def _collect(cls: type, place: tuple[str, ...], texts: dict[tuple[str, ...], str]) -> None:
    texts[place] = (inspect.getdoc(cls) or "").split("\n\n")[0]
    hints = get_type_hints(cls).items()
    tables = {name: hint for name, hint in hints if is_dataclass(hint) and isinstance(hint, type)}
    # A table's own keys come first, then the tables in it.
    texts |= {(*place, name): text for name, text in _field_texts(cls).items() if name not in tables}
    for name, hint in tables.items():
        _collect(hint, (*place, name), texts)


def _field_texts(cls: type) -> dict[str, str]:
    """Return field name → docstring of the field, those of a class above first."""
    texts = _field_texts(cls.__base__) if cls.__base__ and is_dataclass(cls.__base__) else {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    for statement, below in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[statement.target.id] = str(below.value.value)
    settings = {name for name, hint in get_type_hints(cls).items() if not is_dataclass(hint)}
    if missing := settings - texts.keys():
        raise ValueError(f"{cls.__name__}: expected a docstring below each setting, found none of {missing}")
    return texts


def _reasons() -> dict[tuple[str, ...], str]:
    """Place of a key → the comment above it in the defaults."""
    reasons: dict[tuple[str, ...], str] = {}
    table: tuple[str, ...] = ()
    comment: list[str] = []
    for line in DEFAULTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            comment.append(line[1:].strip())
            continue
        if line.startswith("["):
            table = tuple(line.strip("[]").split("."))
        elif comment and (key := re.match(r"([\w.]+) =", line)):
            reasons[(*table, *key.group(1).split("."))] = " ".join(comment)
        comment = []
    return reasons


def _plain(text: str) -> str:
    one_line = _ROLE.sub(r"`\1`", " ".join(text.replace("``", "`").split()))
    # Outside of code a cell that ends in braces would be read as an HTML attribute.
    escaped = one_line.replace("|", "\\|")
    return re.sub(r"`[^`]*`|\{", lambda found: "&#123;" if found[0] == "{" else found[0], escaped)


def command_line() -> Iterator[str]:
    """The help of every command."""
    yield "# Command line\n\n`modenc COMMAND --help` prints the same.\n"
    for name in COMMANDS:
        for words, parser in _parsers(name):
            yield f"\n## modenc {' '.join(words)}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def _parsers(name: str) -> Iterator[tuple[list[str], Any]]:
    top = build_parser(name)._subparsers._group_actions[0].choices[name]  # type: ignore[union-attr,index]
    below = top._subparsers
    if below is None:
        yield [name], top
        return
    for verb, parser in below._group_actions[0].choices.items():
        yield [name, verb], parser


def copied(source: str, title: str) -> Iterator[str]:
    """A page from outside docs/, under a title of the site's."""
    text = (ROOT / source).read_text(encoding="utf-8")
    yield re.sub(r"\A# .*\n", f"# {title}\n", text).replace("](../docs/", "](")


def each_language() -> Iterator[str]:
    """The tables of README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = text.split("<!-- languages.py writes from here -->")[1].split("<!-- to here -->")[0]
    yield "# Each language, and other models\n" + tables.replace("(docs/", "(")


PAGES = {
    "recipe_reference.md": recipe_reference(),
    "command_line.md": command_line(),
    "each_language.md": each_language(),
    "search_trials.md": copied("benchmarks/search_trials.md", "Trials for search"),
    "results.md": copied("benchmarks/RESULTS.md", "All results"),
    "performance.md": copied("benchmarks/PERFORMANCE.md", "Speed and memory"),
    "mining_results.md": copied("benchmarks/mining.md", "Mining bitext: results"),
    "security.md": copied("SECURITY.md", "Security"),
}

for page, lines in PAGES.items():
    with mkdocs_gen_files.open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
for picture in (ROOT / "benchmarks").glob("*/*.png"):
    with mkdocs_gen_files.open(picture.relative_to(ROOT / "benchmarks").as_posix(), "wb") as copy:
        copy.write(picture.read_bytes())
