"""A stage's folder: its fingerprint, its checkpoints, and the modules as they are after it.

``<work>/<lang>/<stage>/started.json`` names the fingerprint that the checkpoints belong to,
``done.json`` the one that the finished modules belong to; ``<lang>/`` holds the modules so far in
the hub's layout, each stage starting from a copy of the one before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules, read_modules
from modenc.hub.layout import LanguageLayout
from modenc.recipe.settings import PAPER_SECTIONS, DevSources, LanguagePlan
from modenc.storage import whole_file
from modenc.train.data_access import TrainingData

PIVOT_LOSSES = (
    "objective",
    "scale",
    "parallel_loss",
    "pivot_negatives",
    "symmetric",
    "scored_weight",
    "similarity_weight",
)
"""Settings of ``[alignment]`` that stage 2 reads, too, where it learns from the pivot."""

_FORMAT = 3
_STARTED, _DONE = "started.json", "done.json"


@dataclass(frozen=True)
class StageRun:
    """What a stage function is given."""

    name: str
    plan: LanguagePlan
    base: BaseModel
    data: TrainingData
    folder: Path
    """The stage's own folder."""
    before: LanguageLayout | None
    """The modules as the stage before left them."""
    caches: Path
    """Folder for vectors that runs share."""

    @property
    def modules(self) -> Path:
        """Where the stage writes, in the hub's layout."""
        return self.folder / self.plan.lang

    @property
    def checkpoints(self) -> Path:
        """Where the trainer keeps its checkpoints."""
        return self.folder / "checkpoints"

    @cached_property
    def modules_before(self) -> LanguageModules | None:
        """The modules to start from; ``None`` before anything is there."""
        if self.before is None or not self.before.root.is_dir():
            return None
        return read_modules(self.before, self.base.hidden_size)

    def body_before(self) -> PreTrainedModel:
        """The base with all earlier modules folded in, frozen."""
        body = self.base.load_body()
        modules = self.modules_before
        return body if modules is None else compose(body, modules, align=False)

    def tokenizer_before(self) -> PreTrainedTokenizerFast:
        """The language's tokenizer, or the base's where the language keeps it."""
        modules = self.modules_before
        return modules.tokenizer if modules and modules.tokenizer else self.base.load_tokenizer()


@dataclass(frozen=True)
class StageRecord:
    """What a finished stage leaves for the card and for the next stage's fingerprint."""

    fingerprint: str
    settings: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)


def settings_of(plan: LanguagePlan, stage: str) -> dict[str, Any]:
    """The recipe section of a stage as plain values, with the sections that its objective reads besides."""
    content = dataclasses.asdict(getattr(plan, stage))
    for section in PAPER_SECTIONS.get(str(content.get("objective")), ()):
        content[section] = dataclasses.asdict(getattr(plan, section))
    if stage == "vocabulary" and plan.vocabulary.storage == "float16":
        del content["storage"]  # stages that were done before there was a choice stay done
    if stage == "language_adaptation" and plan.language_adaptation.strength == 1:
        del content["strength"]
    onto_pivot = plan.language_adaptation.objective == "pivot" and plan.lang != plan.pivot
    if stage == "language_adaptation" and onto_pivot:
        # Its losses; what else is there (the adapter's size, its strength) is stage 4's alone.
        content["alignment"] = {key: getattr(plan.alignment, key) for key in PIVOT_LOSSES}
        content["start"] = plan.sentence_encoding.start
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain


def stage_fingerprint(
    plan: LanguagePlan, stage: str, data_digest: str, before: str, dev_digest: str = ""
) -> str:
    """sha256 of everything that decides a stage's result: settings, data, dev sets, earlier stages, seed.

    Args:
        plan: the language's.
        stage: its name.
        data_digest: of what it is trained on.
        before: the fingerprint of the stage before it.
        dev_digest: of the rows that its best weights are chosen by; empty where there are none.
    """
    content = {
        "format": _FORMAT,
        "stage": stage,
        "settings": settings_of(plan, stage),
        "base": dataclasses.asdict(plan.base),
        "seed": plan.run.seed,
        "chosen": [_chosen_by(plan.data.dev), plan.run.evaluate_every],
        "data": data_digest,
        "before": before,
    }
    if dev_digest:  # stages without keep the fingerprint they had before rows were hashed
        content["dev"] = dev_digest
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _chosen_by(dev: DevSources) -> dict[str, Any]:
    """Development sets as plain values, as they were before sources had ``group``, which none of them has."""
    content = dataclasses.asdict(dev)
    for source in (*content["sts"], *content["cross_sts"]):
        del source["group"]
    return content


def finished(folder: Path, fingerprint: str) -> StageRecord | None:
    """The record of a stage that was finished with this fingerprint, or ``None``."""
    try:
        record = StageRecord(**json.loads((folder / _DONE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.fingerprint == fingerprint else None


def begin(run: StageRun, fingerprint: str, *, force: bool) -> None:
    """Make the stage's folder ready, with a copy of the modules as the stage before left them."""
    make_ready(run.folder, fingerprint, force=force or (run.folder / _DONE).is_file())
    shutil.rmtree(run.modules, ignore_errors=True)
    if run.before is not None and run.before.root.is_dir():
        shutil.copytree(run.before.root, run.modules)
    else:
        run.modules.mkdir()


def make_ready(folder: Path, fingerprint: str, *, force: bool) -> None:
    """Make a training's folder ready: checkpoints of other settings go, those of these settings stay."""
    marker = folder / _STARTED
    if not force and marker.is_file() and marker.read_text() == fingerprint:
        return
    discard(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(marker) as temporary:
        temporary.write_text(fingerprint)


def discard(folder: Path) -> None:
    """Remove a training's folder, its marks first: what a kill meanwhile leaves counts for nothing."""
    for mark in (_DONE, _STARTED):
        (folder / mark).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def finish(run: StageRun, record: StageRecord) -> None:
    """Write the done mark last, and drop the checkpoints, which nothing needs any more."""
    with whole_file(run.folder / _DONE) as temporary:
        temporary.write_text(json.dumps(dataclasses.asdict(record), indent=1, default=float))
    shutil.rmtree(run.checkpoints, ignore_errors=True)
