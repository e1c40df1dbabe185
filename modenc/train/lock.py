"""That one training at a time works on a language's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from modenc.errors import RecipeError
from modenc.train.processes import process_state


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a work folder; the system lets it go when this process ends, however it ends.

    Raises:
        RecipeError: another training holds it.
    """
    if not process_state().is_main_process:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise RecipeError(
            f"{folder}: another training is at work here; wait until it is done, or give this one "
            "a run.work_dir of its own"
        ) from error
