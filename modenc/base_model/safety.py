"""What a base's own files may make transformers read or run: looked at before transformers does.

``use_safetensors=True`` chooses which index of weights is read, not which files that index names, and
``trust_remote_code=False`` says nothing of what a configuration makes transformers fetch or import.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from transformers import PretrainedConfig
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file, extract_commit_hash

from modenc.errors import BaseModelError

_SHARD = re.compile(r"[\w.-]+\.safetensors")
# Any other may be a repository's, whose code transformers fetches and imports, or a package's.
_ATTENTION = (None, "eager", "sdpa")
_REFUSED = {
    "quantization_config": "imports the packages that it names",
    "transformers_weights": "takes the weights from files that it names",
    "fusion_config": "replaces parts of models in the whole process",
}


def commit_of(location: str, revision: str | None, file: str = "config.json") -> str:
    """What a base is read at: the commit that ``revision`` names, so that all its files are of one state.

    A revision is left as it is where no commit is known: of a folder, and where ``file`` is not found.
    ``main`` would let transformers take weights from a stranger's pull request where it finds none.

    Raises:
        OSError: there is no such base, or it cannot be reached.
    """
    asked = revision or "main"
    if Path(location).is_dir():
        return asked
    found = cached_file(location, file, revision=asked, _raise_exceptions_for_missing_entries=False)
    return extract_commit_hash(found, None) or asked


def check_config(base: str, config: PretrainedConfig) -> None:
    """Refuse a configuration with which transformers fetches, imports or replaces code.

    Args:
        base: what the message calls the base.
        config: the object that the model will be made with.

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


def check_weights(base: str, location: str, revision: str) -> None:
    """Refuse weights that are not all in safetensors beside the configuration.

    Args:
        base: what the message calls the base.
        location: a folder, or a Hugging Face id.
        revision: what :func:`commit_of` gave.

    Raises:
        BaseModelError: there are none, or their index names other files.
        OSError: the base cannot be reached.
    """
    if not has_safetensors(base, location, revision):
        raise BaseModelError(no_safetensors(base))


def has_safetensors(base: str, location: str, revision: str, folder: str = "") -> bool:
    """Whether there are weights in safetensors, whose index is checked if they have one.

    Raises:
        BaseModelError: the index names anything but safetensors files beside it.
        OSError: the base cannot be reached.
    """
    weights, index = (
        cached_file(
            location, name, revision=revision, subfolder=folder, _raise_exceptions_for_missing_entries=False
        )
        for name in (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)
    )
    if index is not None:
        _check_index(base, Path(index))
    return weights is not None or index is not None


def no_safetensors(base: str) -> str:
    """The message for a base with pickles, or with no weights at all."""
    return (
        f"base {base!r} has no safetensors (expected {SAFE_WEIGHTS_NAME} or {SAFE_WEIGHTS_INDEX_NAME}, found "
        "neither). modenc reads no pickles: load the model where you trust it, save_pretrained() it into a "
        "folder, and give that folder"
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
