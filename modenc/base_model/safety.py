"""What a base's own files may make transformers read or run: looked at before transformers does.

``use_safetensors=True`` chooses which index of weights is read, not which files that index names, and
``trust_remote_code=False`` says nothing of what a configuration makes transformers fetch or import.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import OfflineModeIsEnabled
from transformers import PretrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from modenc.cache import Mark, fetched_whole
from modenc.errors import BaseModelError

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
_ADAPTER = "adapter_config.json"


def folder_of(
    location: str, revision: str | None = None, *, subfolders: bool = False, cache: str | None = None
) -> Path:
    """Where a model's files are: those of one on Hugging Face are fetched first, all of one commit.

    What is then checked and what is loaded is the same, and nothing else is looked for elsewhere. Where
    nothing can be fetched, what the cache has is taken. A commit, which cannot change, is fetched once: from
    then on nobody is asked for it as long as it is in the cache.

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
    whole = None
    if revision is not None and _COMMIT.fullmatch(revision):
        whole = fetched_whole("base", location, revision, subfolders, cache or constants.HF_HUB_CACHE)
        if whole.there():
            with suppress(Exception):  # removed from the cache since
                return Path(snapshot(local_files_only=True))
    return _fetched(location, revision, snapshot, whole)


def _fetched(location: str, revision: str | None, snapshot: Callable[..., str], whole: Mark | None) -> Path:
    """The files as they are now on Hugging Face; the cache's where they cannot be fetched."""
    try:
        # Asked first, since fetching waits for this answer without end.
        HfApi().model_info(location, revision=revision, timeout=_SECONDS)
        folder = Path(snapshot())
        if whole is not None:
            whole.make()
        return folder
    except Exception as error:  # no network, a proxy's, a full or read-only disk, and what else there is
        try:
            cached = Path(snapshot(local_files_only=True))
        except Exception:
            raise error from None
        if not isinstance(error, OfflineModeIsEnabled):
            logger.warning("%s: taken from the cache, since it could not be fetched (%s)", location, error)
        return cached


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
        config: the object that the model will be made with; those within it are looked at, too.

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
    """Refuse weights that are not all in safetensors beside the configuration.

    Args:
        base: what the message calls the base.
        folder: where its files are.

    Raises:
        BaseModelError: there are none, or their index names other files.
    """
    if not has_safetensors(base, folder):
        raise BaseModelError(no_safetensors(base))


def has_safetensors(base: str, folder: Path) -> bool:
    """Whether there are weights in safetensors, whose index is checked if they have one.

    Raises:
        BaseModelError: the index names anything but safetensors files beside it.
    """
    index, weights = (Path(folder, name) for name in (SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME))
    if index.is_file():
        _check_index(base, index)
    return index.is_file() or weights.is_file()


def no_safetensors(base: str) -> str:
    """The message for a base with pickles, or with no weights at all."""
    return (
        f"base {base!r} has no safetensors (expected {SAFE_WEIGHTS_NAME} or {SAFE_WEIGHTS_INDEX_NAME}, found "
        "neither, or has not been downloaded whole). modenc reads no pickles: load the model where you trust "
        "it, save_pretrained() it into a folder, and give that folder"
    )


def _check_index(base: str, index: Path) -> None:
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
