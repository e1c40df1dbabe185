"""Settings that count rows, against the rows that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from modenc.data.look_rows import Seen
from modenc.recipe.conflicts import Conflict, Level
from modenc.recipe.reads import reads_to_align
from modenc.recipe.settings import LanguagePlan

# The fewest lines that a corpus may have, see check_enough.
_FEWEST_LINES = 50
# A word is cut into pieces, each of which many words share.
_PIECES_A_WORD = 4
_MANY_PASSES = 20


def sizes(plan: LanguagePlan, seen: Mapping[str, Sequence[Seen]]) -> Iterator[Conflict]:
    """What is too large or too small for a language's data.

    Args:
        plan: the language's.
        seen: list of sources → what was seen of each that is there.
    """
    yield from _text(plan, seen.get("text", ()))
    for place, steps, batch, lists in _readers(plan):
        found = [one for name in lists for one in seen.get(name, ())]
        rows = sum(one.kept for one in found)
        if not steps or not rows or not all(one.counted for one in found):
            continue
        if rows < batch:
            message = f"expected as many rows as a batch has at least ({batch}), found {rows:,}"
            yield Conflict((*place, "optimizer", "batch_size"), message, level="warning")
        elif (passes := steps * batch / rows) > _MANY_PASSES:
            message = f"{steps} steps of {batch} show each of {rows:,} rows {passes:.0f} times"
            yield Conflict((*place, "optimizer", "steps"), message, level="note")


def _text(plan: LanguagePlan, found: Sequence[Seen]) -> Iterator[Conflict]:
    if not found or not all(one.counted and not one.conflicts for one in found):
        return
    lines = sum(one.kept for one in found)
    used = (
        plan.vocabulary.method != "base",
        plan.language_adaptation.objective != "none",
        "simcse" in plan.sentence_encoding.objective,
    )
    if any(used) and lines < _FEWEST_LINES:
        message = (
            f"expected at least {_FEWEST_LINES} lines, found {lines}; add text, or choose stages without"
        )
        yield Conflict(("data", "text"), message)
    words = len(set().union(*(one.words for one in found)))
    if plan.vocabulary.method != "base" and words and plan.vocabulary.size > _PIECES_A_WORD * words:
        message = (
            f"{plan.vocabulary.size:,} pieces are more than {lines:,} lines with {words:,} different words "
            f"can teach; expected at most {_PIECES_A_WORD * words:,}, or method = 'base', which needs no text"
        )
        # "trim" fills up with the base's own pieces.
        level: Level = "warning" if plan.vocabulary.method == "trim" else "fault"
        yield Conflict(("vocabulary", "size"), message, level=level)


def _readers(plan: LanguagePlan) -> Iterator[tuple[tuple[str, ...], int, int, tuple[str, ...]]]:
    """Each stage that reads pairs: its section, steps, batch, and the lists that it reads."""
    encoding, alignment = plan.sentence_encoding, plan.alignment
    if "mnrl" in encoding.objective:
        optimizer = encoding.optimizer
        yield ("sentence_encoding",), optimizer.steps, optimizer.batch_size, ("paraphrases",)
    if alignment.objective != "none" and plan.lang != plan.pivot:
        lists = tuple(name for name in reads_to_align(alignment.objective, plan.emma_x) if name != "text")
        yield ("alignment",), alignment.optimizer.steps, alignment.optimizer.batch_size, lists
