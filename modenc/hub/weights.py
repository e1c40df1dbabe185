"""Whether the parts of a language fit each other and the base, read off their headers alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from modenc.errors import HubError
from modenc.hub.files import read_json
from modenc.hub.layout import CLA_CONFIG, EMBEDDINGS_TENSOR, LORA_CONFIG, PART_FILES, HubInfo, LanguageLayout
from modenc.hub.tokenizer_faults import SPECIAL_TOKENS, panics_caught, tokenizer_faults

# What a hostile file may claim is bounded before anything is allocated for it.
_MOST_HEADER = 1 << 24
_MOST_TIMES = 16
# Of lora_alpha and scaling; far more than anybody trains with.
_MOST_SCALING = 1e6
_TYPES = frozenset({"F16", "F32"})

Shapes = dict[str, list[int]]


def weight_faults(layout: LanguageLayout, info: HubInfo) -> Iterator[tuple[str, str]]:
    """(file relative to the language's folder, message) for every part that cannot be used.

    Reads headers, adapter configurations and the tokenizer; no tensor. Missing files are no
    concern of this function.
    """
    checks: tuple[tuple[str, Callable[[LanguageLayout, Shapes, HubInfo], str | None]], ...] = (
        ("embeddings.safetensors", _embeddings_fault),
        (PART_FILES["la"][1], lambda lay, shapes, info: _lora_fault(lay.la, shapes, info)),
        (PART_FILES["se"][1], lambda lay, shapes, info: _lora_fault(lay.se, shapes, info)),
        (PART_FILES["cla"][1], _alignment_fault),
    )
    unsafe = list(tokenizer_faults(layout.tokenizer)) if layout.tokenizer.is_dir() else []
    yield from ((f"tokenizer/{name}", message) for name, message in unsafe)
    for name, check in checks:
        path = layout.root / name
        if not path.is_file() or (unsafe and check is _embeddings_fault):
            continue
        try:
            fault = check(layout, tensor_shapes(path), info)
        except HubError as error:
            fault = str(error)
        if fault is not None:
            yield name, fault


def number_faults(layout: LanguageLayout) -> Iterator[tuple[str, str]]:
    """(file relative to the language's folder, message) for every tensor with NaN or infinity."""
    for path in sorted(layout.root.rglob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                if not np.isfinite(file.get_tensor(name)).all():
                    yield (
                        path.relative_to(layout.root).as_posix(),
                        f"{name}: expected numbers, found NaN or infinity; train the language again",
                    )


def tensor_shapes(path: Path) -> Shapes:
    """Tensor name → shape, from the header of a safetensors file.

    Raises:
        HubError: the header cannot be read or is too large, the file is shorter or longer than it says, or
            its weights are of another type.
    """
    with path.open("rb") as stream:
        header = int.from_bytes(stream.read(8), "little")
    if header > _MOST_HEADER:
        raise HubError(f"expected a header of at most {_MOST_HEADER >> 20} MB, found one of {header} bytes")
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: list(part.get_shape()) for name, part in slices.items()}
            types = {part.get_dtype() for part in slices.values()}
    except (SafetensorError, OSError) as error:
        raise HubError(f"expected a whole safetensors file, found a damaged one ({error})") from error
    if others := sorted(types - _TYPES):
        raise HubError(f"expected weights in {' or '.join(sorted(_TYPES))}, found {', '.join(others)}")
    return shapes


def _embeddings_fault(layout: LanguageLayout, shapes: Shapes, info: HubInfo) -> str | None:
    if list(shapes) != [EMBEDDINGS_TENSOR]:
        return f"expected one tensor {EMBEDDINGS_TENSOR!r}, found {_listed(shapes)}"
    tokenizer = layout.tokenizer / "tokenizer.json"
    if not tokenizer.is_file():
        return None
    expected = [_vocabulary_size(tokenizer), info.hidden_size]
    found = shapes[EMBEDDINGS_TENSOR]
    if found != expected:
        return f"expected shape {expected} (tokenizer's pieces, hidden size), found {found}"
    return None


def _vocabulary_size(path: Path) -> int:
    try:
        with panics_caught():
            tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise HubError(f"expected a readable tokenizer/tokenizer.json, found: {error}") from error
    config = path.with_name("tokenizer_config.json")
    options = read_json(config) if config.is_file() else {}
    for name in SPECIAL_TOKENS:
        token = options.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str) and text and tokenizer.token_to_id(text) is None:
            raise HubError(f"expected {name} of {config.name} in the vocabulary, found {text!r:.60}")
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def _lora_fault(folder: Path, shapes: Shapes, info: HubInfo) -> str | None:
    config = folder / LORA_CONFIG
    if not config.is_file():
        return None
    settings = read_json(config)
    ranks, _ = _ranks(settings), _scaling(settings, "lora_alpha")
    pairs: dict[str, dict[str, list[int]]] = {}
    for name, shape in shapes.items():
        match = re.fullmatch(r"(.+)\.lora_([AB])\.(?:\w+\.)?weight", name)
        if match:
            pairs.setdefault(match[1], {})[match[2]] = shape
    if not pairs:
        return f"expected lora_A and lora_B weights, found {_listed(shapes)}"
    for layer, pair in pairs.items():
        if set(pair) != {"A", "B"} or any(len(shape) != 2 for shape in pair.values()):
            return f"{layer}: expected the matrices lora_A and lora_B, found {pair}"
        down, up = pair["A"], pair["B"]
        if down[0] != up[1] or down[0] not in ranks:
            rank = " or ".join(str(rank) for rank in sorted(ranks))
            return f"{layer}: expected rank {rank} ({LORA_CONFIG}), found A {down}, B {up}"
        if info.hidden_size not in (down[1], up[0]):
            return f"{layer}: expected hidden size {info.hidden_size}, found A {down}, B {up}"
        if max(*down, *up) > _MOST_TIMES * info.hidden_size:
            return f"{layer}: expected at most {_MOST_TIMES} times the hidden size, found A {down}, B {up}"
    return None


def _ranks(config: dict[str, Any]) -> set[int]:
    """Ranks that peft's configuration allows."""
    pattern = config.get("rank_pattern") or {}
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    if not all(type(rank) is int and rank > 0 for rank in ranks):
        raise HubError(f"expected ranks of 1 or more in {LORA_CONFIG}, found {ranks!r:.60}")
    return {int(rank) for rank in ranks if rank is not None}


def _scaling(config: dict[str, Any], key: str) -> float:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_SCALING:
        raise HubError(
            f"expected a number up to {_MOST_SCALING:g} for {key} in {LORA_CONFIG}, found {value!r:.60}"
        )
    return float(value)


def _alignment_fault(layout: LanguageLayout, shapes: Shapes, info: HubInfo) -> str | None:
    config = layout.cla / CLA_CONFIG
    if config.is_file():
        settings = read_json(config).get("config")
        if not isinstance(settings, dict):
            return f"expected an AdapterHub configuration in {CLA_CONFIG}, found {settings!r:.60}"
        _scaling(settings, "scaling")
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not matrices:
        return f"expected the matrices of a parallel adapter, found {_listed(shapes)}"
    for name, shape in shapes.items():
        partner = shapes.get(f"{name.removesuffix('bias')}weight")
        if name.endswith("bias") and (partner is None or shape != partner[:1]):
            return f"{name}: expected one number for each row of its matrix {partner}, found {shape}"
    for name, shape in matrices.items():
        if info.hidden_size not in shape:
            return f"{name}: expected hidden size {info.hidden_size}, found {shape}"
        if max(shape) > _MOST_TIMES * info.hidden_size:
            return f"{name}: expected at most {_MOST_TIMES} times the hidden size, found {shape}"
    return None


def _listed(shapes: Shapes) -> str:
    names = sorted(shapes)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no tensor"
