"""Checks applied before a third-party model is loaded: no pickles are read, and none of its code is run.

``use_safetensors=True`` chooses which index of weights is read, not which files that index names, and
``trust_remote_code=False`` says nothing of what a configuration makes transformers fetch or import.
sentence-transformers besides takes loading options from a model's own files, and imports the classes that
these name.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import OfflineModeIsEnabled
from transformers import AutoConfig, PretrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from modenc.cache import fetched_whole
from modenc.errors import BaseModelError, ModencError

logger = logging.getLogger(__name__)

_SECONDS = 10.0
# Neither pickles nor code; with vocabularies of each kind.
_FETCHED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm"]
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHARD = re.compile(r"[\w.-]+\.safetensors")
# Any other may be a repository's, whose code transformers fetches and imports, or a package's.
_ATTENTION = (None, "eager", "sdpa")
_REFUSED = {
    "quantization_config": "imports the packages that it names",
    "transformers_weights": "takes the weights from files that it names",
    "fusion_config": "replaces parts of models in the whole process",
}
_ADAPTER, _MODULES, _PICKLE = "adapter_config.json", "modules.json", "pytorch_model.bin"
_HUB = "modenc.composition.st_module.ModularTransformer"
_BODY = "Transformer"
# Those whose files are all known: others may name more modules, or read more files.
_KNOWN_MODULES = (
    _BODY,
    *("Pooling", "WeightedLayerPooling", "Normalize", "Dense", "Dropout", "LayerNorm", "CNN", "LSTM"),
    "StaticEmbedding",
)
_WITHOUT_FILES = ("Normalize",)
_OPTIONS = ("model_args", "model_kwargs", "config_args", "config_kwargs")


@contextmanager
def clear_errors(message: Callable[[Exception], str]) -> Iterator[None]:
    """Turn what libraries raise on a missing or damaged model into a :class:`BaseModelError`.

    Args:
        message: gives the error's text.
    """
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # of several libraries, and whatever a damaged file makes of it
        raise BaseModelError(message(error)) from error


def model_errors(name: str, expected: str) -> AbstractContextManager[None]:
    """As :func:`clear_errors`, with the message that ``name`` is not the ``expected`` model."""
    return clear_errors(lambda error: f"{name}: expected {expected}; found {str(error)[:500]}")


def model_folder(
    location: str, revision: str | None = None, *, subfolders: bool = False, cache: str | None = None
) -> Path:
    """The folder of a model's files; those of one on Hugging Face are fetched first, all of one commit.

    So what is checked is what is loaded. Where nothing can be fetched, what the cache has is taken. A commit,
    which cannot change, is fetched once: from then on the network is not asked while the cache has it.

    Args:
        location: a folder, or a Hugging Face id.
        revision: of the latter, a commit, tag or branch; None: its main branch.
        subfolders: whether files below the top are wanted.
        cache: where fetched files are kept; None: in Hugging Face's cache folder.

    Raises:
        Exception: of huggingface_hub, where it cannot be fetched and is not in the cache.
    """
    if Path(location).is_dir():
        return Path(location)
    snapshot = partial(
        snapshot_download,
        location,
        revision=revision,
        cache_dir=cache,
        allow_patterns=_FETCHED,
        ignore_patterns=None if subfolders else ["*/*"],
    )
    pinned = revision is not None and _COMMIT.fullmatch(revision)
    whole = fetched_whole("base", location, revision, subfolders, cache or constants.HF_HUB_CACHE)
    if pinned and whole.there():
        with suppress(Exception):  # removed from the cache since
            return Path(snapshot(local_files_only=True))
    try:
        # Asked first, since fetching waits for this answer without end.
        HfApi().model_info(location, revision=revision, timeout=_SECONDS)
        folder = Path(snapshot())
    except Exception as error:  # no network, a proxy's, a full or read-only disk, and what else there is
        try:
            folder = Path(snapshot(local_files_only=True))
        except Exception:
            raise error from None
        if not isinstance(error, OfflineModeIsEnabled):
            logger.warning("%s: taken from the cache, since it could not be fetched (%s)", location, error)
        return folder
    if pinned:
        whole.make()
    return folder


def refuse_adapter(base: str, folder: Path) -> None:
    """Refuse a peft adapter, for which transformers would take another model, and pickles.

    Raises:
        BaseModelError: it is one.
    """
    if (folder / _ADAPTER).exists():
        raise BaseModelError(
            f"base {base!r} is a peft adapter ({_ADAPTER}), and transformers would take another model for "
            "it, and pickles; merge the adapter and save the whole model"
        )


def check_config(base: str, config: PretrainedConfig) -> None:
    """Refuse a configuration with which transformers fetches, imports or replaces code.

    Args:
        base: what the message calls the base.
        config: the object that the model will be made with; those within it are checked, too.

    Raises:
        BaseModelError: it asks for attention of others than torch, or has a key that is refused.
    """
    asked = config._attn_implementation
    if asked not in _ATTENTION:
        raise BaseModelError(
            f"base {base!r}: expected attention 'eager' or 'sdpa' in its config.json, found {asked!r:.80}, "
            "for which transformers may fetch code and run it; take _attn_implementation and "
            "attn_implementation out of its config.json, or choose another base"
        )
    for key, consequence in _REFUSED.items():
        if getattr(config, key, None) is not None:
            raise BaseModelError(
                f"base {base!r}: expected no {key} in its config.json, found one, which {consequence}; "
                "save the model in float32 without it, or choose another base"
            )
    for key in config.sub_configs:
        if isinstance(part := getattr(config, key, None), PretrainedConfig):
            check_config(base, part)


def check_weights(base: str, folder: Path) -> None:
    """Refuse a model whose weights are not all in safetensors beside its configuration.

    Raises:
        BaseModelError: there are none, or their index names other files.
    """
    if not has_safetensors(base, folder):
        raise BaseModelError(
            f"base {base!r} has no safetensors (expected {SAFE_WEIGHTS_NAME} or {SAFE_WEIGHTS_INDEX_NAME}, "
            "found neither, or has not been downloaded whole). modenc reads no pickles: load the model where "
            "you trust it, save_pretrained() it into a folder, and give that folder"
        )


def has_safetensors(base: str, folder: Path) -> bool:
    """Whether there are weights in safetensors, whose index is checked if they have one.

    Raises:
        BaseModelError: the index names anything but safetensors files beside it.
    """
    index = Path(folder, SAFE_WEIGHTS_INDEX_NAME)
    if not index.is_file():
        return Path(folder, SAFE_WEIGHTS_NAME).is_file()
    try:
        files = list(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BaseModelError(
            f"base {base!r}: expected {index.name} with a weight_map from tensors to files, "
            f"found {type(error).__name__}: {error}; save the model again with save_pretrained()"
        ) from error
    for file in files:
        if not (isinstance(file, str) and _SHARD.fullmatch(file)):
            raise BaseModelError(
                f"base {base!r}: expected names of safetensors files beside it in {index.name}, "
                f"found {file!r:.80}. modenc reads no pickles, and no files from elsewhere: load the model "
                "where you trust it, save_pretrained() it into a folder, and give that folder"
            )
    return True


def checked_sentence_model(name: str) -> tuple[Path, dict[str, Any]]:
    """What to give to ``SentenceTransformer`` so that it reads no pickles and runs no code of the model's.

    Args:
        name: a folder, or a name on Hugging Face as sentence-transformers takes it. A hub of modules, which
            has checks of its own, has to be a folder.

    Returns:
        The model's folder, and options to load it with.

    Raises:
        BaseModelError: there are weights in pickles only, or files ask for more than a model's weights.
        Exception: there is no such model, it cannot be reached, or its files are damaged.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import ORIGINAL_TRANSFORMER_MODELS

    location = name
    if not (Path(name).is_dir() or "/" in name or name.lower() in ORIGINAL_TRANSFORMER_MODELS):
        location = f"{SentenceTransformer.default_huggingface_organization}/{name}"
    folder = model_folder(location, subfolders=True, cache=os.environ.get("SENTENCE_TRANSFORMERS_HOME"))
    modules = _modules(name, folder)
    for kind, subfolder in modules:
        if kind != _HUB:
            _check_module(name, kind, folder / subfolder)
    if any(kind == _HUB for kind, _ in modules):
        if folder != Path(name):
            raise BaseModelError(
                f"base {name!r}: expected a model, found a hub of modules; in Python give "
                f"ModularEncoder({name!r}), elsewhere a folder that it is pulled into (modenc hub pull)"
            )
        return folder, {}
    # The library may also read the model as one without modules.
    has_safetensors(name, folder)
    # transformers warns of a tokenizer's fault that only those of Mistral models had.
    options = {"model_kwargs": {"use_safetensors": True}, "processor_kwargs": {"fix_mistral_regex": False}}
    return folder, options


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
    if package.split(".")[0] != "sentence_transformers" or last not in _KNOWN_MODULES:
        raise BaseModelError(
            f"base {name!r}: expected modules of sentence-transformers ({', '.join(_KNOWN_MODULES)}) in its "
            f"{_MODULES}, found {kind!r:.80}; modenc runs no code of a model's own. Choose another model"
        )
    if not folder.is_dir() and last not in _WITHOUT_FILES:
        raise BaseModelError(
            f"base {name!r}: expected the folder {folder.name} of its {last}, found none; it has not been "
            "downloaded whole: do so once with a network"
        )
    if last == _BODY:
        _check_body(name, folder)
    elif (folder / _PICKLE).exists():
        check_weights(name, folder)
    else:
        has_safetensors(name, folder)


def _check_body(name: str, folder: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Transformer

    refuse_adapter(name, folder)
    check_config(name, AutoConfig.from_pretrained(folder, trust_remote_code=False))
    settings = Transformer.load_config(str(folder))
    if given := [key for key in _OPTIONS if settings.get(key)]:
        raise BaseModelError(
            f"base {name!r}: expected no {given[0]} in its sentence_bert_config.json, found "
            f"{settings[given[0]]!r:.80}, with which transformers may read other files or fetch code; take "
            "it out, or choose another model"
        )
    check_weights(name, folder)
