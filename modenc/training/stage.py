"""A stage's folder, and the fingerprint of all that decides what the stage makes.

``<work>/<lang>/<stage>/started.json`` names the fingerprint that the checkpoints belong to, ``done.json``
that of the finished modules; ``<lang>/`` holds the modules so far in the hub's layout. Between two stages
the modules that the first one left are copied into the second one's folder, and all later stages' folders are
removed, since they were built on other modules.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules, read_modules
from modenc.errors import HubError, RecipeError
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.settings import FRESH, PAPER_SECTIONS, STAGES, DevSources, LanguagePlan
from modenc.storage import whole_file
from modenc.training.data_access import TrainingData
from modenc.training.processes import process_state

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
    """The modules that the stage before left."""
    fingerprint: str = ""

    @property
    def caches(self) -> Path:
        """Folder for vectors that runs share."""
        return self.plan.run.work_dir / "cache"

    @property
    def modules(self) -> Path:
        """Where the stage writes, in the hub's layout."""
        return self.folder / self.plan.lang

    @property
    def checkpoints(self) -> Path:
        """Where the trainer keeps its checkpoints."""
        return self.folder / "checkpoints"

    def phase(self, name: str) -> StageRun:
        """The same with a folder of its own, for one of several trainings."""
        folder = self.checkpoints / name
        folder.mkdir(parents=True, exist_ok=True)
        return dataclasses.replace(self, folder=folder)

    @property
    def modules_before(self) -> LanguageModules | None:
        """The modules to start from, ``None`` in stage 1; read each time: a body trains on its table."""
        return None if self.before is None else read_modules(self.before, self.base.hidden_size)

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
    """What a finished stage leaves for the card."""

    fingerprint: str
    settings: dict[str, Any]
    metrics: dict[str, Any]


def stage_runs(plan: LanguagePlan, base: BaseModel, hub: Hub, data: TrainingData) -> Iterator[StageRun]:
    """A language's stages in their order; take each only when the one before it is done."""
    before, fingerprint = None, base.fingerprint
    for stage in STAGES:
        digests = (_data_digest(data, stage, hub), fingerprint, _dev_digest(data, stage))
        fingerprint = stage_fingerprint(plan, stage, *digests)
        run = StageRun(stage, plan, base, data, plan.run.work_dir / plan.lang / stage, before, fingerprint)
        yield run
        before = LanguageLayout(run.modules)


def published_modules(run: StageRun, lang: str) -> LanguageLayout:
    """The modules of another language in the recipe's hub; HubError where it has none yet."""
    hub = Hub.open(run.plan.hub)
    if lang not in hub.languages():
        raise HubError(
            f"{run.plan.lang} needs the modules of {lang}, which the hub {run.plan.hub} does not have (it "
            f"has: {', '.join(hub.languages()) or 'nothing'}); train {lang} first: "
            f"modenc train RECIPE --lang {lang}"
        )
    return hub.layout(lang)


def adapter_of(run: StageRun, lang: str) -> Path:
    """The SE of ``lang`` in the recipe's hub, which stage 3 starts from; RecipeError where it has none."""
    folder = published_modules(run, lang).se
    if not folder.is_dir():
        raise RecipeError(
            f"sentence_encoding.start: expected an adapter of {lang!r} in {folder}, found none; "
            f"start from another language, or {FRESH!r}"
        )
    return folder


def begin(run: StageRun, *, force: bool) -> None:
    """Copy the modules that the stage before left into the stage's folder, and discard all later stages.

    Checkpoints of an interrupted run with the same fingerprint stay, unless ``force``.
    """
    if process_state().is_main_process:
        make_ready(run.folder, run.fingerprint, force=force or (run.folder / _DONE).is_file())
        shutil.rmtree(run.modules, ignore_errors=True)
        if run.before is None:
            run.modules.mkdir()
        else:
            shutil.copytree(run.before.root, run.modules)
        for later in STAGES[STAGES.index(run.name) + 1 :]:
            discard(run.folder.parent / later)
    process_state().wait_for_everyone()


def finish(run: StageRun, metrics: dict[str, Any]) -> StageRecord:
    """Mark a stage as done, and remove its checkpoints."""
    metrics = {**metrics, "threads": torch.get_num_threads()}
    record = StageRecord(run.fingerprint, settings_of(run.plan, run.name), metrics)
    if process_state().is_main_process:
        with whole_file(run.folder / _DONE) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(record), indent=1, default=float))
        shutil.rmtree(run.checkpoints, ignore_errors=True)
    process_state().wait_for_everyone()
    return record


