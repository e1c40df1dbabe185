"""Card of a language's modules: their origin, data, scores and files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from modenc.errors import HubError
from modenc.hub.layout import (
    PART_FILES,
    VERSION_FOLDER,
    check_keys,
    files_below,
    json_object,
    json_text,
    sha256,
)
from modenc.licenses import commercial_use


class FileRecord(TypedDict):
    """Size and checksum of a published file."""

    sha256: str
    bytes: int


def file_records(folder: Path) -> dict[str, FileRecord]:
    """Return the size and checksum of each file in a folder of modules."""
    return {
        name: FileRecord(sha256=sha256(path), bytes=path.stat().st_size) for name, path in files_below(folder)
    }


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
    """System → metric → value on held-out data, see :data:`Comparison`."""
    version: str = field(default="", compare=False)
    """Folder of the files, beside the card; filled in by publishing."""

    def fingerprint(self, prefix: str = "") -> str:
        """Hash the checksums of the files whose path starts with ``prefix``, except README.md."""
        lines = [
            f"{name} {record['sha256']}"
            for name, record in sorted(self.files.items())
            if name.startswith(prefix) and name != "README.md"
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts whose files are on the card, of ``tokenizer embeddings la se cla``."""
        return tuple(part for part, names in PART_FILES.items() if set(names) <= self.files.keys())

    @property
    def commercial_use(self) -> str:
        """Whether the modules may be used commercially, by their licenses and those of all of their data."""
        return commercial_use([*self.licenses, *(str(row.get("license") or "") for row in self.data)])

    @property
    def nbytes(self) -> int:
        """Bytes of all files together."""
        return sum(record["bytes"] for record in self.files.values())

    def to_json(self) -> str:
        """Write the card as the text of ``card.json``."""
        return json_text(asdict(self))

    @staticmethod
    def from_json(text: str, where: str = "card.json") -> Card:
        """Parse the text of ``card.json``; ``where`` is the file's name for messages.

        Raises:
            HubError: the text is no JSON object, or keys are missing, unknown or of another type.
        """
        content = json_object(text, where)
        check_keys(content, Card, where)
        card = Card(**content)
        if not VERSION_FOLDER.fullmatch(card.version):
            raise HubError(
                f"{where}: version: expected a name such as v-0123abcd, found {card.version!r:.60}"
            )
        return card


Comparison = Mapping[str, Mapping[str, float]]
"""A language's modules and the base on the same held-out data, as stored in its card.

The systems ``base``, ``modules`` and, for a language with alignment, ``align=False`` → metric → value, and
``rows`` → metric → number of held-out rows. Empty without held-out data.
"""

BASE, MODULES, UNALIGNED, ROWS = "base", "modules", "align=False", "rows"
TOKENS = "tokens"
SCORES: dict[str, str] = {
    "sts": "similarity within the language (Spearman x 100)",
    "search": "search within the language (nDCG@10 x 100)",
    "cross_sts": "similarity across to the pivot (Spearman x 100)",
    "cross_search": "search across from the pivot (nDCG@10 x 100)",
    "retrieval": "translations found, both ways (%)",
}
"""Metric → description. The mean of these decides whether modules are worse than the base."""
AVERAGED = "averaged_with"
"""Among a stage's metrics: the other training, where adapters_hub/average.py made its weights an average."""


def shared_scores(comparison: Comparison) -> list[str]:
    """Return the metrics of :data:`SCORES` that every system in the comparison has."""
    systems = [metrics for name, metrics in comparison.items() if name != ROWS]
    return [metric for metric in SCORES if systems and all(metric in metrics for metrics in systems)]


def mean_score(comparison: Comparison, system: str) -> float | None:
    """Return the mean of a system's shared metrics; None without any."""
    shared = shared_scores(comparison)
    return sum(comparison[system][metric] for metric in shared) / len(shared) if shared else None


def is_worse_than_base(comparison: Comparison) -> bool:
    """Check whether the mean of the shared metrics is lower with modules than without."""
    modules, base = (mean_score(comparison, system) for system in (MODULES, BASE))
    return modules is not None and base is not None and modules < base


def table_of(comparison: Comparison) -> list[tuple[str, ...]]:
    """Make a table: a header, and each metric's description, held-out rows and values."""
    systems = [name for name in (BASE, MODULES, UNALIGNED) if name in comparison]
    shared, rows = shared_scores(comparison), comparison.get(ROWS, {})
    lines = [
        (SCORES[metric], f"{rows.get(metric, 0):.0f}", *(f"{comparison[s][metric]:.1f}" for s in systems))
        for metric in shared
    ]
    if len(shared) > 1:
        lines.append(("mean", "", *(f"{mean_score(comparison, system):.1f}" for system in systems)))
    if systems and all(TOKENS in comparison[system] for system in systems):
        counts = (f"{comparison[system][TOKENS]:.1f}" for system in systems)
        lines.append(("tokens a sentence (fewer are better)", f"{rows.get(TOKENS, 0):.0f}", *counts))
    return [("held-out data", "rows", *systems), *lines] if lines else []
