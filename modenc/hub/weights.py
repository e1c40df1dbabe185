"""Whether the parts of a language fit each other and the base, read off their headers alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from modenc.errors import HubError
from modenc.hub.files import read_json
from modenc.hub.layout import (
    CLA_CONFIG,
    CLA_WEIGHTS,
    EMBEDDINGS_TENSOR,
    LORA_CONFIG,
    LORA_WEIGHTS,
    MOST_INT8,
    PART_FILES,
    SCALES_TENSOR,
    HubInfo,
    LanguageLayout,
)
from modenc.hub.tokenizer_faults import SPECIAL_TOKENS, panics_caught, tokenizer_faults

# What a hostile file may claim is bounded before anything is allocated for it.
_MOST_HEADER = 1 << 24
_MOST_TIMES = 16
# Square matrices of the hidden size that an adapter's tensors may come to, all together.
_MOST_MATRICES = 1 << 10
# A hundred times what training comes to, and little enough that no layer's sums and squares overflow.
_MOST_WEIGHT, _MOST_EMBEDDING, _MOST_SCALING = 10.0, 1e3, 1e3
_MOST = {EMBEDDINGS_TENSOR: _MOST_EMBEDDING, SCALES_TENSOR: _MOST_EMBEDDING / MOST_INT8}
_TYPES, _INT8 = frozenset({"F16", "F32"}), "I8"
# Unsigned integers of each type's width.
_BITS: dict[Any, Any] = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32}

LORA_TENSOR = re.compile(
    r"base_model\.model\.(?P<module>[\w.]{1,200})\.lora_(?P<matrix>[AB])(?:\.\w{1,100})?\.weight", re.ASCII
)
"""peft's names."""
PARALLEL_TENSOR = re.compile(
    r"(?:[\w.]{1,100}\.)?encoder\.layer\.(?P<layer>\d{1,4})\.output\.adapters\.\w{1,100}"
    r"\.adapter_(?P<part>down|up)(?:\.0)?\.(?P<kind>weight|bias)",
    re.ASCII,
)
"""AdapterHub's."""

Shapes = dict[str, list[int]]


def weight_faults(layout: LanguageLayout, info: HubInfo) -> Iterator[tuple[str, str]]:
    """(file relative to the language's folder, message) for every part that cannot be used.

    Reads headers, adapter configurations and the tokenizer; no tensor. Missing files are no
    concern of this function.
    """
    checks: tuple[tuple[str, Callable[[LanguageLayout, HubInfo], str | None]], ...] = (
        (PART_FILES["embeddings"][0], _embeddings_fault),
        (PART_FILES["la"][1], lambda lay, info: _lora_fault(lay.la, info)),
        (PART_FILES["se"][1], lambda lay, info: _lora_fault(lay.se, info)),
        (PART_FILES["cla"][1], _alignment_fault),
    )
    unsafe = list(tokenizer_faults(layout.tokenizer)) if layout.tokenizer.is_dir() else []
    yield from ((f"tokenizer/{name}", message) for name, message in unsafe)
    for name, check in checks:
        path = layout.root / name
        if not path.is_file() or (unsafe and check is _embeddings_fault):
            continue
        try:
            fault = check(layout, info)
        except HubError as error:
            fault = str(error)
        if fault is not None:
            yield name, fault


