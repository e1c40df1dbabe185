"""One file an objective, each opening with its formula."""

from dataclasses import fields
from typing import Any, TypeVar, cast

Options = TypeVar("Options")


def options(kind: type[Options], settings: Any) -> Options:
    """An objective's options, a dataclass, from the settings of the same names."""
    return kind(**{option.name: getattr(settings, option.name) for option in fields(cast(Any, kind))})
