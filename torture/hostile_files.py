"""Changes to a language's folder by an attacker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tiny_models
import torch
from safetensors import torch as torch_files
from safetensors.numpy import load_file, save_file


def _claim(path: Path, header: object, length: int | None = None) -> None:
    """A safetensors file whose header claims what is not there."""
    text = json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text)


def _tensor(shape: list[int], end: int) -> dict[str, object]:
    return {"dtype": "F16", "shape": shape, "data_offsets": [0, end]}


_CLA = "cla/adapter.safetensors"
_PARALLEL = "encoder.layer.{}.output.adapters.cla.adapter_"
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


def _in_json(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A case that changes the object in a JSON file."""

    def damage(root: Path) -> None:
        path = root / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return damage


def _in_tokenizer(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return _in_json("tokenizer/tokenizer.json", change)


def _added_tokens(content: dict[str, Any]) -> None:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    start = len(content["model"]["vocab"])
    content["added_tokens"] += [{"id": start + i, "content": f"t{i}", **flags} for i in range(500_000)]


def _long_added_tokens(content: dict[str, Any]) -> None:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False) | {"normalized": True}
    start = len(content["model"]["vocab"])
    tokens = [{"id": start + i, "content": f"{i:0120}", **flags} for i in range(9900)]
    content["added_tokens"] += tokens


def _ten_million_tokens(root: Path) -> None:
    (root / "tokenizer" / "tokenizer.json").write_text('{"added_tokens": [' + "{}," * 10_000_000 + "{}]}")


def _other_tokens(root: Path) -> None:
    (root / "tokenizer" / "added_tokens.json").write_text(json.dumps({f"t{i}": i for i in range(100_000)}))


def _nested(root: Path) -> None:
    (root / "se" / "adapter_config.json").write_text("[" * 1_000_000)


def _pickle(root: Path) -> None:
    (root / "se" / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")


def _replacements(count: int) -> dict[str, Any]:
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    return {"normalizer": {"type": "Sequence", "normalizers": [grow] * count}}


def _template(content: dict[str, Any]) -> None:
    template = content["post_processor"]
    template["single"] = [template["single"][0]] * 3000


def _far_id(content: dict[str, Any]) -> None:
    content["added_tokens"][0]["id"] = 4_000_000_000


def _typed(name: str, dtype: torch.dtype, value: float = 0.0) -> Callable[[Path], None]:
    """A case with a weights file of another number type."""

    def damage(root: Path) -> None:
        weights = torch_files.load_file(root / name)
        torch_files.save_file(
            {key: torch.full_like(w, value, dtype=dtype) for key, w in weights.items()}, root / name
        )

    return damage


def _long_bias(root: Path) -> None:
    path = root / "cla" / "adapter.safetensors"
    weights = load_file(path)
    name = min(name for name in weights if name.endswith("bias"))
    weights[name] = np.append(weights[name], weights[name][:1])
    save_file(weights, path)


def _pipe(name: str) -> Callable[[Path], None]:
    """A case with a pipe that nobody writes to."""

    def damage(root: Path) -> None:
        path = root / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return damage


def _holes(root: Path) -> None:
    with (root / "pad.txt").open("wb") as stream:
        stream.truncate(8 << 30)


def _code(root: Path) -> None:
    (root / "evil.py").write_text("open('ran', 'w')")


def _deep(root: Path) -> None:
    folder = root
    for _ in range(40):
        folder = folder / "d"
        os.mkdir(folder)


def _normalizers(*parts: dict[str, Any]) -> Callable[[Path], None]:
    """A case with these in the place of the tokenizer's own."""
    sequence = {"type": "Sequence", "normalizers": list(parts)}
    return _in_tokenizer(lambda content: content.update(normalizer=sequence))


def _split(expression: str, **more: object) -> Callable[[Path], None]:
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    return _in_tokenizer(lambda content: content.update(pre_tokenizer={**split, **more}))


def _word_piece(**changes: object) -> Callable[[Path], None]:
    def change(content: dict[str, Any]) -> None:
        vocabulary = {piece: number for number, (piece, _) in enumerate(content["model"]["vocab"])}
        unknown = next(iter(vocabulary))
        settings = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100, **changes}
        content["model"] = {"type": "WordPiece", "unk_token": unknown, "vocab": vocabulary, **settings}

    return _in_tokenizer(change)


def _long_piece(content: dict[str, Any]) -> None:
    content["model"]["vocab"][-1][0] = "a" * 1000


def _twice(root: Path) -> None:
    path = root / "tokenizer" / "tokenizer.json"
    path.write_text('{"normalizer": null, ' + path.read_text()[1:])


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


