"""Rewrite a hub of before November 2026, whose languages had no version folders.

``python adapters_hub/upgrade.py OLD_HUB NEW_HUB`` reads the old hub, compares its files with its cards, and
publishes its languages in a new one. The modules stay the same to the byte.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

from modenc.errors import ModencError
from modenc.hub.card import Card, file_records
from modenc.hub.layout import CARD_FILE, README_FILE, json_object, read_info, read_text
from modenc.hub.store import Hub

_BY_PUBLISHING = ("files", "version")


def upgrade(old: Path, new: Path) -> None:
    """Publish all languages of the hub ``old`` in the hub ``new``.

    Raises:
        ModencError: the hub or a language cannot be used; the languages before it are in ``new``.
    """
    hub = Hub.create(new, read_info(old))
    for path in sorted(old.glob(f"*/{CARD_FILE}")):
        content = json_object(read_text(path), str(path))
        own = [item.name for item in fields(Card) if item.name in content and item.name not in _BY_PUBLISHING]
        with TemporaryDirectory() as folder:
            modules = Path(folder, "modules")
            shutil.copytree(path.parent, modules, ignore=shutil.ignore_patterns(CARD_FILE, README_FILE))
            known = {name: record for name, record in content["files"].items() if name != README_FILE}
            if file_records(modules) != known:
                raise ModencError(f"{path.parent}: expected the files of its card, found others")
            hub.publish(modules, Card(**{name: content[name] for name in own}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        upgrade(Path(sys.argv[1]), Path(sys.argv[2]))
    except ModencError as error:
        sys.exit(f"{error}")
