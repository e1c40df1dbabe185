"""Settings that count rows, against the rows that there are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from modenc.data.inspect_rows import Seen
from modenc.recipe.issues import Issue, Level
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import LanguagePlan, VocabularySettings

# The fewest lines that a corpus may have, see training_sets.TEXT.
_FEWEST_LINES = 50
# A word is cut into pieces, each of which many words share.
_PIECES_A_WORD = 4
# Scripts without spaces between words, where what stands between two spaces is no word: Thai to Myanmar,
# Khmer, Tai and Balinese, kana and Chinese characters, Yi, Javanese, Tai Viet.
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3040-\u30ff\u3400-\u9fff\ua000-\ua4cf"
    "\ua980-\ua9df\uaa80-\uaadf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_UNSPACED_SHARE = 0.1
_MANY_PASSES = 20


def sizes(plan: LanguagePlan, seen: Mapping[str, Sequence[Seen]]) -> Iterator[Issue]:
    """What is too large or too small for a language's data.

    Args:
        plan: the language's.
        seen: list of sources → what was seen of each that is there.
    """
    yield from _text(plan, seen.get("text", ()))
    for place, steps, batch, lists in _readers(plan):
        found = [one for name in lists for one in seen.get(name, ())]
        rows = sum(one.given for one in found)
        if not steps or not rows or not all(one.counted for one in found):
            continue
        # Each list is a data set of its own, of whose rows its batches are.
        each = {name: sum(one.given for one in seen.get(name, ())) for name in lists}
        if few := {name: count for name, count in each.items() if 0 < count < batch}:
            for name, count in few.items():
                message = (
                    f"data.{name} has {count:,} rows for a batch of {batch}, so its batches are of "
                    f"{count:,}; add data, or use a smaller batch_size"
                )
                yield Issue((*place, "optimizer", "batch_size"), message, level="warning")
        elif (passes := steps * batch / rows) > _MANY_PASSES:
            message = f"{steps} steps of {batch} show each of {rows:,} rows {passes:.0f} times"
            yield Issue((*place, "optimizer", "steps"), message, level="note")


def _text(plan: LanguagePlan, found: Sequence[Seen]) -> Iterator[Issue]:
    if not found or not all(one.counted and not one.conflicts for one in found):
        return
    lines = sum(one.kept for one in found)
    used = (
        plan.vocabulary.method != "base",
        plan.language_adaptation.objective not in ("none", "pivot"),
        "simcse" in plan.sentence_encoding.objective,
    )
    if any(used) and lines < _FEWEST_LINES:
        message = (
            f"expected at least {_FEWEST_LINES} lines, found {lines}; add text, or choose stages without"
        )
        yield Issue(("data", "text"), message)
    yield from _pieces(plan.vocabulary, lines, set().union(*(one.words for one in found)))


def _pieces(vocabulary: VocabularySettings, lines: int, words: Collection[str]) -> Iterator[Issue]:
    """More pieces than the text can teach."""
    # "extend" learns its new pieces from the text, and fills up with the base's own as "trim" does.
    key = "new_pieces" if vocabulary.method == "extend" else "size"
    pieces, most = getattr(vocabulary, key), _PIECES_A_WORD * len(words)
    if vocabulary.method == "base" or not words or pieces <= most:
        return
    if sum(_UNSPACED.search(word) is not None for word in words) > _UNSPACED_SHARE * len(words):
        return
    message = (
        f"{pieces:,} pieces are more than {lines:,} lines with {len(words):,} different words "
        f"can teach; expected at most {most:,}, or method = 'base', which needs no text"
    )
    level: Level = "error" if vocabulary.method == "focus" else "warning"
    yield Issue(("vocabulary", key), message, level=level)


def _readers(plan: LanguagePlan) -> Iterator[tuple[tuple[str, ...], int, int, tuple[str, ...]]]:
    """Each stage that reads pairs: its section, steps, batch, and the lists that it reads."""
    encoding, alignment = plan.sentence_encoding, plan.alignment
    lists = tuple(name for name in data_for_alignment(alignment.objective, plan.emma_x) if name != "text")
    if plan.language_adaptation.objective == "pivot" and plan.lang != plan.pivot:
        optimizer = plan.language_adaptation.optimizer
        yield ("language_adaptation",), optimizer.steps, optimizer.batch_size, lists
    if "mnrl" in encoding.objective:
        optimizer = encoding.optimizer
        yield ("sentence_encoding",), optimizer.steps, optimizer.batch_size, ("paraphrases",)
    if alignment.objective != "none" and plan.lang != plan.pivot:
        yield ("alignment",), alignment.optimizer.steps, alignment.optimizer.batch_size, lists