def _in_weights(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A case that changes the tensors in a safetensors file."""

    def damage(root: Path) -> None:
        weights = load_file(root / name)
        change(weights)
        save_file(weights, root / name)

    return damage


def _integers(scale: float, **more: Any) -> Callable[[Path], None]:
    """A case with embeddings in int8 of one scale, and other tensors; one that is ``None`` is left out."""

    def change(weights: dict[str, Any]) -> None:
        rows = np.ones(weights["embeddings"].shape, np.int8)
        tensors = {"embeddings": rows, "scales": np.full(len(rows), scale, np.float32), **more}
        weights.update({name: tensor for name, tensor in tensors.items() if tensor is not None})

    return _in_weights("embeddings.safetensors", change)


def _up(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A case with other matrices up from the bottleneck of a parallel adapter."""
    names = [f"{_PARALLEL.format(layer)}up.weight" for layer in range(tiny_models.LAYERS)]
    return _in_weights(_CLA, lambda weights: weights.update({name: change(weights[name]) for name in names}))


def _far_layer(weights: dict[str, Any]) -> None:
    for name in [name for name in weights if name.startswith(_PARALLEL.format(0))]:
        weights[name.replace("layer.0.", f"layer.{'9' * 5000}.")] = weights.pop(name)


def _other_bottleneck(weights: dict[str, Any]) -> None:
    weights[f"{_PARALLEL.format(0)}up.weight"] = np.zeros((tiny_models.HIDDEN, 4), np.float16)


def _rank_of_one(weights: dict[str, Any]) -> None:
    weights[_LORA.replace("_A", "_B")] = np.zeros((tiny_models.HIDDEN, 1), np.float16)


def _no_module(name: str, tensor: str) -> Callable[[Path], None]:
    """A case with a tensor more, of six gigabytes of holes."""
    numbers = 3 << 30

    def damage(root: Path) -> None:
        weights = load_file(root / name)
        end = sum(weight.nbytes for weight in weights.values())
        start, header = 0, {}
        for key, weight in weights.items():
            offsets = [start, start := start + weight.nbytes]
            header[key] = {"dtype": "F16", "shape": list(weight.shape), "data_offsets": offsets}
        header[tensor] = {"dtype": "F16", "shape": [numbers], "data_offsets": [end, end + 2 * numbers]}
        _claim(root / name, header)
        os.truncate(root / name, (root / name).stat().st_size + end + 2 * numbers)

    return damage


def _large_products(root: Path) -> None:
    """Finite all of them; the scaling makes infinity of them."""
    _typed("se/adapter_model.safetensors", torch.float32, 1e38)(root)
    path = root / "se" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "lora_alpha": 1000}))


def _linked_folder(root: Path) -> None:
    elsewhere = root.with_name(".elsewhere")
    root.rename(elsewhere)
    root.symlink_to(elsewhere, target_is_directory=True)


def _linked_card(root: Path) -> None:
    elsewhere = root.with_name(".card.json")
    (root / "card.json").rename(elsewhere)
    (root / "card.json").symlink_to(elsewhere)


def _no_configuration(root: Path) -> None:
    (root / "cla" / "adapter_config.json").write_text('{"config": []}')


