"""The card of a language's modules: what they are, what they were made from, how good they are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypedDict, get_origin, get_type_hints

from modenc.errors import HubError


class FileRecord(TypedDict):
    """Size and checksum of a published file."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Card:
    """``card.json``: everything that is known of one language's modules."""

    lang: str
    """Normalised language code; the name of the folder."""
    name: str
    """English name of the language."""
    base_id: str
    """Base the modules were trained on."""
    base_fingerprint: str
    """The base's exact weights; loading refuses another base."""
    stages: dict[str, dict[str, Any]]
    """Stage name → its settings, fingerprint and metrics."""
    data: list[dict[str, Any]]
    """One ``{role, source, licence, rows}`` per source of texts."""
    licences: list[str]
    """Licences that the modules are under."""
    scores: dict[str, float]
    """Metric → value."""
    recipe: str
    """Name of the recipe."""
    recipe_hash: str
    """SHA-256 of the resolved recipe."""
    seed: int
    """Seed of the run."""
    versions: dict[str, str]
    """Package → version the modules were trained with."""
    created: str
    """ISO 8601 date."""
    files: dict[str, FileRecord] = field(default_factory=dict)
    """Path in the language's folder → size and checksum; filled in on publishing."""

    def to_json(self) -> str:
        """The card as the text of ``card.json``."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str, where: str = "card.json") -> Card:
        """Read what :meth:`to_json` wrote; ``where`` is the file's name for messages.

        Raises:
            HubError: the text is no JSON object, or keys are missing, unknown or of another type;
                all of them are named.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise HubError(f"{where}: expected a card in JSON, found: {error}") from error
        if not isinstance(content, dict):
            raise HubError(f"{where}: expected a card (a JSON object), found {type(content).__name__}")
        faults = _faults(content)
        if faults:
            raise HubError(
                f"{where}: {'; '.join(faults)}. The card may come from another version of modenc: "
                "update modenc, or install the language again"
            )
        return Card(**content)


def _faults(content: dict[str, Any]) -> list[str]:
    """What keeps a JSON object from being a card, one phrase a key."""
    types = {name: get_origin(hint) or hint for name, hint in get_type_hints(Card).items()}
    wanted = [item.name for item in fields(Card)]
    missing = [name for name in wanted if name not in content]
    faults = [f"missing key {name!r}" for name in missing]
    for name, value in content.items():
        if name not in types:
            close = get_close_matches(name, wanted, n=1)
            faults.append(f"unknown key {name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""))
        elif not isinstance(value, types[name]) or isinstance(value, bool):
            faults.append(f"{name}: expected {types[name].__name__}, found {value!r:.60}")
        elif name == "files":
            faults += [
                f"files: expected sha256 and bytes for {file!r}, found {record!r:.60}"
                for file, record in value.items()
                if not _is_file_record(record)
            ]
    return faults


def _is_file_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and set(record) == {"sha256", "bytes"}
        and isinstance(record["sha256"], str)
        and type(record["bytes"]) is int
    )