def number_faults(layout: LanguageLayout) -> Iterator[tuple[str, str]]:
    """(file relative to the language's folder, message) for tensors with NaN, infinity or what leads to it.

    To be called where :func:`weight_faults` found nothing: tensors are read whole.
    """
    for path in sorted(layout.root.rglob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                if (fault := _number_fault(name, file.get_tensor(name))) is not None:
                    message = f"{name}: {fault}; train the language again"
                    yield path.relative_to(layout.root).as_posix(), message


def _number_fault(name: str, tensor: Any) -> str | None:
    if tensor.dtype == np.int8:
        found = tensor.min(initial=0)
        return None if found >= -MOST_INT8 else f"expected integers from {-MOST_INT8} on, found {found}"
    if name == SCALES_TENSOR and (found := tensor.min(initial=0)) < 0:
        return f"expected scales of 0 or more, found {found:g}"
    most = _MOST.get(name, _MOST_WEIGHT)
    bits = _BITS[tensor.dtype]
    # Faster than by comparing: without the sign's bit, the bits of larger numbers are larger, and those of
    # infinity and NaN the largest.
    magnitudes = tensor.view(bits) & bits(np.iinfo(bits).max >> 1)
    if magnitudes.max(initial=0) <= tensor.dtype.type(most).view(bits):
        return None
    if not np.isfinite(tensor).all():
        return "expected numbers, found NaN or infinity"
    least = 0.0 if name == SCALES_TENSOR else -most
    return f"expected weights from {least:g} to {most:g}, found {np.abs(tensor).max():g}"


def _tensor_shapes(path: Path) -> Shapes:
    """Tensor name → shape, from the header of an adapter's file.

    Raises:
        HubError: as :func:`_header` does, or its weights are of another type than F16 and F32.
    """
    shapes, types = _header(path)
    if others := sorted(set(types.values()) - _TYPES):
        raise HubError(f"expected weights in {' or '.join(sorted(_TYPES))}, found {', '.join(others)}")
    return shapes


def _header(path: Path) -> tuple[Shapes, dict[str, str]]:
    """Tensor name → shape, and → type as safetensors names it, from the header of a file.

    Raises:
        HubError: the header cannot be read or is too large, or the file is shorter or longer than it says.
    """
    with path.open("rb") as stream:
        header = int.from_bytes(stream.read(8), "little")
    if header > _MOST_HEADER:
        raise HubError(f"expected a header of at most {_MOST_HEADER >> 20} MB, found one of {header} bytes")
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: list(part.get_shape()) for name, part in slices.items()}
            types = {name: part.get_dtype() for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise HubError(f"expected a whole safetensors file, found a damaged one ({error})") from error
    return shapes, types


def _embeddings_fault(layout: LanguageLayout, info: HubInfo) -> str | None:
    shapes, types = _header(layout.embeddings)
    if (fault := _storage_fault(types)) is not None:
        return fault
    tokenizer = layout.tokenizer / "tokenizer.json"
    if not tokenizer.is_file():
        return None
    expected = [_vocabulary_size(tokenizer), info.hidden_size]
    found = shapes[EMBEDDINGS_TENSOR]
    if found != expected:
        return f"expected shape {expected} (tokenizer's pieces, hidden size), found {found}"
    scales = shapes.get(SCALES_TENSOR, expected[:1])
    return None if scales == expected[:1] else f"expected scales of shape {expected[:1]}, found {scales}"


def _storage_fault(types: dict[str, str]) -> str | None:
    """What is wrong with the tensors in a file of embeddings, by name and type."""
    if types.get(EMBEDDINGS_TENSOR) == _INT8:
        if set(types) != {EMBEDDINGS_TENSOR, SCALES_TENSOR}:
            return f"expected {EMBEDDINGS_TENSOR!r} in {_INT8} with {SCALES_TENSOR!r}, found {_listed(types)}"
        scales = types[SCALES_TENSOR]
        return None if scales == "F32" else f"expected {SCALES_TENSOR!r} in F32, found {scales}"
    if others := sorted(set(types.values()) - _TYPES - {_INT8}):
        return f"expected weights in {', '.join(sorted(_TYPES))} or {_INT8}, found {', '.join(others)}"
    if list(types) != [EMBEDDINGS_TENSOR]:
        return f"expected one tensor {EMBEDDINGS_TENSOR!r}, found {_listed(types)}"
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
        if isinstance(text, str) and text and not _has_piece(tokenizer, text):
            raise HubError(f"expected {name} of {config.name} in the vocabulary, found {text!r:.60}")
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def _has_piece(tokenizer: Tokenizer, text: str) -> bool:
    try:
        return tokenizer.token_to_id(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON may have
        return False


def _lora_fault(folder: Path, info: HubInfo) -> str | None:
    shapes = _tensor_shapes(folder / LORA_WEIGHTS)
    config = folder / LORA_CONFIG
    if not config.is_file():
        return None
    settings = read_json(config)
    ranks = _ranks(settings)
    _check_scaling(settings, "lora_alpha")
    if others := settings.get("alpha_pattern"):
        return f"expected one lora_alpha for all layers in {LORA_CONFIG}, found alpha_pattern {others!r:.60}"
    pairs: dict[str, dict[str, list[int]]] = {}
    for name, shape in shapes.items():
        match = LORA_TENSOR.fullmatch(name)
        if match is None or match["matrix"] in pairs.setdefault(match["module"], {}):
            return f"expected each layer's lora_A and lora_B weights once, found {name!r:.120}"
        pairs[match["module"]][match["matrix"]] = shape
    if not pairs:
        return f"expected lora_A and lora_B weights, found {_listed(shapes)}"
    for layer, pair in pairs.items():
        if set(pair) != {"A", "B"} or any(len(shape) != 2 for shape in pair.values()):
            return f"{layer}: expected the matrices lora_A and lora_B, found {pair}"
        down, up = pair["A"], pair["B"]
        if down[0] != up[1] or down[0] not in ranks:
            rank = " or ".join(str(rank) for rank in sorted(ranks))
            return f"{layer}: expected rank {rank:.60} ({LORA_CONFIG}), found A {down}, B {up}"
        if info.hidden_size not in (down[1], up[0]):
            return f"{layer}: expected hidden size {info.hidden_size}, found A {down}, B {up}"
        if max(*down, *up) > _MOST_TIMES * info.hidden_size:
            return f"{layer}: expected at most {_MOST_TIMES} times the hidden size, found A {down}, B {up}"
    return _size_fault(shapes, info)


def _ranks(config: dict[str, Any]) -> set[int]:
    """Ranks that peft's configuration allows."""
    pattern = config.get("rank_pattern") or {}
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    if not all(type(rank) is int and rank > 0 for rank in ranks):
        raise HubError(f"expected ranks of 1 or more in {LORA_CONFIG}, found {ranks!r:.60}")
    return {int(rank) for rank in ranks if rank is not None}


def _check_scaling(config: dict[str, Any], key: str) -> None:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_SCALING:
        raise HubError(
            f"expected a number up to {_MOST_SCALING:g} for {key} in {LORA_CONFIG}, found {value!r:.60}"
        )


def _alignment_fault(layout: LanguageLayout, info: HubInfo) -> str | None:
    shapes = _tensor_shapes(layout.cla / CLA_WEIGHTS)
    config = layout.cla / CLA_CONFIG
    if config.is_file():
        settings = read_json(config).get("config")
        if not isinstance(settings, dict):
            return f"expected an AdapterHub configuration in {CLA_CONFIG}, found {settings!r:.60}"
        _check_scaling(settings, "scaling")
        if not settings.get("is_parallel"):
            return f"expected a parallel adapter's configuration in {CLA_CONFIG}, found another"
    return _parallel_fault(shapes, info) or _size_fault(shapes, info)


def _parallel_fault(shapes: Shapes, info: HubInfo) -> str | None:
    layers: dict[int, Shapes] = {}
    for name, shape in shapes.items():
        match = PARALLEL_TENSOR.fullmatch(name)
        parts = layers.setdefault(int(match["layer"]), {}) if match else {}
        if match is None or (part := f"{match['part']} {match['kind']}") in parts:
            return f"expected each layer's adapter_down and adapter_up once, found {name!r:.120}"
        parts[part] = shape
    if not layers:
        return f"expected the matrices of a parallel adapter, found {_listed(shapes)}"
    hidden = info.hidden_size
    for layer, parts in sorted(layers.items()):
        bottleneck = next(iter(parts.get("down weight", ())), 0)
        expected = {
            "down weight": [bottleneck, hidden],
            "down bias": [bottleneck],
            "up weight": [hidden, bottleneck],
            "up bias": [hidden],
        }
        if parts != expected or not bottleneck:
            listed = ", ".join(f"{part} {parts.get(part, 'missing')}" for part in expected)
            return (
                f"layer {layer}: expected one bottleneck and hidden size {hidden} throughout, found {listed}"
            )
        if bottleneck > _MOST_TIMES * hidden:
            return f"layer {layer}: expected at most {_MOST_TIMES} times the hidden size, found {bottleneck}"
    return None


def _size_fault(shapes: Shapes, info: HubInfo) -> str | None:
    found, most = sum(map(prod, shapes.values())), _MOST_MATRICES * info.hidden_size**2
    return f"expected at most {most} numbers in all tensors, found {found}" if found > most else None


def _listed(tensors: Iterable[str]) -> str:
    names = sorted(tensors)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no tensor"
