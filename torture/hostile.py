"""Malicious hubs: refused with a clear error, in bounded time and memory, and nothing of theirs is run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tiny_languages
import tiny_models
from outcomes import Outcome
from safetensors.numpy import load_file, save_file

from modenc import ModularEncoder
from modenc.errors import ModencError
from modenc.hub.store import Hub

SECONDS, MEGABYTES = 20.0, 1000
"""More than any case may take."""
_EMBEDDINGS, _SE = "embeddings.safetensors", "se/adapter_model.safetensors"
Damage = Callable[[Path], None]


def _claim(name: str, header: object, length: int | None = None) -> Damage:
    """A safetensors file whose header claims what is not there."""
    text = json.dumps(header).encode()
    content = (len(text) if length is None else length).to_bytes(8, "little") + text
    return lambda root: (root / name).write_bytes(content) and None


def _in_json(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(root: Path) -> None:
        content = json.loads((root / name).read_text())
        change(content)
        (root / name).write_text(json.dumps(content))

    return damage


def _in_weights(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(root: Path) -> None:
        weights = load_file(root / name)
        change(weights)
        save_file(weights, root / name)

    return damage


def _filled(name: str, value: float) -> Damage:
    """All weights in a file become this number."""
    return _in_weights(
        name, lambda weights: weights.update({k: np.full(w.shape, value, "f4") for k, w in weights.items()})
    )


def _written(name: str, content: str) -> Damage:
    return lambda root: (root / name).write_text(content) and None


def _replaced(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        make(root / name)

    return damage


def _holes(root: Path) -> None:
    with (root / "pad.txt").open("wb") as stream:
        stream.truncate(8 << 30)


def _deep(root: Path) -> None:
    (root / "/".join("d" * 40)).mkdir(parents=True)


def _linked_folder(root: Path) -> None:
    folder = root.parent
    folder.rename(folder.with_name(".elsewhere"))
    folder.symlink_to(folder.with_name(".elsewhere"), target_is_directory=True)


_TABLE = {"embeddings": {"dtype": "F16", "shape": [1 << 29, 1 << 10], "data_offsets": [0, 1 << 40]}}
_TOKENIZER, _CONFIG = "tokenizer/tokenizer.json", "se/adapter_config.json"
FILES: dict[str, tuple[Damage, str]] = {
    "a header that claims a terabyte": (_claim(_EMBEDDINGS, _TABLE), "expected a whole safetensors file"),
    "a header of a terabyte": (_claim(_EMBEDDINGS, {}, 1 << 40), "header of at most 16 MB"),
    "weights that are no numbers": (_filled(_SE, np.nan), "expected weights from -10 to 10, found nan"),
    "weights whose products are none": (
        _filled(_SE, 1e38),
        "expected weights from -10 to 10, found 0 to 1e+38",
    ),
    "embeddings whose squares are none": (_filled(_EMBEDDINGS, 3e38), "expected weights from -1000 to 1000"),
    "embeddings in three dimensions": (
        _in_weights(_EMBEDDINGS, lambda weights: weights.update(embeddings=weights["embeddings"][..., None])),
        "(tokenizer's pieces, hidden size), found [",
    ),
    "a scaling that is no number": (
        _in_json(_CONFIG, lambda content: content.update(lora_alpha=np.nan)),
        "for lora_alpha in adapter_config.json, found nan",
    ),
    "no rank": (_in_json(_CONFIG, lambda content: content.update(r=0)), "ranks of 1 or more"),
    "a million brackets": (_written(_CONFIG, "[" * 1_000_000), "expected readable JSON"),
    "no piece for what is unknown": (
        _in_json(_TOKENIZER, lambda content: content["model"].update(unk_id=None)),
        "unk_id",
    ),
    "a tokenizer of fifty megabytes": (_written(_TOKENIZER, " " * 50_000_000), "at most 33554432 bytes"),
    "a pipe for a tokenizer": (_replaced(_TOKENIZER, os.mkfifo), "expected a plain file"),
    "a pickle": (
        _written("se/adapter_model.bin", "cos\nsystem\n(S'touch ran'\ntR."),
        "expected the files of",
    ),
    "code on the card": (_written("evil.py", "open('ran', 'w')"), "expected the files of"),
    "a link": (_replaced("README.md", lambda path: path.symlink_to("/etc/passwd")), "expected a plain file"),
    "a link to a device": (_replaced(_CONFIG, lambda path: path.symlink_to("/dev/zero")), "found a link"),
    "a link for a language's folder": (_linked_folder, "found a link"),
    "eight gigabytes of holes": (_holes, "pad.txt: expected the files of"),
    "folders in folders": (_deep, "expected a plain file"),
}
"""Case → change to a language's files, and what its refusal says."""

