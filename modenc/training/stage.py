"""A stage of one language's training: its folder, and the fingerprint of everything that decides its result.

``<work>/<lang>/<stage>/started.json`` holds the fingerprint that the checkpoints belong to, ``done.json`` the
fingerprint of the finished modules; ``<lang>/`` holds the modules so far in the hub's layout. A stage begins
with a copy of the modules that the stage before left. Then the folders of all later stages are removed, since
they were built on other modules.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.errors import RecipeError
from modenc.hub.store import Hub
from modenc.recipe.plan import PHASED_OBJECTIVES, LanguagePlan
from modenc.recipe.settings import FRESH, STAGES
from modenc.storage import exclusive_lock, write_atomically
from modenc.training.body_module import set_dropout
from modenc.training.data_access import TrainingData

_FORMAT = 5
_STARTED, _DONE = "started.json", "done.json"


@dataclass(frozen=True)
class Stage:
    """One stage of one language: settings, data and folders."""

    name: str
    """One of :data:`~modenc.recipe.settings.STAGES`."""
    plan: LanguagePlan
    base: BaseModel
    data: TrainingData
    folder: Path
    """The stage's own folder."""
    before: Path | None
    """Folder of the modules that the stage before left; None in stage 1."""
    fingerprint: str = ""

    @property
    def modules(self) -> Path:
        """Folder of the modules that the stage leaves."""
        return self.folder / self.plan.lang

    @property
    def checkpoints(self) -> Path:
        """Folder of the trainer's checkpoints."""
        return self.folder / "checkpoints"

    def with_phase_folder(self, name: str) -> Stage:
        """Return this stage with a folder of its own for one of several phases of training."""
        folder = self.checkpoints / name
        folder.mkdir(parents=True, exist_ok=True)
        return dataclasses.replace(self, folder=folder)

    def load_body(self) -> PreTrainedModel:
        """Load the base's body, with the attention that trains fastest."""
        # On CPUs short sentences go back through torch's fused attention in twice the time of the plain one.
        return self.base.load_body(None if torch.cuda.is_available() else "eager")

    def body_and_tokenizer(self, *, dropout: bool = True) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
        """Load the base with all earlier modules merged and frozen, and the language's tokenizer.

        Each call reads the files again: a body trains on its modules' embeddings in place. Without
        ``dropout`` the body has none in training either.
        """
        body = self.load_body()
        if not dropout:
            set_dropout(body, 0.0)
        if self.before is None:
            return body, self.base.load_tokenizer()
        modules = read_modules(self.before, self.base.hidden_size)
        return compose(body, modules, align=False), modules.tokenizer or self.base.load_tokenizer()


def iterate_stages(base: BaseModel, hub: Hub, data: TrainingData) -> Iterator[Stage]:
    """Yield a language's stages in order; ask for one only when the stage before it is done.

    A stage's data, and the cards of the modules that it reads from the hub, are read when it is asked for.
    """
    plan, before, fingerprint = data.plan, None, base.fingerprint
    for name in STAGES:
        fingerprint = stage_fingerprint(data, name, fingerprint, hub)
        stage = Stage(name, plan, base, data, plan.run.work_dir / plan.lang / name, before, fingerprint)
        yield stage
        before = stage.modules


def published_adapter(stage: Stage, lang: str, part: str = "se") -> Path:
    """Find the SE or CLA of ``lang`` in the recipe's hub, which a stage starts from.

    Raises:
        HubError: the hub lacks the language.
        RecipeError: the language has none.
    """
    folder = Hub.open(stage.plan.hub).version_folder(lang) / part
    if not folder.is_dir():
        section = "sentence_encoding" if part == "se" else "alignment"
        raise RecipeError(
            f"{section}.start: expected an adapter of {lang!r} in {folder}, found none; "
            f"start from another language, or {FRESH!r}"
        )
    return folder


def begin(stage: Stage) -> None:
    """Copy the modules of the stage before into the stage's folder, and remove all later stages.

    Checkpoints of an interrupted training with the same fingerprint stay.
    """
    prepare_folder(stage.folder, stage.fingerprint)
    shutil.rmtree(stage.modules, ignore_errors=True)
    if stage.before is None:
        stage.modules.mkdir()
    else:
        shutil.copytree(stage.before, stage.modules)
    for later in STAGES[STAGES.index(stage.name) + 1 :]:
        discard(stage.folder.parent / later)


