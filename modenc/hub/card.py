"""Card of a language's modules: their origin, data, scores and files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from modenc.errors import HubError
from modenc.hub.checks.schema import key_issues, listed
from modenc.hub.files import json_object, json_text
from modenc.hub.layout import PART_FILES
from modenc.provenance import with_new_keys

# Infix of scores on development data, between the stage and the metric.
_AFTER = "_dev_after_"


class FileRecord(TypedDict):
    """Size and checksum of a published file."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Card:
    """Content of ``card.json``: metadata of one language's modules."""

    lang: str
    """Normalized language code; the name of the folder."""
    name: str
    """English name of the language."""
    base_id: str
    """Base that the modules were trained on."""
    base_fingerprint: str
    """Fingerprint of the base's weights; another base is refused."""
    stages: dict[str, dict[str, Any]]
    """Stage name → its settings, fingerprint and metrics."""
    data: list[dict[str, Any]]
    """Entry ``{role, source, license, rows, translator}`` for each source; ``role`` is its kind of data."""
    licenses: list[str]
    """Licenses of the modules."""
    scores: dict[str, float]
    """Metric → value."""
    recipe: str
    """Name of the recipe."""
    recipe_hash: str
    """SHA-256 of the resolved recipe."""
    seed: int
    """Seed of the run."""
    versions: dict[str, str]
    """Package → version at training."""
    created: str
    """ISO 8601 date."""
    files: dict[str, FileRecord] = field(default_factory=dict)
    """Path in the language's folder → size and checksum; filled in by publishing."""
    comparison: dict[str, dict[str, float]] = field(default_factory=dict)
    """System → metric → value on held-out data (:mod:`modenc.hub.comparison`); older cards lack it."""

    def fingerprint(self, prefix: str = "") -> str:
        """Hash the checksums of the files whose path starts with ``prefix``, except README.md."""
        lines = [
            f"{name} {record['sha256']}"
            for name, record in sorted(self.files.items())
            if name.startswith(prefix) and name != "README.md"
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def last_scores(self) -> dict[str, float]:
        """Return the metrics of the last scored stage without their mean, or else three scores."""
        last = {key.split(_AFTER)[1]: value for key, value in self.scores.items() if _AFTER in key}
        if len(last) > 1:
            last.pop("score", None)
        return last or dict(list(self.scores.items())[:3])

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts whose files are on the card, of ``tokenizer embeddings la se cla``."""
        return tuple(part for part, names in PART_FILES.items() if set(names) <= self.files.keys())

    @property
    def nbytes(self) -> int:
        """Bytes of all files together."""
        return sum(record["bytes"] for record in self.files.values())

    def to_json(self) -> str:
        """Write the card as the text of ``card.json``."""
        content = asdict(self)
        if not self.comparison:  # cards from before there was a comparison stay the same
            del content["comparison"]
        return json_text(content)

    @staticmethod
    def from_json(text: str, where: str = "card.json") -> Card:
        """Parse the text of ``card.json``; ``where`` is the file's name for messages.

        Raises:
            HubError: the text is no JSON object, or keys are missing, unknown or of another type.
        """
        content = with_new_keys(json_object(text, where))
        content.pop("seal", None)  # a checksum, in cards of before 0.1.0
        if isinstance(sources := content.get("data"), list):
            content["data"] = [with_new_keys(row) if isinstance(row, dict) else row for row in sources]
        if issues := listed(key_issues(content, Card, optional=("comparison",))):
            raise HubError(
                f"{where}: {issues}. The card may come from another version of modenc: "
                "update modenc, or install the language again"
            )
        return Card(**content)
