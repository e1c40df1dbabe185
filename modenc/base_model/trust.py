"""Checks applied before a third-party model is loaded: no pickles are read, and none of its code is run.

``use_safetensors=True`` only chooses the index of weights, which may still name other files, and
``trust_remote_code=False`` does not cover all that a configuration can make transformers fetch or import.
sentence-transformers also reads loading options, and names of classes to import, from a model's files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from huggingface_hub import snapshot_download
from transformers import AutoConfig, PretrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from modenc.errors import BaseModelError, ModencError

# No pickles and no code; .txt, .model and .spm are vocabularies.
_FETCHED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm"]
_SHARD = re.compile(r"[\w.-]+\.safetensors")
# Other values may name a repository, whose code transformers would import, or a package.
_ATTENTION = (None, "eager", "sdpa")
# Keys of a configuration with which transformers imports packages, reads other files, or replaces code.
_REFUSED = ("quantization_config", "transformers_weights", "fusion_config")
# The same for sentence-transformers' options of a transformer.
_OPTIONS = ("model_args", "model_kwargs", "config_args", "config_kwargs")
_BODY = "Transformer"
# Modules whose files are all known: others may name more modules, or read more files.
_KNOWN_MODULES = (
    _BODY,
    *("Pooling", "WeightedLayerPooling", "Normalize", "Dense", "Dropout", "LayerNorm", "CNN", "LSTM"),
    "StaticEmbedding",
)


@contextmanager
def as_base_model_error(message: Callable[[Exception], str]) -> Iterator[None]:
    """Turn errors of libraries about a missing or damaged model into a :class:`BaseModelError`."""
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # several libraries raise many types
        raise BaseModelError(message(error)) from error


def model_errors(name: str, expected: str) -> AbstractContextManager[None]:
    """As :func:`as_base_model_error`, with the message that ``name`` is not the ``expected`` model."""
    return as_base_model_error(lambda error: f"{name}: expected {expected}; found {str(error)[:500]}")


def model_folder(location: str, revision: str | None = None, *, subfolders: bool = False) -> Path:
    """Return the folder of a model's files; those on Hugging Face are fetched first, all of one commit.

    So the files that are checked are those that are loaded. If Hugging Face cannot be reached, those in the
    cache are used.

    Args:
        location: a folder, or a Hugging Face id.
        revision: commit, tag or branch of the id; None: its main branch.
        subfolders: whether to fetch files in subfolders.

    Raises:
        Exception: an error of huggingface_hub: the model cannot be fetched and is not in the cache.
    """
    if Path(location).is_dir():
        return Path(location)
    return Path(
        snapshot_download(
            location,
            revision=revision,
            allow_patterns=_FETCHED,
            ignore_patterns=None if subfolders else ["*/*"],
        )
    )


def refuse_adapter(base: str, folder: Path) -> None:
    """Refuse a peft adapter, for which transformers would load another model, and pickles.

    Raises:
        BaseModelError: the folder is an adapter.
    """
    if (folder / "adapter_config.json").exists():
        raise BaseModelError(
            f"base {base!r} is a peft adapter, for which transformers would load another model, and pickles; "
            "merge the adapter and save the whole model"
        )


def check_config(base: str, config: PretrainedConfig) -> None:
    """Refuse a configuration, or one nested in it, with which transformers fetches, imports or replaces code.

    Raises:
        BaseModelError: it names an attention that is not torch's, or has a key that is refused.
    """
    attention = config._attn_implementation
    if attention not in _ATTENTION:
        raise BaseModelError(
            f"base {base!r}: expected attention 'eager' or 'sdpa' in its config.json, found "
            f"{attention!r:.80}, for which transformers may fetch and run code; choose another base"
        )
    if found := [key for key in _REFUSED if getattr(config, key, None) is not None]:
        raise BaseModelError(
            f"base {base!r}: expected no {found[0]} in its config.json, with which transformers may read "
            "other files or import packages; save the model in float32 without it, or choose another base"
        )
    for key in config.sub_configs:
        if isinstance(part := getattr(config, key, None), PretrainedConfig):
            check_config(base, part)


def check_weights(base: str, folder: Path) -> None:
    """Refuse a model whose weights are not all in safetensors in the folder of its configuration.

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
    """Check whether there are weights in safetensors, and check their index if they have one.

    Raises:
        BaseModelError: the index names other files than safetensors in the same folder.
    """
    index = Path(folder, SAFE_WEIGHTS_INDEX_NAME)
    if not index.is_file():
        return Path(folder, SAFE_WEIGHTS_NAME).is_file()
    with as_base_model_error(
        lambda error: f"base {base!r}: expected a readable {index.name}, found {error!r:.200}"
    ):
        files = list(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    for file in files:
        if not (isinstance(file, str) and _SHARD.fullmatch(file)):
            raise BaseModelError(
                f"base {base!r}: expected names of safetensors files in the same folder in {index.name}, "
                f"found {file!r:.80}, and modenc reads no others; save the model again where you trust it"
            )
    return True


def checked_sentence_model(name: str) -> Path:
    """Check a model, so that ``SentenceTransformer`` reads no pickles and runs none of the model's code.

    Args:
        name: a folder, or a name on Hugging Face; without an organization that of sentence-transformers.

    Returns:
        The model's folder.

    Raises:
        BaseModelError: the weights are only in pickles, or files have settings that are refused.
        Exception: there is no such model, it cannot be fetched, or its files are damaged.
    """
    known = Path(name).is_dir() or "/" in name
    folder = model_folder(name if known else f"sentence-transformers/{name}", subfolders=True)
    modules = [(f"sentence_transformers.{_BODY}", "")]
    if (folder / "modules.json").is_file():
        with as_base_model_error(
            lambda error: f"base {name!r}: expected a readable modules.json, found {error!r}"
        ):
            entries = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
            modules = [(str(entry["type"]), str(entry["path"])) for entry in entries]
    for class_name, subfolder in modules:
        _check_module(name, class_name, folder / subfolder)
    return folder


def _check_module(name: str, class_name: str, folder: Path) -> None:
    package, _, last = class_name.rpartition(".")
    if package.split(".")[0] != "sentence_transformers" or last not in _KNOWN_MODULES:
        raise BaseModelError(
            f"base {name!r}: expected modules of sentence-transformers ({', '.join(_KNOWN_MODULES)}) in its "
            f"modules.json, found {class_name!r:.80}; modenc runs no code of models. Choose another model"
        )
    if last == _BODY:
        from sentence_transformers.sentence_transformer.modules import Transformer

        refuse_adapter(name, folder)
        check_config(name, AutoConfig.from_pretrained(folder, trust_remote_code=False))
        settings = Transformer.load_config(str(folder))
        if given := [key for key in _OPTIONS if settings.get(key)]:
            raise BaseModelError(
                f"base {name!r}: expected no {given[0]} in its sentence_bert_config.json, with which "
                "transformers may read other files or fetch code; choose another model"
            )
    if last == _BODY or (folder / "pytorch_model.bin").exists():
        check_weights(name, folder)
