"""The card of a language's modules: what they are, what they were made from, how good they are."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from modenc.errors import HubError
from modenc.hub.checks.schema import key_faults, listed
from modenc.hub.files import json_object, json_text
from modenc.provenance import with_new_keys

# In the names of scores of a stage's development data, between the stage and the metric.
_AFTER = "_dev_after_"


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
    """One ``{role, source, license, rows, translator}`` per source of texts."""
    licenses: list[str]
    """Licenses that the modules are under."""
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
    comparison: dict[str, dict[str, float]] = field(default_factory=dict)
    """System → metric → value on held-out data (:mod:`modenc.hub.comparison`); older cards lack it."""

    def digest(self, part: str = "") -> str:
        """SHA-256 over the checksums of the files below ``part``; README.md, which is for people, aside."""
        lines = [
            f"{name} {record['sha256']}"
            for name, record in sorted(self.files.items())
            if name.startswith(part) and name != "README.md"
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def last_scores(self) -> dict[str, float]:
        """The metrics after the last stage that was scored, without their mean; else the first three."""
        last = {key.split(_AFTER)[1]: value for key, value in self.scores.items() if _AFTER in key}
        if len(last) > 1:
            last.pop("score", None)
        return last or dict(list(self.scores.items())[:3])

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(record["bytes"] for record in self.files.values())

    def to_json(self) -> str:
        """The card as the text of ``card.json``."""
        content = asdict(self)
        if not self.comparison:  # so that an older card stays as it is
            del content["comparison"]
        return json_text(content)

    @staticmethod
    def from_json(text: str, where: str = "card.json") -> Card:
        """Read what :meth:`to_json` wrote; ``where`` is the file's name for messages.

        Raises:
            HubError: the text is no JSON object, or keys are missing, unknown or of another type (the
                first of them are named).
        """
        content = with_new_keys(json_object(text, where))
        content.pop("seal", None)  # a checksum, in cards of before 0.1.0
        if isinstance(sources := content.get("data"), list):
            content["data"] = [with_new_keys(row) if isinstance(row, dict) else row for row in sources]
        if faults := listed(key_faults(content, Card, optional=("comparison",))):
            raise HubError(
                f"{where}: {faults}. The card may come from another version of modenc: "
                "update modenc, or install the language again"
            )
        return Card(**content)
