"""Locks: one training at a time works on a language, in a work folder and for a hub."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from modenc.cache import cache_dir
from modenc.errors import RecipeError
from modenc.hub.store import Hub
from modenc.storage import exclusive_lock
from modenc.training.processes import process_state

logger = logging.getLogger(__name__)


@contextmanager
def training_lock(folder: Path, wait: float = 0) -> Iterator[None]:
    """Hold a work folder, for which another training may take ``wait`` seconds to end.

    Raises:
        RecipeError: another training holds it.
    """
    if not process_state().is_main_process:
        yield
        return
    otherwise = RecipeError(
        f"{folder}: another training is running here; wait until it is done, or give this one "
        "a run.work_dir of its own"
    )
    with exclusive_lock(folder, otherwise, wait):
        yield


@contextmanager
def language_lock(lang: str, work_dir: Path, hub: Hub, wait: float = 0) -> Iterator[None]:
    """Hold a language's folder in ``work_dir``, and the language in ``hub``, which others may train into.

    Another training may take ``wait`` seconds to end.

    Raises:
        RecipeError: another training holds one of them.
    """
    otherwise = RecipeError(
        f"{hub.path}: another process is training {lang} for this hub, in another run.work_dir; "
        "wait until it is done, or give this one a hub.path of its own"
    )
    with training_lock(work_dir / lang, wait), ExitStack() as locks:
        if process_state().is_main_process:
            # Not in the hub, where a killed training would leave a folder that is no language.
            name = hashlib.sha256(f"{hub.path.resolve()}\n{lang}".encode()).hexdigest()
            try:
                locks.enter_context(exclusive_lock(cache_dir() / "training" / name, otherwise, wait))
            except OSError as error:
                logger.warning("other trainings of %s for %s are not noticed: %s", lang, hub.path, error)
        yield
