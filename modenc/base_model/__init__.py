"""The base that all languages share: finding, checking, loading and fingerprinting it.

The *base* is a sentence-transformers model; its *body* is its transformer, frozen and without a pooling head.
"""

from modenc.base_model.me5_small import ME5_SMALL
from modenc.base_model.resolve import BaseModel, resolve_base

__all__ = ["ME5_SMALL", "BaseModel", "resolve_base"]
