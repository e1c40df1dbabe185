"""What a sentence-transformers model of anybody's is checked for before the library loads it.

The library reads pickles where it finds no safetensors, takes the loading options that a model's own files
name, and imports the classes that they name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import ORIGINAL_TRANSFORMER_MODELS
from transformers import AutoConfig

from modenc.base_model.safety import check_config, folder_of, has_safetensors, no_safetensors, refuse_adapter
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
_WITHOUT_FILES = ("Normalize",)
_OPTIONS = ("model_args", "model_kwargs", "config_args", "config_kwargs")


def checked_model(name: str) -> tuple[Path, dict[str, Any]]:
    """What to give to ``SentenceTransformer`` so that it reads no pickles and runs nobody's code.

    Args:
        name: a folder, or a name on Hugging Face as sentence-transformers takes it; a hub of modenc's, which
            has checks of its own, is a folder.

    Returns:
        The model's folder, and options to load it with.

    Raises:
        BaseModelError: there are weights in pickles only, or files ask for more than a model's weights.
        Exception: there is no such model, it cannot be reached, or its files are damaged.
    """
    folder = folder_of(_full_name(name), subfolders=True, cache=os.environ.get("SENTENCE_TRANSFORMERS_HOME"))
    modules = _modules(name, folder)
    for kind, subfolder in modules:
        if kind != _HUB:
            _check_module(name, kind, folder / subfolder)
    if any(kind == _HUB for kind, _ in modules):
        if folder != Path(name):
            raise BaseModelError(
                f"base {name!r}: expected a model, found a hub of modules; download it at a commit that you "
                "trust, and give its folder"
            )
        return folder, {}
    # The library may also read the model as one without modules.
    has_safetensors(name, folder)
    # transformers warns of a tokenizer's fault that only those of Mistral models had.
    options = {"model_kwargs": {"use_safetensors": True}, "processor_kwargs": {"fix_mistral_regex": False}}
    return folder, options


def _full_name(name: str) -> str:
    """With the organisation that the library takes where none is given."""
    if Path(name).is_dir() or "/" in name or name.lower() in ORIGINAL_TRANSFORMER_MODELS:
        return name
    return f"{SentenceTransformer.default_huggingface_organization}/{name}"


def _modules(name: str, folder: Path) -> list[tuple[str, str]]:
    file = folder / _MODULES
    if not file.is_file():
        return [(f"sentence_transformers.{_BODY}", "")]
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return [(str(entry["type"]), str(entry["path"])) for entry in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaseModelError(
            f"base {name!r}: expected modules with a type and a path in its {_MODULES}, found "
            f"{type(error).__name__}: {error}; save the model again with sentence-transformers"
        ) from error


def _check_module(name: str, kind: str, folder: Path) -> None:
    package, _, last = kind.rpartition(".")
    if package.split(".")[0] != "sentence_transformers" or last not in _READ:
        raise BaseModelError(
            f"base {name!r}: expected modules of sentence-transformers ({', '.join(_READ)}) in its "
            f"{_MODULES}, found {kind!r:.80}; modenc runs no code of a model's own. Choose another model"
        )
    if not folder.is_dir() and last not in _WITHOUT_FILES:
        raise BaseModelError(
            f"base {name!r}: expected the folder {folder.name} of its {last}, found none; it has not been "
            "downloaded whole: do so once with a network"
        )
    if last == _BODY:
        _check_body(name, folder)
    if not has_safetensors(name, folder) and (last == _BODY or (folder / _PICKLE).exists()):
        raise BaseModelError(no_safetensors(name))


def _check_body(name: str, folder: Path) -> None:
    refuse_adapter(name, folder)
    check_config(name, AutoConfig.from_pretrained(folder, trust_remote_code=False))
    settings = Transformer.load_config(str(folder))
    if given := [key for key in _OPTIONS if settings.get(key)]:
        raise BaseModelError(
            f"base {name!r}: expected no {given[0]} in its sentence_bert_config.json, found "
            f"{settings[given[0]]!r:.80}, with which transformers may read other files or fetch code; take "
            "it out, or choose another model"
        )
