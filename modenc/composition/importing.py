"""Import of adapters trained with peft and adapters as a language of a hub."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from modenc.base_model import resolve_base
from modenc.composition.body import check_fit
from modenc.composition.modules import read_modules
from modenc.composition.st_module import load_body
from modenc.errors import HubError, OptionError
from modenc.hub.card import Card
from modenc.hub.checks import PARSERS, deserialized, most_adapter_bytes
from modenc.hub.layout import (
    PART_FILES,
    STAGE_OF_PART,
    HubInfo,
    json_object,
    json_text,
    read_text,
)
from modenc.hub.page import base_page
from modenc.hub.store import Hub
from modenc.languages import language_name, normalize_code
from modenc.storage import disk_errors

logger = logging.getLogger(__name__)

_BASE_KEY = {"la": "base_model_name_or_path", "se": "base_model_name_or_path", "cla": "model_name"}
_VERSION_KEY = {"la": "peft_version", "se": "peft_version", "cla": "version"}
_HOW_TO_SAVE = {
    "la": "model.save_pretrained(folder)",
    "se": "model.save_pretrained(folder)",
    "cla": "model.save_adapter(folder, name, use_safetensors=True)",
}
# Types that can be converted to float32.
_TYPES = ("F16", "BF16", "F32", "F64")
# Prefix of names in a LoRA, with the path to the body in a larger model, such as one with a head.
_BODY_PREFIX = re.compile(r"base_model\.model\.[\w.]*?(?=encoder\.layer\.)", re.ASCII)
_POOLER = re.compile(r"base_model\.model\.(?:\w+\.)*pooler\.", re.ASCII)


def import_language(
    hub: Hub,
    lang: str,
    *,
    se: str | Path,
    la: str | Path | None = None,
    cla: str | Path | None = None,
    license: str,
    source: str = "",
    force: bool = False,
) -> Card:
    """Install adapters trained with peft and adapters as a language of a hub.

    The files are checked like those of any hub, copied, and published in one step. Existing modules of the
    language are replaced.

    Args:
        hub: the hub; the adapters have to be made for its base, prompt and pooling.
        lang: the language's code.
        se: a peft folder, the sentence-encoding adapter: a LoRA.
        la: a peft folder, the language adapter: a LoRA that was active while ``se`` was trained.
        cla: an AdapterHub folder, the alignment adapter: a parallel adapter.
        license: their license, for the language's card.
        source: their origin, for the card; by default the names of the folders.
        force: accept adapters that name another base, or none.

    Returns:
        The language's card.

    Raises:
        HubError: an adapter is missing, is for another base, or has a form that modenc does not support;
            the hub is as it was.
        BaseModelError: the hub's base cannot be loaded.
        OptionError: ``license`` is empty.
        StorageError: the disk is full or read-only; the hub is as it was.
    """
    if not license.strip():
        raise OptionError("license is required, for example license='MIT'")
    code, info = normalize_code(lang), hub.info
    folders = {part: Path(path) for part, path in (("la", la), ("se", se), ("cla", cla)) if path is not None}
    body = load_body(resolve_base(info.base_id), hub)
    source = source.strip() or ", ".join(
        f"{folder.resolve().name} ({part})" for part, folder in folders.items()
    )
    with TemporaryDirectory() as name, disk_errors(Path(name), "the hub is as it was"):
        checked = Path(name)
        configs = {part: _copy(part, folder, checked, info, force=force) for part, folder in folders.items()}
        modules = replace(read_modules(checked, info.hidden_size), lang=code)
        check_fit(body, modules)
        return hub.publish(checked, _card(code, info, configs, license.strip(), source))


def _copy(part: str, folder: Path, checked: Path, info: HubInfo, *, force: bool) -> dict[str, Any]:
    """Check an adapter and write it to the folder ``checked``; returns its configuration."""
    config_name, weights_name = (Path(name).name for name in PART_FILES[part])
    weights = folder / weights_name
    if not (folder / config_name).is_file() or not weights.is_file():
        others = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        raise HubError(
            f"{folder}: expected an adapter with {config_name} and {weights_name}, found "
            f"{', '.join(others)[:200] or 'no such folder'}. modenc reads no pickles: load the adapter where "
            f"you trust it, and save it with {_HOW_TO_SAVE[part]}"
        )
    most = most_adapter_bytes(info.hidden_size)
    if (size := weights.stat().st_size) > most:
        raise HubError(f"{weights}: expected at most {most} bytes for this base, found {size}")
    config = json_object(read_text(folder / config_name), str(folder / config_name))
    _check_base_name(config.get(_BASE_KEY[part]), info, folder, force=force)
    try:
        content = weights.read_bytes()
        deserialized(content, _TYPES)
        content = save(_renamed(part, load(content)))
        PARSERS[part](content, config, info.hidden_size)
    except HubError as error:
        raise HubError(
            f"{folder}: {error}; modenc cannot compute with this adapter, and the hub is as it was"
        ) from error
    (checked / part).mkdir()
    (checked / part / config_name).write_text(json_text(config), encoding="utf-8")
    (checked / part / weights_name).write_bytes(content)
    return config


def _renamed(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors as in a LoRA of the body alone, and convert them to a type of hubs."""
    found = {}
    for name, tensor in tensors.items():
        if part != "cla" and _POOLER.match(name):
            logger.info("%s: left out, since vectors do not depend on the pooler", name)
            continue
        kept = tensor if tensor.dtype == torch.float16 else tensor.float()
        found[name if part == "cla" else _BODY_PREFIX.sub("base_model.model.", name)] = kept.contiguous()
    return found


def _check_base_name(stated: object, info: HubInfo, folder: Path, *, force: bool) -> None:
    """Compare the base that an adapter names with the hub's; adapters record nothing else of their base."""
    base = info.base_id.partition("@")[0]
    page = base_page(info.base_id) or base
    name = str(stated or "").rstrip("/").rsplit("/", 1)[-1].lower()
    if not force and name not in {base.rsplit("/", 1)[-1].lower(), page.rsplit("/", 1)[-1].lower()}:
        found = f"one for {stated!r:.120}" if stated else "one that names no base"
        raise HubError(
            f"{folder}: expected an adapter for {page}, found {found}; "
            "add --force (in Python, force=True) if it was trained on the same weights"
        )


def _card(code: str, info: HubInfo, configs: Mapping[str, Any], license: str, source: str) -> Card:
    bases = {part: str(config.get(_BASE_KEY[part]) or "not named") for part, config in configs.items()}
    stages = {STAGE_OF_PART[part]: {"imported from": source, "base": base} for part, base in bases.items()}
    versions = {"modenc": version("modenc")}
    for part, config in configs.items():
        if stated := config.get(_VERSION_KEY[part]):
            versions["adapters" if part == "cla" else "peft"] = str(stated).removeprefix("adapters.")
    return Card(
        lang=code,
        name=language_name(code),
        base_id=info.base_id,
        base_fingerprint=info.base_fingerprint,
        stages=stages,
        data=[{"role": "imported adapters", "source": source, "license": license}],
        licenses=[license],
        recipe="",
        recipe_hash="",
        seed=0,
        versions=versions,
        created=datetime.now(UTC).date().isoformat(),
    )
