"""Errors that modenc raises; their messages state what was expected, what was found, and what to do."""

from __future__ import annotations


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
