"""Pages that mkdocs writes from the code and the benchmarks when it builds the site."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mkdocs_gen_files

from modenc.cli.main import COMMANDS, build_parser
from modenc.cli.recipe import explanations, source_keys

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
    for key, text in source_keys().items():
        yield f"| `{key}` | {_plain(text)} |"


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
    one_line = _ROLE.sub(r"`\1`", " ".join(text.split()))
    return one_line.replace("|", "\\|").replace("{", "&#123;")


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
    yield re.sub(r"\A# .*\n", f"# {title}\n", text)


PAGES = {
    "recipe_reference.md": recipe_reference(),
    "command_line.md": command_line(),
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
