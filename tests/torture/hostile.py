"""Hubs and recipes made to harm: refused, in bounded time and memory, and nothing of theirs is run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tiny_models
from outcome import Outcome
from safetensors.numpy import load_file, save_file

from modenc import ModularEncoder
from modenc.errors import ModencError
from modenc.hub.card import Card
from modenc.hub.files import files_below, sha256
from modenc.hub.seal import sealed_text
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe

SECONDS, MEGABYTES = 30.0, 1000
"""More than any case may take; `make torture` asks for 5 seconds."""


def resealed(root: Path, **changes: object) -> None:
    """Have a language's card agree with its files, as one who means harm would."""
    files = {
        name: {
            "sha256": sha256(path) if path.stat().st_size < 1 << 30 else "0" * 64,
            "bytes": path.stat().st_size,
        }
        for name, path in files_below(root)
        if name != "card.json" and path.is_file() and not path.is_symlink()
    }
    content = {**json.loads((root / "card.json").read_text()), "files": files, **changes}
    (root / "card.json").write_text(sealed_text(content))


def _claim(path: Path, header: object, length: int | None = None) -> None:
    """A safetensors file whose header claims what is not there."""
    text = json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text)


def _tensor(shape: list[int], end: int) -> dict[str, object]:
    return {"dtype": "F16", "shape": shape, "data_offsets": [0, end]}


_LORA = "base_model.model.encoder.layer.0.attention.self.query.lora_A.weight"


def _terabyte(root: Path) -> None:
    _claim(root / "embeddings.safetensors", {"embeddings": _tensor([1 << 29, 1 << 10], 1 << 40)})


def _huge_header(root: Path) -> None:
    _claim(root / "embeddings.safetensors", {}, length=1 << 40)


def _sparse_terabyte(root: Path) -> None:
    """All that its header claims is there: holes."""
    path = root / "se" / "adapter_model.safetensors"
    rank, hidden = 1 << 33, tiny_models.HIDDEN
    size = 2 * rank * hidden
    partner = {"dtype": "F16", "shape": [hidden, rank], "data_offsets": [size, 2 * size]}
    header = {_LORA: _tensor([rank, hidden], size), _LORA.replace("_A", "_B"): partner}
    _claim(path, header)
    os.truncate(path, path.stat().st_size + 2 * size)
    config = root / "se" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "r": rank}))


def _expression(root: Path) -> None:
    path = root / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text())
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    path.write_text(json.dumps({**content, "pre_tokenizer": split}))


def _added_tokens(root: Path) -> None:
    path = root / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    start = len(content["model"]["vocab"])
    content["added_tokens"] += [{"id": start + i, "content": f"t{i}", **flags} for i in range(500_000)]
    path.write_text(json.dumps(content))


def _ten_million_tokens(root: Path) -> None:
    (root / "tokenizer" / "tokenizer.json").write_text('{"added_tokens": [' + "{}," * 10_000_000 + "{}]}")


def _other_tokens(root: Path) -> None:
    (root / "tokenizer" / "added_tokens.json").write_text(json.dumps({f"t{i}": i for i in range(100_000)}))


def _nested(root: Path) -> None:
    (root / "se" / "adapter_config.json").write_text("[" * 1_000_000)


def _pickle(root: Path) -> None:
    (root / "se" / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")


def _link(root: Path) -> None:
    path = root / "README.md"
    path.unlink()
    path.symlink_to("/etc/passwd")


def _device(root: Path) -> None:
    path = root / "se" / "adapter_config.json"
    path.unlink()
    path.symlink_to("/dev/zero")


def _not_a_number(root: Path) -> None:
    path = root / "se" / "adapter_model.safetensors"
    weights = load_file(path)
    weights[min(weights)][0, 0] = np.nan
    save_file(weights, path)


def _no_scaling(root: Path) -> None:
    path = root / "se" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "lora_alpha": float("nan")}))


def _no_configuration(root: Path) -> None:
    (root / "cla" / "adapter_config.json").write_text('{"config": []}')


