"""Checks of settings that depend on the number of rows: batch sizes, steps, sizes of vocabularies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from modenc.data.inspect_rows import InspectedSource
from modenc.recipe.issues import Issue, Level
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import LanguagePlan, OptimizerSettings, VocabularySettings

# Least lines of a corpus, as in training_sets.TEXT.
_MIN_LINES = 50
# Most pieces for each distinct word.
_PIECES_A_WORD = 4
# Scripts without spaces between words, whose words cannot be counted: Thai to Myanmar,
# Khmer, Tai and Balinese, kana and Chinese characters, Yi, Javanese, Tai Viet.
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3040-\u30ff\u3400-\u9fff\ua000-\ua4cf"
    "\ua980-\ua9df\uaa80-\uaadf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_MAX_UNSPACED_SHARE = 0.1
_MAX_PASSES = 20


def check_sizes(plan: LanguagePlan, inspected: Mapping[str, Sequence[InspectedSource]]) -> Iterator[Issue]:
    """Find settings too large or too small for a language's data; ``inspected``: kind → its sources."""
    yield from _check_text(plan, inspected.get("text", ()))
    for stage, kinds in _pair_stages(plan):
        optimizer: OptimizerSettings = getattr(plan, stage).optimizer
        steps, batch = optimizer.steps, optimizer.batch_size
        at_once = batch * optimizer.gradient_accumulation
        sources = [source for kind in kinds for source in inspected.get(kind, ())]
        rows = sum(source.training_rows for source in sources)
        if not steps or not rows or not all(source.is_exact for source in sources):
            continue
        # All rows of a batch are of one kind.
        each = {kind: sum(source.training_rows for source in inspected.get(kind, ())) for kind in kinds}
        if few := {name: count for name, count in each.items() if 0 < count < batch}:
            for name, count in few.items():
                message = (
                    f"data.{name} has {count:,} rows for a batch of {batch}, so its batches have only "
                    f"{count:,}; add data, or use a smaller batch_size"
                )
                yield Issue((stage, "optimizer", "batch_size"), message, level="warning")
        elif (passes := steps * at_once / rows) > _MAX_PASSES:
            message = f"{steps} steps of {at_once} show each of {rows:,} rows {passes:.0f} times"
            yield Issue((stage, "optimizer", "steps"), message, level="note")


def _check_text(plan: LanguagePlan, sources: Sequence[InspectedSource]) -> Iterator[Issue]:
    if not sources or not all(source.is_exact and not source.issues for source in sources):
        return
    lines = sum(source.selected for source in sources)
    used = (
        plan.vocabulary.method != "base",
        plan.language_adaptation.objective not in ("none", "pivot"),
        "text" in plan.reads("sentence_encoding"),
    )
    if any(used) and lines < _MIN_LINES:
        message = (
            f"expected at least {_MIN_LINES} lines, found {lines}; add text, or choose stages that need none"
        )
        yield Issue(("data", "text"), message)
    yield from _check_pieces(plan.vocabulary, lines, set().union(*(source.words for source in sources)))


def _check_pieces(vocabulary: VocabularySettings, lines: int, words: Collection[str]) -> Iterator[Issue]:
    """Find vocabularies with more pieces than can be learned from the text."""
    # "extend" learns only its new pieces from the text; the others are the base's.
    key = "new_pieces" if vocabulary.method == "extend" else "size"
    pieces, most = getattr(vocabulary, key), _PIECES_A_WORD * len(words)
    if vocabulary.method == "base" or not words or pieces <= most:
        return
    if sum(_UNSPACED.search(word) is not None for word in words) > _MAX_UNSPACED_SHARE * len(words):
        return
    message = (
        f"{pieces:,} pieces are more than {lines:,} lines with {len(words):,} different words "
        f"allow; expected at most {most:,}, or method = 'base', which needs no text"
    )
    level: Level = "error" if vocabulary.method == "focus" else "warning"
    yield Issue(("vocabulary", key), message, level=level)


def _pair_stages(plan: LanguagePlan) -> Iterator[tuple[str, list[str]]]:
    """Yield each stage that may read pairs, and their kinds; the pivot has none of ``[alignment]``'s."""
    kinds = [kind for kind in data_for_alignment(plan.alignment.objective, plan.emma_x) if kind != "text"]
    if plan.language_adaptation.objective == "pivot":
        yield "language_adaptation", kinds
    if "paraphrases" in plan.reads("sentence_encoding"):
        yield "sentence_encoding", ["paraphrases"]
    yield "alignment", kinds
