"""The lock file and the list of licenses agree with what the project asks for and with what is installed."""

import re
import tomllib
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

import licenses
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# Of licenses that may be used beside Apache-2.0 in anything, by their SPDX names and by those of PyPI.
PERMISSIVE = re.compile(
    r"0BSD|Apache|Apache 2\.0|Apache-2\.0( WITH LLVM-exception)?|Apache Software License|BSD License"
    r"|BSD-[23]-Clause|3-Clause BSD License|BSL-1\.0|CC0-1\.0|CNRI-Python|MIT|MIT-0|MIT License|MIT-CMU"
    r"|MPL-2\.0|Zlib|Mozilla Public License 2\.0 \(MPL 2\.0\)|PSF-2\.0|Python Software Foundation License"
)


@pytest.mark.parametrize(("package", "license"), sorted(licenses.listed().items()))
def test_licenses_are_permissive(package, license):
    parts = re.split(r" AND |; ", license.replace("(BSD", "BSD").replace("later)", "later"))
    parts = [re.sub(r"^\((.+ OR .+)\)$", r"\1", part) for part in parts]
    refused = [part for part in parts if not any(map(PERMISSIVE.fullmatch, part.split(" OR ")))]
    assert refused == [], package


def test_every_locked_dependency_of_users_is_listed():
    packages: dict[str, list[dict]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        packages.setdefault(package["name"], []).append(package)
    (ours,) = packages["modenc"]
    waiting = [*ours["dependencies"], *chain(*(ours["optional-dependencies"][e] for e in licenses.EXTRAS))]
    needed: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        wanted = waiting.pop()
        found = (wanted["name"], tuple(wanted.get("extra", ())))
        if found not in needed:
            needed.add(found)
            for package in packages[found[0]]:
                waiting += package.get("dependencies", [])
                extras = package.get("optional-dependencies", {})
                waiting += chain(*(extras.get(extra, ()) for extra in found[1]))
    unlisted = {name for name, _ in needed} - set(licenses.listed())
    missing = {name for name in unlisted if not any(fnmatch(name, known) for known in licenses.ELSEWHERE)}
    assert missing == set(), "see what their licenses permit, then run: python tests/licenses.py"


def test_the_lock_has_every_dependency_in_its_range():
    locked: dict[str, set[str]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        locked.setdefault(package["name"], set()).add(package.get("version", ""))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        assert locked.get(name), f"{name} is not locked; run: make lock"
        if name != "modenc":
            assert all(requirement.specifier.contains(version) for version in locked[name]), name