FILES: dict[str, Callable[[Path], None]] = {
    "a header that claims a terabyte": _terabyte,
    "a header of a terabyte": _huge_header,
    "a terabyte of holes": _sparse_terabyte,
    "an expression that backtracks": _expression,
    "half a million added tokens": _added_tokens,
    "ten million added tokens": _ten_million_tokens,
    "added tokens in another file": _other_tokens,
    "a million brackets": _nested,
    "a pickle": _pickle,
    "a weight that is no number": _not_a_number,
    "a scaling that is no number": _no_scaling,
    "a list for a configuration": _no_configuration,
    "a link": _link,
    "a link to a device": _device,
}

CARDS: dict[str, dict[str, object]] = {
    "a name outside": {"files": {"../../../etc/passwd": {"sha256": "0" * 64, "bytes": 1}}},
    "an absolute name": {"files": {"/etc/passwd": {"sha256": "0" * 64, "bytes": 1}}},
    "another language": {"lang": "az"},
    "a path for a language": {"lang": "../az"},
    "another base": {"base_fingerprint": "0" * 64},
}

HUBS: dict[str, dict[str, object]] = {
    "no width": {"hidden_size": 0},
    "a width that is no base's": {"hidden_size": 1 << 40},
    "another pooling": {"pooling": "__import__('os')"},
    "a prompt of megabytes": {"prompt": "a" * 5_000_000},
    "no length": {"max_length": 0},
    "another format": {"format_version": 99},
}

RECIPES = {
    "code for a value": 'name = __import__("os").system("touch ran")',
    "code in a string": 'name = "{__import__(\'os\')}"\npivot = "${oops}"',
    "a number of a million digits": "name = " + "9" * 1_000_000,
    "a hundred thousand brackets": "name = " + "[" * 100_000,
    "a key of a million parts": ".".join("a" * 200_000) + " = 1",
    "a circle of includes": 'include = "recipe.toml"',
    "a device for an include": 'include = "/dev/zero"',
    "NUL": "name = \0",
}


def hubs_and_recipes(folder: Path) -> Outcome:
    """Each case once: a clear error within :data:`SECONDS` and :data:`MEGABYTES`."""
    outcome = Outcome("hostile hubs and recipes")
    hub = tiny_models.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    encoder = ModularEncoder(hub.path)
    whole = folder / "whole"
    shutil.copytree(hub.path, whole)

    def restored() -> Path:
        shutil.rmtree(hub.path)
        shutil.copytree(whole, hub.path)
        return hub.path / "kk"

    for name, damage in FILES.items():
        root = restored()
        damage(root)
        resealed(root)
        outcome.add(_refused(name, lambda: encoder.load("kk")))
        other = Hub.create(folder / "other", hub.info)
        outcome.add(_refused(f"{name}, installed", lambda r=root, o=other: o.install(r)))
    for name, changes in CARDS.items():
        resealed(restored(), **changes)
        outcome.add(_refused(name, lambda: encoder.load("kk")))
    for name, changes in HUBS.items():
        restored()
        file = hub.path / "hub.json"
        file.write_text(sealed_text({**json.loads(file.read_text()), **changes}))
        outcome.add(_refused(name, lambda: Hub.open(hub.path)))
    outcome.add(_refused("a card of brackets", lambda: Card.from_json("[" * 1_000_000)))
    recipe = folder / "recipe.toml"
    for name, text in RECIPES.items():
        recipe.write_text(text)
        outcome.add(_refused(name, lambda: load_recipe(recipe)))
    if Path("ran").exists():
        outcome.lost.append("code of a hub or a recipe was run")
    return outcome


def _refused(name: str, act: Callable[[], object]) -> str | None:
    before, started = _peak(), time.process_time()
    try:
        act()
    except ModencError:
        seconds, megabytes = time.process_time() - started, _peak() - before
        if seconds > SECONDS or megabytes > MEGABYTES:
            return f"{name}: {seconds:.1f} s, {megabytes:.0f} MB"
        return None
    except Exception as error:  # the promise is that no other comes
        return f"{name}: {error!r:.200}"
    return f"{name}: accepted"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
