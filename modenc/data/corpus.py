"""A language's running text: what stages 1 and 2, and SimCSE in stage 3, learn from."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from modenc.data.collect import SourceRecord, collect, digest, hold_out
from modenc.data.filters import FilterReport, RowShape
from modenc.data.language_check import check_enough
from modenc.data.readers import read_rows
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import LanguagePlan

logger = logging.getLogger(__name__)

_SHAPE = RowShape(required=("text",), own=("text",))


@dataclass(frozen=True)
class Corpus:
    """Clean lines of one language."""

    train: list[str]
    """In the order of the sources, those of a source with ``repeat`` several times."""
    held_out: list[str]
    """At most ``data.dev.text_held_out`` and a tenth of all; none of them in ``train``."""
    report: FilterReport
    sources: list[SourceRecord]
    digest: str
    """SHA-256 of ``train`` and ``held_out``."""


def load_text(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> Corpus:
    """Read, clean and split the running text of ``plan.data.text``.

    Args:
        plan: the language's part of a recipe.
        identifier: tells languages; None skips that check.

    Raises:
        DataError: a source cannot be read, fewer than 50 lines are usable, or too small a share of
            the lines is in the language.
    """
    data = plan.data
    collected = collect(
        plan,
        identifier,
        "text",
        lambda source: read_rows(source, data.root, plan.lang, plan.pivot, roles=("text",)),
        _SHAPE,
    )
    summary = collected.report.summary()
    check_enough(collected.size, plan.lang, "lines of text (data.text)", summary)
    train, held_out = (
        [row["text"] for row in rows] for rows in hold_out(collected, data.dev.text_held_out, "text")
    )
    logger.info("%s text: %s", plan.lang, summary)
    return Corpus(train, held_out, collected.report, collected.sources, digest(train, held_out))
