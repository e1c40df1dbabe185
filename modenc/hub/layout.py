"""Names and places of a hub's files, how they are read, and the content of those that all languages share."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from modenc.errors import HubError

MOST_JSON_BYTES = 1 << 24
"""Most bytes of a JSON file in a hub; larger ones would take minutes and gigabytes to read."""
# Greater integers cannot be converted to float.
_MOST_BITS = 1000

FORMAT_VERSION = 1
HUB_FILE = "hub.json"
CARD_FILE = "card.json"
README_FILE = "README.md"
VERSION_FOLDER = re.compile(r"v-[0-9a-f]{8}")
"""Name of the folder with the files of one version of a language."""

POOLING_FOLDER = "1_Pooling"
MODULES_FILE = "modules.json"
CONFIG_FILE = "config_sentence_transformers.json"
_POOLING = "sentence_transformers.sentence_transformer.modules.Pooling"
PROMPT_NAMES = ("default", "query", "document")
"""Prompt names of ``encode``, ``encode_query`` and ``encode_document``."""

POOLINGS = ("mean", "cls", "max")
_MOST_HIDDEN, _MOST_PROMPT = 1 << 16, 1000

EMBEDDINGS_TENSOR, SCALES_TENSOR = "embeddings", "scales"
"""Tensors in ``embeddings.safetensors``: ``embeddings`` [vocabulary, hidden] in float16; or ``embeddings`` in
int8 and ``scales`` [vocabulary] in float32, 0 or more: a piece's vector is its scale times its row."""
MOST_INT8 = 127
"""Largest integer in embeddings; the smallest is its negative."""

LORA_CONFIG, LORA_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""File names of peft."""
CLA_CONFIG, CLA_WEIGHTS = "adapter_config.json", "adapter.safetensors"
"""File names of AdapterHub."""

PART_FILES: dict[str, tuple[str, ...]] = {
    "tokenizer": ("tokenizer/tokenizer.json",),
    "embeddings": ("embeddings.safetensors",),
    "la": (f"la/{LORA_CONFIG}", f"la/{LORA_WEIGHTS}"),
    "se": (f"se/{LORA_CONFIG}", f"se/{LORA_WEIGHTS}"),
    "cla": (f"cla/{CLA_CONFIG}", f"cla/{CLA_WEIGHTS}"),
}
"""Part → required files, relative to the folder of a language's modules.

A language that keeps the base's vocabulary has neither tokenizer nor embeddings; the pivot has no ``cla``.
"""


@dataclass(frozen=True)
class StageModule:
    """The module that a stage of training makes."""

    short: str
    """Its name in lists."""
    title: str
    """The stage's name on pages."""
    parts: tuple[str, ...]
    """Parts of a language that store it."""


STAGE_MODULES = {
    "vocabulary": StageModule("vocabulary", "vocabulary", ("tokenizer", "embeddings")),
    "language_adaptation": StageModule("LA", "language adaptation (LA)", ("la",)),
    "sentence_encoding": StageModule("SE", "sentence encoding (SE)", ("se",)),
    "alignment": StageModule("CLA", "cross-lingual alignment (CLA)", ("cla",)),
}
"""Stage → the module that it makes, in the order of training."""
STAGE_OF_PART = {part: stage for stage, module in STAGE_MODULES.items() for part in module.parts}
"""Part → the stage that makes it."""


@dataclass(frozen=True)
class HubInfo:
    """Content of ``hub.json``, which all languages of a hub share: the base and how it is used."""

    base_id: str
    """Base: ``me5-small``, a Hugging Face id, or a folder."""
    base_fingerprint: str
    """Fingerprint of the base's weights; modules fit no others."""
    hidden_size: int
    """Width of the base and of the sentence vectors."""
    pivot: str
    """Language that all others are aligned to."""
    pooling: str
    """One of :data:`POOLINGS`."""
    prompt: str
    """Text put before every text."""
    max_length: int
    """Number of tokens at which texts are cut."""

    def differences(self, found: HubInfo) -> str:
        """Name each value that differs in ``found``; empty if none does."""
        pairs = ((item.name, getattr(self, item.name), getattr(found, item.name)) for item in fields(self))
        return "; ".join(
            f"{name}: expected {own!r}, found {other!r}" for name, own, other in pairs if own != other
        )


