"""Files that let ``SentenceTransformer(hub_folder)`` load a hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.checks.folder import HubIssue
from modenc.hub.files import json_text, read_text
from modenc.hub.layout import HubInfo
from modenc.storage import write_atomically

POOLING_FOLDER = "1_Pooling"
MODULES_FILE = "modules.json"
CONFIG_FILE = "config_sentence_transformers.json"
_POOLING = "sentence_transformers.sentence_transformer.modules.Pooling"
PROMPT_NAMES = ("default", "query", "document")
"""Prompt names of ``encode``, ``encode_query`` and ``encode_document``."""


def write_sentence_transformers_files(root: Path, info: HubInfo) -> None:
    """Write ``modules.json`` and the files it refers to; they depend on ``info`` only."""
    for name, text in _files(info).items():
        write_atomically(root / name, text)


def sentence_transformers_issues(root: Path, info: HubInfo) -> Iterator[HubIssue]:
    """Yield an issue for each of these files that differs from the one modenc writes."""
    for name, text in _files(info).items():
        try:
            found = read_text(root / name)
        except HubError as error:
            yield HubIssue(name, str(error))
        else:
            if found != text:
                yield HubIssue(name, "expected the file as modenc writes it, found another; restore it")


def _files(info: HubInfo) -> dict[str, str]:
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "modenc.composition.st_module.ModularTransformer"},
        {"idx": 1, "name": "1", "path": POOLING_FOLDER, "type": _POOLING},
    ]
    # Written last, since it refers to the others.
    return {**pooling_and_prompts(info), MODULES_FILE: json_text(modules)}


def pooling_and_prompts(info: HubInfo) -> dict[str, str]:
    """Return file name → content of sentence-transformers' configuration of pooling and prompts."""
    # sentence-transformers 5.4 and later read these key names; 5.7's own ones only work from 5.7.
    pooling = {
        "word_embedding_dimension": info.hidden_size,
        "pooling_mode_cls_token": info.pooling == "cls",
        "pooling_mode_mean_tokens": info.pooling == "mean",
        "pooling_mode_max_tokens": info.pooling == "max",
        "include_prompt": True,
    }
    config = {
        "model_type": "SentenceTransformer",
        "prompts": dict.fromkeys(PROMPT_NAMES, info.prompt) if info.prompt else {},
        "default_prompt_name": "default" if info.prompt else None,
        "similarity_fn_name": "cosine",
    }
    return {f"{POOLING_FOLDER}/config.json": json_text(pooling), CONFIG_FILE: json_text(config)}
