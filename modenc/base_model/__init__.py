"""The frozen body that all languages share: find it, load it, tell it from others."""

from modenc.base_model.resolve import BaseModel, resolve_base

__all__ = ["BaseModel", "resolve_base"]
