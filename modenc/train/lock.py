"""That one training at a time works on a language's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modenc.errors import RecipeError
from modenc.storage import alone_in
from modenc.train.processes import process_state


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
