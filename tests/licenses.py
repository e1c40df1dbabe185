"""Licenses of all that users install: writes ``docs/licenses.md``, or compares it (``--check``).

Run by ``make audit``, which installs pip-licenses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("train", "eval", "translate", "onnx", "openvino", "serve", "ray", "mteb")
TABLE = Path(__file__).resolve().parents[1] / "docs" / "licenses.md"
_HEAD = """# Licenses of dependencies

What `pip install modenc[{extras}]` brings, as its metadata says (`python tests/licenses.py` writes this
table, `make audit` compares it). All in it may be used beside modenc's own Apache-2.0, in products too.

| package | license |
| --- | --- |
"""


ELSEWHERE = {
    "colorama": "BSD License, on Windows",
    "triton": "MIT, with torch for GPUs",
    "cuda-*": "NVIDIA's own terms, with torch for GPUs",
    "nvidia-*": "NVIDIA's own terms, with torch for GPUs",
}
"""Not installed where the table is made: a system with torch's build for processors."""


def found() -> dict[str, str]:
    """Package → license, of modenc's dependencies that are installed."""
    command = [sys.executable, "-m", "piplicenses", "--from=mixed", "--format=json", "--with-system"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    licenses = {canonicalize_name(row["Name"]): row["License"] for row in json.loads(done.stdout)}
    return {name: licenses[name] for name in sorted(_needed()) if name in licenses}


def listed() -> dict[str, str]:
    """Package → license, of the table."""
    rows = TABLE.read_text(encoding="utf-8").partition("| --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    return dict(row.strip("| ").split(" | ") for row in rows)


def _needed() -> set[str]:
    """Names of modenc's dependencies, and theirs."""
    seen: set[tuple[str, str]] = set()
    waiting = [("modenc", extra) for extra in ("", *EXTRAS)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue  # not for this system
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                other = canonicalize_name(requirement.name)
                waiting += [(other, wanted) for wanted in ("", *requirement.extras)]
    return {name for name, _ in seen} - {"modenc"}


if __name__ == "__main__":
    table = found()
    if sys.argv[1:] != ["--check"]:
        rows = "".join(f"| {name} | {license} |\n" for name, license in table.items())
        others = "; ".join(f"`{name}`: {terms}" for name, terms in ELSEWHERE.items())
        text = f"{_HEAD.format(extras=','.join(EXTRAS))}{rows}\nElsewhere also {others}.\n"
        TABLE.write_text(text, encoding="utf-8")
    elif changed := dict(table.items() - listed().items()):
        sys.exit(f"licenses not listed in {TABLE.name}: {changed}; see what they permit, then write it again")
