"""That one training at a time works on a language: in a work folder, and for a hub."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from modenc.cache import cache_dir
from modenc.errors import RecipeError
from modenc.hub.store import Hub
from modenc.storage import alone_in
from modenc.train.processes import process_state

logger = logging.getLogger(__name__)


@contextmanager
def only_training_in(folder: Path) -> Iterator[None]:
    """Hold a work folder.

    Raises:
        RecipeError: another training holds it.
    """
    if not process_state().is_main_process:
        yield
        return
    otherwise = RecipeError(
        f"{folder}: another training is at work here; wait until it is done, or give this one "
        "a run.work_dir of its own"
    )
    with alone_in(folder, otherwise):
        yield


@contextmanager
def only_training_of(lang: str, work_dir: Path, hub: Hub) -> Iterator[None]:
    """Hold a language's folder in ``work_dir``, and the language in ``hub``, where others may train it, too.

    Raises:
        RecipeError: another training holds one of them.
    """
    otherwise = RecipeError(
        f"{hub.path}: another training is at work on {lang} for this hub, in another run.work_dir; "
        "wait until it is done, or give this one a hub.path of its own"
    )
    with only_training_in(work_dir / lang), ExitStack() as held:
        if process_state().is_main_process:
            # Not in the hub, where a kill would leave what is no language.
            place = hashlib.sha256(f"{hub.path.resolve()}\n{lang}".encode()).hexdigest()
            try:
                held.enter_context(alone_in(cache_dir() / "training" / place, otherwise))
            except OSError as error:
                logger.warning("others that train %s for %s are not seen: %s", lang, hub.path, error)
        yield