def finished(run: StageRun) -> StageRecord | None:
    """The record of a stage that was finished with the run's fingerprint, or ``None``."""
    try:
        record = StageRecord(**json.loads((run.folder / _DONE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.fingerprint == run.fingerprint else None


def make_ready(folder: Path, fingerprint: str, *, force: bool) -> None:
    """Prepare a training's folder: checkpoints with the same fingerprint stay, all others are removed."""
    marker = folder / _STARTED
    if not force and marker.is_file() and marker.read_text() == fingerprint:
        return
    discard(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(marker) as temporary:
        temporary.write_text(fingerprint)


def discard(folder: Path) -> None:
    """Remove a training's folder, its marks first: killed halfway, it counts as never begun."""
    for mark in (_DONE, _STARTED):
        (folder / mark).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def settings_of(plan: LanguagePlan, stage: str) -> dict[str, Any]:
    """The recipe section of a stage as plain values, with the other sections that its objective reads."""
    content = dataclasses.asdict(getattr(plan, stage))
    for section in PAPER_SECTIONS.get(str(content.get("objective")), ()):
        content[section] = dataclasses.asdict(getattr(plan, section))
    if stage == "vocabulary" and plan.vocabulary.storage == "float16":
        del content["storage"]  # stages finished before there was a choice stay finished
    if stage == "language_adaptation" and plan.language_adaptation.strength == 1:
        del content["strength"]
    if stage == "language_adaptation" and _learns_from_pivot(plan, stage):
        # Only its losses: the adapter's size and strength concern stage 4 alone.
        content["alignment"] = {key: getattr(plan.alignment, key) for key in PIVOT_LOSSES}
        content["start"] = plan.sentence_encoding.start
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain


def stage_fingerprint(
    plan: LanguagePlan, stage: str, data_digest: str, before: str, dev_digest: str = ""
) -> str:
    """sha256 of everything that decides a stage's result: settings, data, dev sets, earlier stages, seed.

    ``before`` is the fingerprint of the stage before it, ``dev_digest`` that of the rows that choose its best
    weights, empty where there are none.
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
    if dev_digest:  # without any, a stage keeps the fingerprint of the time when rows were not hashed
        content["dev"] = dev_digest
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _chosen_by(dev: DevSources) -> dict[str, Any]:
    """Development sets as plain values, as before 0.1.0, so that fingerprints stay."""
    content = dataclasses.asdict(dev)
    for source in (*content["sts"], *content["cross_sts"]):
        del source["group"]
        source["licence"] = source.pop("license")
    return content


def modules_read(plan: LanguagePlan, stage: str) -> list[tuple[str, str]]:
    """The other languages whose published modules a stage reads, each with the part (``""``: all)."""
    learns = _learns_from_pivot(plan, stage)
    needed: list[tuple[str, str]] = []
    if stage == "sentence_encoding" or (learns and stage == "language_adaptation"):
        needed.append((plan.sentence_encoding.start, "se/"))
    if learns and plan.alignment.partners == "pivot":
        warmup = plan.emma_x.warmup_languages if plan.alignment.objective == "emma_x" else ()
        needed += [(plan.pivot, ""), *((lang, "") for lang in warmup)]
    return needed


def _data_digest(data: TrainingData, stage: str, hub: Hub) -> str:
    """Digest of what the stage trains on: its data, and the modules of other languages that it needs."""
    plan = data.plan
    digests = [part.digest for part in data.used_by(stage)]
    needed = modules_read(plan, stage) if digests or stage != "alignment" else []
    there = hub.languages() if needed else ()
    digests += [hub.card(lang).digest(part) for lang, part in needed if lang in there]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else "nothing"


def _learns_from_pivot(plan: LanguagePlan, stage: str) -> bool:
    objectives = {
        "language_adaptation": plan.language_adaptation.objective == "pivot",
        "alignment": plan.alignment.objective != "none",
    }
    return plan.lang != plan.pivot and objectives.get(stage, False)


def _dev_digest(data: TrainingData, stage: str) -> str:
    """Digest of the rows that choose the best weights, without those that the data's digest covers."""
    plan = data.plan
    rows: list[object] = []
    if stage == "sentence_encoding":
        if plan.sentence_encoding.objective != "none" or plan.sentence_encoding.scored_steps:
            rows += data.dev.sts
    elif _learns_from_pivot(plan, stage):
        if plan.alignment.partners == "all":
            return ""  # that training chooses nothing
        rows += [*data.dev.sts, ["cross"], *data.dev.cross_sts] if data.dev.cross_sts else data.dev.sts
        if plan.data.parallel and not any(part is data.parallel for part in data.used_by(stage)):
            rows += [[row.pivot, row.text] for row in data.parallel.held_out]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest() if rows else ""
