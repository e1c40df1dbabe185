"""``adapters_hub/upgrade.py``: a hub without version folders is rewritten, its modules as they are."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

from modenc.errors import ModencError
from modenc.hub.store import Hub

UPGRADE = Path(__file__).resolve().parents[2] / "adapters_hub" / "upgrade.py"


@pytest.fixture
def old(hub: Hub, tmp_path: Path) -> Path:
    """Make a hub as it was: each language's files beside its card, which has scores and no version."""
    folder = tmp_path / "old"
    shutil.copytree(hub.path, folder)
    for card in folder.glob("*/card.json"):
        content = json.loads(card.read_text(encoding="utf-8"))
        version = card.parent / content.pop("version")
        for path in version.iterdir():
            path.rename(card.parent / path.name)
        version.rmdir()
        card.write_text(json.dumps({**content, "scores": {"sts": 70.0}}), encoding="utf-8")
    return folder


def test_an_old_hub_is_rewritten_with_the_same_files(hub: Hub, old: Path, tmp_path: Path) -> None:
    upgrade = runpy.run_path(str(UPGRADE))["upgrade"]
    upgrade(old, tmp_path / "new")
    new = Hub.open(tmp_path / "new")
    assert new.languages() == hub.languages()
    assert new.verify() == []
    assert [new.card(lang).fingerprint() for lang in new.languages()] == [
        hub.card(lang).fingerprint() for lang in hub.languages()
    ]
    assert new.card("kk").comparison == hub.card("kk").comparison


def test_files_that_are_not_those_of_the_card_are_refused(old: Path, tmp_path: Path) -> None:
    weights = old / "kk" / "se" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(ModencError, match="kk: expected the files of its card, found others"):
        runpy.run_path(str(UPGRADE))["upgrade"](old, tmp_path / "new")
