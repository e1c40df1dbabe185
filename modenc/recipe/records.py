"""Licences and translators that a recipe does not state, and the files do (``modenc translate``)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from modenc.provenance import read_record
from modenc.recipe.licenses import TRAINED_ON, joint_license
from modenc.recipe.presence import fill
from modenc.recipe.settings import DataSettings, LanguagePlan, Source


def with_records(plan: LanguagePlan) -> DataSettings:
    """``plan.data``, its sources with what the records beside their files say and they do not.

    Development sets stay as they are: no card states theirs.
    """
    changes: dict[str, Any] = {
        role: tuple(_stated(source, plan) for source in getattr(plan.data, role)) for role in TRAINED_ON
    }
    return replace(plan.data, **changes)


def _stated(source: Source, plan: LanguagePlan) -> Source:
    if source.path is None or (source.licence and source.translator):
        return source
    paths = [path for path in (source.path, source.pivot_path) if path is not None]
    found = [read_record(plan.data.root / os.path.expanduser(fill(path, plan))) for path in paths]
    # A side without one is as a rule the text that the other was translated from.
    records = [record for record in found if record is not None]
    return replace(
        source,
        licence=source.licence or joint_license([record.licence for record in records]),
        translator=source.translator or "; ".join(dict.fromkeys(record.translator for record in records)),
    )