CARDS: dict[str, tuple[dict[str, object], str]] = {
    "another language": ({"lang": "az"}, "found those of 'az'"),
    "a path for a language": ({"lang": "../az"}, "found those of '../az'"),
    "a path for a version": ({"version": "../az"}, "expected a name such as v-0123abcd"),
    "another base": ({"base_fingerprint": "0" * 64}, "expected modules for the base"),
    "a score of four hundred digits": (
        {"comparison": {"base": {"x": 10**400}}},
        "comparison: base: x: expected float",
    ),
    "a file elsewhere": (
        {"files": {"../../../etc/passwd": {"sha256": "0" * 64, "bytes": 1}}},
        "../../../etc/passwd: expected by the card, not found",
    ),
    "many keys": ({f"k{i}": 1 for i in range(100_000)}, "found a difference in k0"),
}

HUBS: dict[str, tuple[dict[str, object], str]] = {
    "no width": ({"hidden_size": 0}, "hidden_size: expected 1 to"),
    "a width that is no base's": ({"hidden_size": 1 << 40}, "hidden_size: expected 1 to"),
    "another pooling": ({"pooling": "__import__('os')"}, "pooling: expected mean, cls, max"),
    "a prompt of megabytes": ({"prompt": "a" * 5_000_000}, "prompt: expected at most 1000"),
}


def hubs(folder: Path) -> Outcome:
    """Each case once: a clear error within :data:`SECONDS` and :data:`MEGABYTES`."""
    outcome = Outcome("hostile hubs")
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    encoder = ModularEncoder(hub.path)
    whole = shutil.copytree(hub.path, folder / "whole")

    def restored() -> Path:
        encoder[0].cache.restart()
        shutil.rmtree(hub.path)
        shutil.copytree(whole, hub.path)
        return hub.folder("kk")

    for name, (damage, words) in FILES.items():
        language = restored()
        damage(hub.version_folder("kk"))
        tiny_languages.update_card(language)
        outcome.add(_refused(name, lambda: encoder.load("kk"), words))
        other = Hub.create(folder / "other", hub.info)
        outcome.add(_refused(f"{name}, installed", lambda f=language, o=other: o.install(f), words))
    for name, (changes, words) in CARDS.items():
        tiny_languages.edit_json(restored() / "card.json", **changes)
        outcome.add(_refused(name, lambda: encoder.load("kk"), words))
    for name, (changes, words) in HUBS.items():
        restored()
        tiny_languages.edit_json(hub.path / "hub.json", **changes)
        outcome.add(_refused(name, lambda: Hub.open(hub.path), words))
    if Path("ran").exists():
        outcome.lost.append("code of a hub was run")
    return outcome


def _refused(name: str, act: Callable[[], object], words: str) -> str | None:
    before, started = _peak(), time.process_time()
    try:
        act()
    except ModencError as error:
        if words not in str(error):
            return f"{name}: refused for another reason: {error}"
        seconds, megabytes = time.process_time() - started, _peak() - before
        if seconds > SECONDS or megabytes > MEGABYTES:
            return f"{name}: {seconds:.1f} s, {megabytes:.0f} MB"
        return None
    except Exception as error:  # the promise is that no other comes
        return f"{name}: {error!r:.200}"
    return f"{name}: accepted"


def _peak() -> float:
    """The most megabytes that were in memory at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