FILES: dict[str, Callable[[Path], None]] = {
    "replacements that grow tenfold each": _in_tokenizer(lambda content: content.update(_replacements(9))),
    "a repeated group behind a backslash": _split(r"(?:a+|b\\)+$"),
    "letters that may all be left out": _split("a?" * 22 + r"(?!\w)"),
    "an expression beside what a template has": _split("(a+)+$", type_id=0),
    "a component that leaves its type to be guessed": _normalizers(
        {"pattern": {"Regex": "(?=a)"}, "content": "a"}
    ),
    "replacements of nothing": _normalizers(
        *[{"type": "Replace", "pattern": {"Regex": "(?=a)"}, "content": "a"}] * 8
    ),
    "replacements of an empty text": _normalizers(
        *[{"type": "Replace", "pattern": {"String": ""}, "content": "a"}] * 8
    ),
    "bytes made characters again and again": _normalizers(*[{"type": "ByteLevel"}] * 8),
    "letters that fall apart and are put together again": _normalizers(
        *[{"type": "Replace", "pattern": {"Regex": r"\S"}, "content": "\u1f82"}, {"type": "NFD"}] * 6
    ),
    "a text that is put before each stretch": _normalizers({"type": "Prepend", "prepend": "a" * 100}),
    "a template with the text five times": _in_tokenizer(
        lambda content: content["post_processor"].update(single=[{"Sequence": {"id": "A", "type_id": 0}}] * 5)
    ),
    "a score beyond all numbers": _in_tokenizer(
        lambda content: content["model"]["vocab"][-1].__setitem__(1, 1e308)
    ),
    "a million characters of added tokens": _in_tokenizer(_long_added_tokens),
    "a special token that is none": _in_json(
        "tokenizer/tokenizer_config.json", lambda content: content.update(mask_token="hello")
    ),
    "half a character for a special token": _in_json(
        "tokenizer/tokenizer_config.json", lambda content: content.update(mask_token="\udc80")
    ),
    "a word of a thousand million characters": _word_piece(max_input_chars_per_word=10**9),
    "a prefix of a megabyte": _word_piece(continuing_subword_prefix="#" * 1_000_000),
    "a piece of a thousand characters": _in_tokenizer(_long_piece),
    "a key twice": _twice,
    "folders in folders": _deep,
    "an empty character map": _in_tokenizer(
        lambda content: content.update(normalizer={"type": "Precompiled", "precompiled_charsmap": ""})
    ),
    "an id of four thousand million": _in_tokenizer(_far_id),
    "no piece for what is unknown": _in_tokenizer(lambda content: content["model"].update(unk_id=None)),
    "three thousand tokens around a text": _in_tokenizer(_template),
    "components of no library": _in_tokenizer(lambda content: content.update(normalizer={"type": "Evil"})),
    "weights of a type that numpy lacks": _typed("embeddings.safetensors", torch.bfloat16),
    "weights too large for what is computed in": _typed("embeddings.safetensors", torch.float64, 1e300),
    "no rank": _in_json("se/adapter_config.json", lambda content: content.update(r=0)),
    "a bias too long": _long_bias,
    "a pipe for a tokenizer": _pipe("tokenizer/tokenizer.json"),
    "a pipe for special tokens": _pipe("tokenizer/special_tokens_map.json"),
    "eight gigabytes of holes": _holes,
    "code on the card": _code,
    "a header that claims a terabyte": _terabyte,
    "a header of a terabyte": _huge_header,
    "a terabyte of holes": _sparse_terabyte,
    "an expression that backtracks": _split("(a+)+$"),
    "half a million added tokens": _in_tokenizer(_added_tokens),
    "ten million added tokens": _ten_million_tokens,
    "added tokens in another file": _other_tokens,
    "a million brackets": _nested,
    "a pickle": _pickle,
    "a weight that is no number": _not_a_number,
    "a scaling that is no number": _in_json(
        "se/adapter_config.json", lambda content: content.update(lora_alpha=np.nan)
    ),
    "a list for a configuration": _no_configuration,
    "a link": _link,
    "a link to a device": _device,
    "a link for a language's folder": _linked_folder,
    "a link for a card": _linked_card,
    "a bottleneck that narrows": _in_weights(_CLA, _other_bottleneck),
    "a column for all of a bottleneck": _up(lambda up: up[:, :1].copy()),
    "a vector for a matrix": _up(lambda up: up[:, 0].copy()),
    "a matrix in three dimensions": _up(lambda up: up[..., None]),
    "a layer of five thousand digits": _in_weights(_CLA, _far_layer),
    "a column for all of a rank": _in_weights("se/adapter_model.safetensors", _rank_of_one),
    "embeddings in three dimensions": _in_weights(
        "embeddings.safetensors", lambda weights: weights.update(embeddings=weights["embeddings"][..., None])
    ),
    "integers without scales": _integers(1.0, scales=None),
    "a scale for all integers": _integers(1.0, scales=np.ones(1, np.float32)),
    "a scale that is no number": _integers(np.nan),
    "a scale without end": _integers(np.inf),
    "a scale below zero": _integers(-1.0),
    "a scale beyond all training": _integers(3e38),
    "a tensor beside integers and scales": _integers(1.0, junk=np.ones(1, np.float32)),
    "a tensor of no module": _no_module("se/adapter_model.safetensors", "junk"),
    "a tensor of no parallel adapter": _no_module(_CLA, "junk"),
    "a tensor of a layer that no base has": _no_module(_CLA, f"{_PARALLEL.format(9999)}down.weight"),
    "numbers whose product is none": _large_products,
    "embeddings whose square is none": _typed("embeddings.safetensors", torch.float32, 3e38),
    "a scaling beyond all training": _in_json(
        "cla/adapter_config.json", lambda content: content["config"].update(scaling=1e6)
    ),
}
"""Case → what it does to the folder."""
