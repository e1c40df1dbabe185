"""Check for the packages of optional parts (extras) of modenc."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from modenc.errors import MissingExtraError


def require_extra(extra: str, *packages: str) -> None:
    """Check that the packages of an extra can be imported.

    Raises:
        MissingExtraError: one of ``packages`` is absent; the message holds the install command.
    """
    missing = [package for package in packages if package not in sys.modules and find_spec(package) is None]
    if missing:
        raise MissingExtraError(
            f"{', '.join(missing)} not installed; this part of modenc needs the extra {extra!r}. "
            f'Run: pip install "modenc[{extra}]"'
        )
