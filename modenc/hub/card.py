"""The card of a language's modules: what they are, what they were made from, how good they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from modenc.errors import HubError
from modenc.hub.checks.schema import OPTIONAL, key_faults, listed
from modenc.hub.files import json_object
from modenc.hub.seal import SEAL, check_seal, sealed_text

# Key → what its values are, and in words; booleans are none of these.
_INNER: dict[str, tuple[tuple[type, ...], str]] = {
    "stages": ((dict,), "objects"),
    "data": ((dict,), "objects"),
    "licences": ((str,), "texts"),
    "scores": ((int, float), "numbers"),
    "versions": ((str,), "texts"),
    "comparison": ((dict,), "objects"),
}
# Greater ones cannot be shown as a number with a point.
_MOST_BITS = 1000


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
    """One ``{role, source, licence, rows, translator}`` per source of texts."""
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
    comparison: dict[str, dict[str, float]] = field(default_factory=dict, metadata=OPTIONAL)
    """System → metric → value on held-out data (:mod:`modenc.hub.comparison`); older cards lack it."""

    def digest(self, part: str = "") -> str:
        """SHA-256 over the checksums of the files below ``part``; README.md, which is for people, aside."""
        lines = [
            f"{name} {record['sha256']}"
            for name, record in sorted(self.files.items())
            if name.startswith(part) and name != "README.md"
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def to_json(self) -> str:
        """The card as the text of ``card.json``, sealed."""
        content = asdict(self)
        if not self.comparison:  # so that an older card stays as it is
            del content["comparison"]
        return sealed_text(content)

    @staticmethod
    def from_json(text: str, where: str = "card.json") -> Card:
        """Read what :meth:`to_json` wrote; ``where`` is the file's name for messages.

        Raises:
            HubError: the text is no JSON object, keys are missing, unknown or of another type (the
                first of them are named), or the text is not what was sealed.
        """
        content = json_object(text, where)
        seal = content.pop(SEAL, None)
        check_seal(text, seal, where)
        if faults := listed(_faults(content)):
            raise HubError(
                f"{where}: {faults}. The card may come from another version of modenc: "
                "update modenc, or install the language again"
            )
        return Card(**content)


def _faults(content: dict[str, Any]) -> Iterator[str]:
    """What keeps a JSON object from being a card, one phrase a fault."""
    yield from key_faults(content, Card)
    files = content.get("files")
    if isinstance(files, dict):
        for name, record in files.items():
            if not _is_file_record(record):
                yield f"files: expected sha256 and bytes for {name!r:.60}, found {record!r:.60}"
    for key, (types, words) in _INNER.items():
        yield from _inner_faults(key, content.get(key), types, words)
    comparison = content.get("comparison")
    for system, figures in comparison.items() if isinstance(comparison, dict) else ():
        yield from _inner_faults(f"comparison: {system!r:.60}", figures, (int, float), "numbers")


def _inner_faults(key: str, inside: Any, types: tuple[type, ...], words: str) -> Iterator[str]:
    found = inside.values() if isinstance(inside, dict) else inside if isinstance(inside, list) else ()
    wrong = [value for value in found if isinstance(value, bool) or not isinstance(value, types)]
    wrong += [value for value in found if isinstance(value, int) and value.bit_length() > _MOST_BITS]
    yield from (f"{key}: expected {words} in it, found {value!r:.60}" for value in wrong[:1])


def _is_file_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and set(record) == {"sha256", "bytes"}
        and isinstance(record["sha256"], str)
        and type(record["bytes"]) is int
        and 0 <= record["bytes"] < 1 << 63
    )
