"""A hub of tiny languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_languages import INFO, publish

from modenc.hub.store import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A hub with en (pivot), kk and az."""
    made = Hub.create(tmp_path / "hub", INFO)
    for lang in ("kk", "en", "az"):
        publish(made, lang)
    return made
