"""A language's stages in their order, each with the fingerprint of what decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from modenc.base_model import BaseModel
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.settings import STAGES, LanguagePlan
from modenc.train.data_access import TrainingData
from modenc.train.stage import StageRun, stage_fingerprint


def stage_runs(
    plan: LanguagePlan, base: BaseModel, hub: Hub, data: TrainingData
) -> Iterator[tuple[StageRun, str]]:
    """A language's stages with their fingerprints; each is asked for once the one before it is done."""
    before: LanguageLayout | None = None
    fingerprint = base.fingerprint
    for stage in STAGES:
        folder = plan.run.work_dir / plan.lang / stage
        run = StageRun(stage, plan, base, data, folder, before, plan.run.work_dir / "cache")
        fingerprint = stage_fingerprint(plan, stage, _digest(run, hub), fingerprint, _dev_digest(run))
        yield run, fingerprint
        before = LanguageLayout(run.modules)


def _digest(run: StageRun, hub: Hub) -> str:
    """What the stage trains on: its data, and the other language's modules that it needs."""
    digests = [part.digest for part in run.data.used_by(run.name)]
    start = run.plan.sentence_encoding.start
    frozen = run.plan.alignment.partners == "pivot"
    adapts = run.name == "language_adaptation" and _learns_from_pivot(run.plan, run.name)
    if adapts and start in hub.languages():
        digests.append(hub.card(start).digest("se/"))
    if (run.name == "alignment" or adapts) and digests and frozen and run.plan.pivot in hub.languages():
        digests.append(hub.card(run.plan.pivot).digest())
        digests += [hub.card(lang).digest() for lang in _warmup_languages(run) if lang in hub.languages()]
    elif run.name == "sentence_encoding" and start in hub.languages():
        digests.append(hub.card(start).digest("se/"))
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else "nothing"


def _warmup_languages(run: StageRun) -> Sequence[str]:
    return run.plan.emma_x.warmup_languages if run.plan.alignment.objective == "emma_x" else ()


def _learns_from_pivot(plan: LanguagePlan, stage: str) -> bool:
    objectives = {
        "language_adaptation": plan.language_adaptation.objective == "pivot",
        "alignment": plan.alignment.objective != "none",
    }
    return plan.lang != plan.pivot and objectives.get(stage, False)


def _dev_digest(run: StageRun) -> str:
    """Of the rows that the best weights are chosen by, other than those that its data's digest covers."""
    plan, data = run.plan, run.data
    rows: list[object] = []
    if run.name == "sentence_encoding":
        if plan.sentence_encoding.objective != "none" or plan.sentence_encoding.scored_steps:
            rows += data.dev.sts
    elif _learns_from_pivot(plan, run.name):
        if plan.alignment.partners == "all":
            return ""  # that training chooses nothing
        rows += [*data.dev.sts, ["cross"], *data.dev.cross_sts] if data.dev.cross_sts else data.dev.sts
        if plan.data.parallel and not any(part is data.parallel for part in data.used_by(run.name)):
            rows += [[row.pivot, row.text] for row in data.parallel.held_out]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest() if rows else ""
