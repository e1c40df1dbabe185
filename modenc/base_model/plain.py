"""What a sentence-transformers model of anybody's is checked for before the library loads it.

The library reads pickles where it finds no safetensors, takes the loading options that a model's own files
name, and imports the classes that they name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig
from transformers.utils import cached_file, find_adapter_config_file

from modenc.base_model.safety import check_config, commit_of, has_safetensors, no_safetensors
from modenc.errors import BaseModelError

_MODULES = "modules.json"
_PICKLE = "pytorch_model.bin"
_HUB = "modenc.composition.st_module.ModularTransformer"
_BODY = "Transformer"
# Those whose files are all known: others may name more modules, or read more files.
_READ = (
    _BODY,
    *("Pooling", "WeightedLayerPooling", "Normalize", "Dense", "Dropout", "LayerNorm", "CNN", "LSTM"),
    "StaticEmbedding",
)
_OPTIONS = ("model_args", "model_kwargs", "config_args", "config_kwargs")


def loading_options(name: str) -> dict[str, Any]:
    """What ``SentenceTransformer(name)`` is to be given so that it reads no pickles and runs nobody's code.

    Args:
        name: a folder, or a Hugging Face id; a hub of modenc's has checks of its own.

    Raises:
        BaseModelError: there are weights in pickles only, or files ask for more than a model's weights.
        OSError: there is no such model, or it cannot be reached.
        ValueError: transformers knows no model of its kind.
    """
    revision = commit_of(name, None, _MODULES)
    if revision == "main":  # a base without modules
        revision = commit_of(name, None)
    modules = _modules(name, revision)
    if any(kind == _HUB for kind, _ in modules):
        return {}
    for kind, folder in modules:
        _check_module(name, revision, kind, folder)
    # The library may also read the model as one without modules.
    has_safetensors(name, name, revision)
    return {"revision": revision, "model_kwargs": {"use_safetensors": True}}


def _modules(name: str, revision: str) -> list[tuple[str, str]]:
    found = cached_file(name, _MODULES, revision=revision, _raise_exceptions_for_missing_entries=False)
    if found is None:
        return [(f"sentence_transformers.{_BODY}", "")]
    try:
        entries = json.loads(Path(found).read_text(encoding="utf-8"))
        return [(str(entry["type"]), str(entry["path"])) for entry in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaseModelError(
            f"base {name!r}: expected modules with a type and a path in its {_MODULES}, found "
            f"{type(error).__name__}: {error}; save the model again with sentence-transformers"
        ) from error


def _check_module(name: str, revision: str, kind: str, folder: str) -> None:
    package, _, last = kind.rpartition(".")
    if package.split(".")[0] != "sentence_transformers" or last not in _READ:
        raise BaseModelError(
            f"base {name!r}: expected modules of sentence-transformers ({', '.join(_READ)}) in its "
            f"{_MODULES}, found {kind!r:.80}; modenc runs no code of a model's own. Choose another model"
        )
    if last == _BODY:
        _check_body(name, revision, folder)
    if not has_safetensors(name, name, revision, folder) and (
        last == _BODY or _cached(name, revision, folder, _PICKLE)
    ):
        raise BaseModelError(no_safetensors(f"{name}/{folder}" if folder else name))


def _check_body(name: str, revision: str, folder: str) -> None:
    if find_adapter_config_file(name, revision=revision, subfolder=folder) is not None:
        raise BaseModelError(
            f"base {name!r} is a peft adapter (adapter_config.json), for which another model and pickles "
            "would be read; merge the adapter and save the whole model"
        )
    at = {"revision": revision, "subfolder": folder}
    check_config(name, AutoConfig.from_pretrained(name, trust_remote_code=False, **at))
    settings = Transformer.load_config(name, **at)
    if given := [key for key in _OPTIONS if settings.get(key)]:
        raise BaseModelError(
            f"base {name!r}: expected no {given[0]} in its sentence_bert_config.json, found "
            f"{settings[given[0]]!r:.80}, with which transformers may read other files or fetch code; take "
            "it out, or choose another model"
        )


def _cached(name: str, revision: str, folder: str, file: str) -> bool:
    found = cached_file(
        name, file, revision=revision, subfolder=folder, _raise_exceptions_for_missing_entries=False
    )
    return found is not None
