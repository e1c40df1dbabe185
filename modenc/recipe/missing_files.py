"""Checks that files, modules in the hub and the base that a recipe names are there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from modenc.recipe.issues import Issue, Place
from modenc.recipe.licenses import builds_on, fill, sources
from modenc.recipe.settings import LanguagePlan
from modenc.suggest import closest_match

_BUNDLED = "me5-small"
_BASE: Place = ("base", "model")
_EXPECTED_BASE = f"expected {_BUNDLED!r}, a saved model's folder, or a Hugging Face id"
_SECONDS = 10.0


def missing_files(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield missing files of one language's sources."""
    for path, _, source in sources(plan):
        for key in ("path", "pivot_path"):
            name = getattr(source, key)
            if name and "{" not in (file := fill(name, plan)):
                # The file of another language is not a misspelling.
                must_have = plan.lang if "{lang}" in name else None
                yield from _missing_file((*path, key), file, plan.data.root, must_have)


def _missing_file(path: Place, name: str, root: Path, must_have: str | None) -> Iterator[Issue]:
    file = root / os.path.expanduser(name)
    if os.path.isfile(file):
        return
    if not os.path.isdir(root) and not os.path.isabs(os.path.expanduser(name)):
        # One line for the folder, instead of one for every file in it.
        message = f"expected a folder, found none at '{root}'; override it with data.root=DIR"
        yield Issue(("data", "root"), message)
        return
    match = _near_file(file, must_have)
    hint = f"did you mean {match!r}?" if match else f"paths start at data.root = '{root}'"
    yield Issue(path, f"expected a file, found none at '{file}'; {hint}", (("data", "root"),))


def _near_file(file: Path, must_have: str | None) -> str | None:
    """Find the file of the same folder that was probably meant: another suffix first, then another spelling.

    ``must_have`` is a language's code that must be in the file's name.
    """
    names = [entry.name for entry in file.parent.iterdir()] if os.path.isdir(file.parent) else []
    if must_have is not None and must_have in _words(file.name):
        names = [name for name in names if must_have in _words(name)]
    same_stem = [name for name in names if name.split(".")[0] == file.name.split(".")[0]]
    return next(iter(sorted(same_stem) or get_close_matches(file.name, names, n=1, cutoff=0.93)), None)


def _words(name: str) -> list[str]:
    return re.split(r"[^\w]|_", name)


def missing_modules(
    plan: LanguagePlan, languages: Collection[str], chosen: Collection[str], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Yield languages that a plan builds on but that are neither ``chosen`` for training nor in a hub."""
    needed = builds_on(plan)
    if plan.pivot not in languages:
        # Users of a hub may rely on its pivot, even if no language is aligned to it.
        needed[plan.pivot] = ("pivot",)
    where = f"the hub {' or '.join(repr(str(hub)) for hub in hubs)}"
    for lang, place in needed.items():
        if lang in chosen or any(os.path.isfile(hub / lang / "card.json") for hub in hubs):
            continue
        among, advice = "the languages", f"add [languages.{lang}] or set it to 'fresh'"
        if lang in languages:
            among, advice = "the languages to train", f"train it first, or add --lang {lang}"
        elif place == ("pivot",):
            advice = f"add [languages.{lang}] or point hub.path at a hub that has it"
        yield Issue(place, f"expected {lang!r} among {among} or in {where}, found it in neither; {advice}")


def missing_base(model: str) -> Iterator[Issue]:
    """Check a base's name without loading the base; a warning if Hugging Face cannot be reached."""
    folder = Path(os.path.expanduser(model))
    if model == _BUNDLED:
        return  # made on first use
    if os.path.isdir(folder):
        yield from _wrong_config(folder / "config.json")
    elif model.startswith((".", "/", "~")) or model.partition("@")[0].count("/") > 1:
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found no folder {str(folder)!r}")
    elif match := closest_match(model, [_BUNDLED]):
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found {model!r}; did you mean {match!r}?")
    else:
        yield from _wrong_id(model)


def _wrong_config(config: Path) -> Iterator[Issue]:
    from modenc.base_model.resolve import SUPPORTED_FAMILIES

    if not config.is_file():
        found = f"found a folder without config.json, '{config.parent}'"
        yield Issue(_BASE, f"{_EXPECTED_BASE}, {found}; give a folder written by save_pretrained")
        return
    try:
        family = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        yield Issue(_BASE, f"'{config}' cannot be read ({error}); save the model again")
        return
    if family not in SUPPORTED_FAMILIES:
        families = ", ".join(SUPPORTED_FAMILIES)
        yield Issue(_BASE, f"expected a model of the families {families}, found {family!r}")


def _wrong_id(model: str) -> Iterator[Issue]:
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
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found {model!r}, which Hugging Face does not know; check it")
    except Exception as error:  # without a network several libraries raise their own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = (
            f"{model!r} is not in this machine's cache, and Hugging Face cannot be asked ({reason}); if it "
            f"is right, download it first: hf download {name}"
        )
        yield Issue(_BASE, message, level="warning")
