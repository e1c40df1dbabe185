"""Errors that modenc raises, and what their messages share.

A message states what was expected, what was found, and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

# Longest name that is compared: difflib's time grows with the square of the length.
_LONGEST = 60


class ModencError(Exception):
    """Base class of modenc's errors; the command line prints them without a traceback."""


class RecipeError(ModencError, ValueError):
    """A recipe cannot be run; the message lists all errors at once."""


class StorageError(ModencError, OSError):
    """A file cannot be written; the message says what is kept."""


class DataError(ModencError, ValueError):
    """A corpus is missing, malformed, too small or not in the language it claims."""


class HubError(ModencError, ValueError):
    """A hub folder, or a language in it, is missing, damaged or made for another base."""


class LanguageError(ModencError, ValueError):
    """A language code is unknown, or the language has no modules."""


class BaseModelError(ModencError, ValueError):
    """A base model cannot be found, converted or used."""


class OptionError(ModencError, ValueError):
    """An option of an encoder, or of a call, has an invalid value."""


class TextError(ModencError, TypeError):
    """Something other than a text was given where a text is expected."""


class ClusterError(ModencError, RuntimeError):
    """A cluster cannot be reached, cannot do what is asked, or lost it too often."""


class MissingExtraError(ModencError, ImportError):
    """An optional part of modenc is used without the packages it needs."""


class TextsCutWarning(UserWarning):
    """Texts were longer than an encoder takes.

    Args:
        cut: number of texts that were cut.
        total: number of all texts.
        limit: most tokens of a text.
        most: value to which the limit can be raised.
    """

    def __init__(self, cut: int, total: int, limit: int, most: int) -> None:
        self.cut, self.total, self.limit = cut, total, limit
        raised = f"raise encoder.max_seq_length (up to {most}) or " if most > limit else ""
        were = f"texts were longer than {limit} tokens and were cut"
        super().__init__(f"{cut} of {total} {were}; {raised}split them")


def require_extra(extra: str, *packages: str) -> None:
    """Check that the packages of an extra can be imported.

    Raises:
        MissingExtraError: one of ``packages`` is absent; the message holds the install command.
    """
    missing = [package for package in packages if package not in sys.modules and find_spec(package) is None]
    if missing:
        raise MissingExtraError(
            f"{', '.join(missing)} not installed; this part of modenc needs the extra {extra!r}. "
            f'Run: pip install "modenc[{extra}]"'
        )


def closest_match(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest match for ``name`` in ``names``; None below a similarity of ``cutoff`` (0 to 1)."""
    if len(name) > _LONGEST:
        return None
    by_plain = {_plain(candidate): candidate for candidate in names}
    matches = get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return by_plain[matches[0]] if matches else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
