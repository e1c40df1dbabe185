"""Carries ``recipes/`` into the built package as ``modenc/_recipes``; all else is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    """``build_py`` that also copies the recipes; an editable install reads them where they are."""

    def run(self) -> None:
        """Build the modules, then add the recipes."""
        super().run()
        if not self.editable_mode:
            source, target = Path("recipes"), Path(self.build_lib, "modenc", "_recipes")
            for file in sorted(source.rglob("*.toml")):
                destination = target / file.relative_to(source)
                self.mkpath(str(destination.parent))
                self.copy_file(str(file), str(destination))


setup(cmdclass={"build_py": BuildWithRecipes})