def check_info(info: HubInfo, where: str) -> None:
    """Check that all values are those that a base can have.

    Raises:
        HubError: it names the first that is not; ``where`` is the file, for the message.
    """
    if not 1 <= info.hidden_size <= _MOST_HIDDEN:
        wrong = f"hidden_size: expected 1 to {_MOST_HIDDEN}, found {info.hidden_size}"
    elif info.pooling not in POOLINGS:
        wrong = f"pooling: expected {', '.join(POOLINGS)}, found {info.pooling!r:.60}"
    elif info.max_length < 1:
        wrong = f"max_length: expected 1 or more, found {info.max_length}"
    elif len(info.prompt) > _MOST_PROMPT:
        wrong = f"prompt: expected at most {_MOST_PROMPT} characters, found {len(info.prompt)}"
    else:
        return
    raise HubError(f"{where}: {wrong}; correct it")


def parts_in(folder: Path) -> tuple[str, ...]:
    """Return the parts that a folder of modules has, of ``tokenizer embeddings la se cla``, in this order."""
    places = {part: names[0].partition("/")[0] for part, names in PART_FILES.items()}
    return tuple(part for part, place in places.items() if (folder / place).exists())


def read_info(root: Path) -> HubInfo:
    """Read ``hub.json`` in the folder ``root``.

    Raises:
        HubError: there is none, or its format is not that of this version.
    """
    path = root / HUB_FILE
    if not os.path.isfile(path):  # Path.is_file would raise for a name that is too long
        found = "a file" if os.path.isfile(root) else "no such folder"
        found = "a folder without it" if os.path.isdir(root) else found
        raise HubError(
            f"{root!s:.200}: expected a hub (a folder with {HUB_FILE}), found {found}; give a hub's path, or "
            "train one"
        )
    content = json_object(read_text(path), str(path))
    version = content.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise HubError(
            f"{path}: expected format_version {FORMAT_VERSION}, found {version!r:.60}; update modenc"
        )
    check_keys(content, HubInfo, str(path))
    info = HubInfo(**content)
    check_info(info, str(path))
    return info


def sentence_transformers_files(info: HubInfo) -> dict[str, str]:
    """Return file name → content of the files that let ``SentenceTransformer(hub_folder)`` load a hub."""
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


def json_object(content: str | bytes, where: str) -> dict[str, Any]:
    """Parse the JSON object in a file's content; ``where`` is the file's name for messages.

    Raises:
        HubError: it is something else.
    """
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HubError(f"{where}: expected readable JSON, found: {error}") from error
    if not isinstance(parsed, dict):
        raise HubError(f"{where}: expected a JSON object, found {type(parsed).__name__}")
    return parsed


def json_text(content: dict[str, Any] | list[Any]) -> str:
    """Write a value as the text of an indented JSON file."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # File names that are not UTF-8 contain surrogates, which JSON can escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_keys(content: dict[str, Any], kind: type, where: str) -> None:
    """Check that an object has the keys of the class ``kind``, and values of their types.

    Raises:
        HubError: it names the first difference; ``where`` is the object's place, for the message.
    """
    hints = get_type_hints(kind)
    if different := sorted(hints.keys() ^ content.keys()):
        raise HubError(
            f"{where}: expected the keys {', '.join(hints)}, found a difference in "
            f"{', '.join(different)[:100]}; correct the file, or update modenc if a later version wrote it"
        )
    for name, value in content.items():
        _check_value(value, hints[name], f"{where}: {name}")


def _check_value(value: Any, hint: Any, where: str) -> None:
    if hint is Any:
        return
    kind: Any = dict if is_typeddict(hint) else get_origin(hint) or hint
    fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not fits or (isinstance(value, int) and value.bit_length() > _MOST_BITS):
        raise HubError(f"{where}: expected {kind.__name__}, found {value!r:.60}; correct the file")
    if is_typeddict(hint):
        check_keys(value, hint, where)
    elif kind in (dict, list):
        for place, item in value.items() if kind is dict else enumerate(value):
            _check_value(item, get_args(hint)[-1], f"{where}: {place!s:.60}")


def read_text(path: Path) -> str:
    """Read the text of a small file.

    Raises:
        HubError: it is missing, unreadable, larger than :data:`MOST_JSON_BYTES` or not UTF-8.
    """
    try:
        # Opening a pipe would wait for its writer.
        if path.exists() and not path.is_file():
            raise HubError(f"{path}: expected a plain file, found a folder or special file")
        with path.open("rb") as stream:
            content = stream.read(MOST_JSON_BYTES + 1)
        if len(content) > MOST_JSON_BYTES:
            raise HubError(f"{path}: expected at most {MOST_JSON_BYTES >> 20} MB, found more")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HubError(f"{path}: expected a readable file, found: {error}") from error


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield (relative POSIX path, path) of what is in a language's folder of files and the folders of parts.

    Links, special files and folders in the folders of parts are yielded, too.
    """
    for path in sorted([*root.glob("*"), *root.glob("*/*")]):
        if path.parent != root or path.is_symlink() or not path.is_dir():
            yield path.relative_to(root).as_posix(), path
