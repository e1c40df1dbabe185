"""``hub.json``, the file that makes a folder a hub."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.checks.schema import key_faults, listed
from modenc.hub.files import json_object, json_text, read_text
from modenc.hub.layout import CARD_FILE, FORMAT_VERSION, HUB_FILE, HubInfo, info_faults
from modenc.storage import write_atomically


def read_info(root: Path) -> HubInfo:
    """What ``hub.json`` in the folder ``root`` says.

    Raises:
        HubError: there is none, or it is of a format that this version cannot read.
    """
    path = root / HUB_FILE
    try:
        found = path.is_file()
    except OSError as error:  # a name that is too long
        raise HubError(f"expected a hub's folder, found {str(root)!r:.60}… ({error.strerror})") from error
    if not found:
        raise HubError(_no_hub(root))
    content = json_object(read_text(path), str(path))
    content.pop("seal", None)  # a checksum, in hubs of before 0.1.0
    version = content.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise HubError(
            f"{path}: expected format_version {FORMAT_VERSION}, found {version!r:.60}; update modenc"
        )
    faults = listed(key_faults(content, HubInfo)) or listed(info_faults(HubInfo(**content)))
    if faults:
        raise HubError(f"{path}: {faults}; correct it, or make the hub again")
    return HubInfo(**content)


def write_info(root: Path, info: HubInfo) -> None:
    """Write ``hub.json``."""
    content = {"format_version": FORMAT_VERSION, **asdict(info)}
    write_atomically(root / HUB_FILE, json_text(content))


def _no_hub(root: Path) -> str:
    if not root.exists():
        found = "no such folder"
    elif not root.is_dir():
        found = "a file"
    elif (root / CARD_FILE).is_file():
        found = f"a language's folder; its hub is {root.resolve().parent}"
    else:
        inside = sorted(hub.parent.name for hub in root.glob(f"*/{HUB_FILE}"))
        found = f"a folder without it (hubs inside: {', '.join(inside)})" if inside else "a folder without it"
    return (
        f"{root}: expected a hub (a folder with {HUB_FILE}), found {found}; give a hub's path, or train one"
    )
