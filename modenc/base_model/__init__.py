"""The frozen body that all languages share: find it, load it, tell it from others."""

from modenc.base_model.me5_small import ME5_SMALL
from modenc.base_model.resolve import BaseModel, resolve_base

__all__ = ["ME5_SMALL", "BaseModel", "resolve_base"]
