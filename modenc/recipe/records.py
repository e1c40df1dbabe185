"""Licences and translators that a recipe does not state, and the files do (``modenc translate``)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from modenc.provenance import read_record
from modenc.recipe.licenses import TRAINED_ON
from modenc.recipe.presence import fill
from modenc.recipe.settings import DataSettings, LanguagePlan, Source


def with_records(plan: LanguagePlan) -> DataSettings:
    """``plan.data``, its sources with what the record beside their file says and they do not.

    Development sets stay as they are: no card states theirs.
    """
    changes: dict[str, Any] = {
        role: tuple(_stated(source, plan) for source in getattr(plan.data, role)) for role in TRAINED_ON
    }
    return replace(plan.data, **changes)


def _stated(source: Source, plan: LanguagePlan) -> Source:
    if source.path is None or (source.licence and source.translator):
        return source
    record = read_record(plan.data.root / os.path.expanduser(fill(source.path, plan)))
    if record is None:
        return source
    return replace(
        source,
        licence=source.licence or record.licence,
        translator=source.translator or record.translator,
    )