def finish(stage: Stage, metrics: dict[str, Any]) -> dict[str, Any]:
    """Mark a stage as done, and remove its checkpoints; returns the card's entry of the stage."""
    entry = {
        "fingerprint": stage.fingerprint,
        "settings": stage_settings(stage.plan, stage.name),
        "metrics": {**metrics, "threads": torch.get_num_threads()},
    }
    text = json.dumps(entry, indent=1, default=float)
    write_atomically(stage.folder / _DONE, text)
    shutil.rmtree(stage.checkpoints, ignore_errors=True)
    return dict(json.loads(text))


def read_finished(stage: Stage) -> dict[str, Any] | None:
    """Read the card's entry of a stage; None if it was not finished with today's fingerprint."""
    with suppress(OSError, ValueError):
        entry = json.loads((stage.folder / _DONE).read_text())
        if isinstance(entry, dict) and entry.get("fingerprint") == stage.fingerprint:
            return entry
    return None


def prepare_folder(folder: Path, fingerprint: str) -> None:
    """Prepare a training's folder: keep checkpoints with the same fingerprint, remove all others."""
    marker, done = folder / _STARTED, (folder / _DONE).is_file()
    if not done and marker.is_file() and marker.read_text() == fingerprint:
        return
    discard(folder)
    write_atomically(marker, fingerprint)


def discard(folder: Path) -> None:
    """Remove a training's folder, its marker files first: killed halfway, it counts as never begun."""
    for marker in (_DONE, _STARTED):
        (folder / marker).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def stage_settings(plan: LanguagePlan, name: str) -> dict[str, Any]:
    """Return a stage's section of its recipe, and others that it reads, as plain values."""
    content = dataclasses.asdict(getattr(plan, name))
    choice = str(content.get("objective", content.get("method")))
    for section in PHASED_OBJECTIVES.get(choice, ()):
        content[section] = dataclasses.asdict(getattr(plan, section))
    if name == "language_adaptation" and plan.learns_from_pivot(name):
        content["alignment"] = dataclasses.asdict(plan.alignment)
        content["start"] = plan.sentence_encoding.start
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain


def stage_fingerprint(data: TrainingData, name: str, before: str, hub: Hub) -> str:
    """Hash what a stage's result depends on; returns the SHA-256.

    That is its settings, the seed, the rows of its data, other languages' modules in the hub that it reads,
    and what chooses the best weights: the rows of the development sets, and how often they are measured. Not
    hashed is what describes the data without being trained on (paths, licenses). ``before`` is the
    fingerprint of the stage before, and decides alone if the stage has nothing to do.
    """
    plan = data.plan
    content: dict[str, Any] = {"format": _FORMAT, "stage": name, "before": before}
    if plan.skips(name):
        return _hash(content)
    rows = [found.fingerprint for found in data.used_by(name)]
    needed = plan.modules_needed(name) if rows or name != "alignment" else []
    published = hub.languages() if needed else ()
    content |= {
        "settings": stage_settings(plan, name),
        # The base's weights are in the first stage's ``before``.
        "base": [plan.base.prompt, plan.base.pooling],
        "seed": plan.run.seed,
        "rows": rows,
        "modules": [hub.card(lang).fingerprint(folder) for lang, folder, _ in needed if lang in published],
    }
    if name != "vocabulary":
        held_out = data.parallel.held_out if plan.learns_from_pivot(name) else []
        dev = {**data.dev_sets(), "parallel": held_out}
        content["dev"] = {kind: sorted(map(json.dumps, rows)) for kind, rows in dev.items()}
        content["measured"] = [plan.run.evaluate_every, plan.base.max_length]
    return _hash(content)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def refuse_several_processes() -> None:
    """Raise RecipeError in one of several processes, whose trainings would write the same files."""
    if (processes := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise RecipeError(
            f"expected one process that trains, found WORLD_SIZE = {processes}, as torchrun and accelerate "
            "launch set it; start modenc without them. Several GPUs or machines train several languages at "
            "once with --on ray"
        )


def training_lock(folder: Path, wait: float = 0) -> AbstractContextManager[None]:
    """Lock a work folder; RecipeError if another training holds it for more than ``wait`` seconds."""
    held = RecipeError(
        f"{folder}: another training is running here; wait until it is done, or give this one "
        "a run.work_dir of its own"
    )
    return exclusive_lock(folder, held, wait)
