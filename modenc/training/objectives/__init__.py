"""Training objectives; each file begins with the objective's formula."""

from dataclasses import fields
from typing import Any, TypeVar, cast

Options = TypeVar("Options")


def options(cls: type[Options], settings: Any) -> Options:
    """Make an objective's options, the dataclass ``cls``, from settings of the same names."""
    return cls(**{option.name: getattr(settings, option.name) for option in fields(cast(Any, cls))})
