"""Rows of public data sets by name, through the ``datasets`` library."""

from __future__ import annotations

from collections.abc import Iterator

from modenc.data.files import Row, flatten
from modenc.errors import DataError
from modenc.extras import require_extra
from modenc.recipe.settings import Source

_PREFIX = "hf://datasets/"
# The one reader of ``datasets`` that runs what is in a file; it takes those of the working folder.
_PICKLES = "pandas"


def read_dataset(source: Source) -> Iterator[Row]:
    """The rows of ``source.dataset``; nested values get dotted columns (``translation.en``).

    Raises:
        DataError: the data set, its configuration or split cannot be had, or it would be read from pickles.
        MissingExtraError: ``datasets`` is not installed.
    """
    require_extra("train", "datasets")
    import datasets

    if (source.dataset or "").removeprefix(_PREFIX) == _PICKLES:
        raise DataError(
            f"data set {source.dataset!r}: expected a data set's name, found the reader of pickles, which "
            "can run code; load them where you trust them, write Parquet, and give it as path = ..."
        )
    try:
        rows = datasets.load_dataset(
            source.dataset, source.config, split=source.split, streaming=source.streaming
        )
        for record in rows:
            yield flatten(record)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(_unreachable(source, error)) from error


def _unreachable(source: Source, error: Exception) -> str:
    name = f"{source.dataset} ({source.config})" if source.config else source.dataset
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"data set {name}, split {source.split!r}: expected to read it from the Hugging Face hub or its "
        f"cache, found: {reason}. Check the name, config and split and the network "
        "(HF_HUB_OFFLINE must not be set), or download its files and give them as path = ..."
    )
