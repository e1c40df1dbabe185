"""Checked parsing of safetensors: known types and shapes, and finite numbers within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize

from modenc.errors import HubError
from modenc.hub.layout import EMBEDDINGS_TENSOR, MOST_INT8, SCALES_TENSOR

Array = npt.NDArray[Any]
Tensors = dict[str, Array]

MOST_HEADER = 1 << 24
"""Most bytes of a safetensors file's header."""
_DTYPES: dict[str, Any] = {"F16": np.float16, "F32": np.float32, "I8": np.int8}
_TYPE_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_FLOATS = ("F16", "F32")
# A hundred times the largest trained weights, and small enough that no sums or squares overflow in a layer.
_MOST_WEIGHT, _MOST_EMBEDDING = 10.0, 1e3
_MOST = {EMBEDDINGS_TENSOR: _MOST_EMBEDDING, SCALES_TENSOR: _MOST_EMBEDDING / MOST_INT8}
# Unsigned integers of each type's width.
_BITS: dict[Any, Any] = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32}


def parse_tensors(content: bytes, types: tuple[str, ...] = _FLOATS) -> Tensors:
    """Parse a safetensors file to name → array.

    Raises:
        HubError: the file is damaged, its header too large, or a tensor of another type than ``types``.
    """
    return {
        name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in deserialized(content, types)
    }


def deserialized(content: bytes, types: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Parse a safetensors file to (name, type, shape and bytes) of each tensor.

    Raises:
        HubError: the file is damaged, its header too large, or a tensor of another type than ``types``.
    """
    if (header := int.from_bytes(content[:8], "little")) > MOST_HEADER:
        raise HubError(f"expected a header of at most {MOST_HEADER >> 20} MB, found one of {header} bytes")
    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise HubError(f"expected a whole safetensors file, found a damaged one ({error})") from error
    if others := sorted({entry["dtype"] for _, entry in found} - set(types)):
        raise HubError(f"expected weights in {' or '.join(types)}, found {', '.join(others)}")
    return found


def parse_embeddings(content: bytes, pieces: int, hidden_size: int) -> tuple[Array, Array | None]:
    """Parse a language's embeddings [pieces, hidden] and, if these are in int8, their scales [pieces].

    Raises:
        HubError: the file is damaged, or its tensors differ from those at
            :data:`~modenc.hub.layout.EMBEDDINGS_TENSOR`.
    """
    tensors = parse_tensors(content, (*_FLOATS, "I8"))
    table, scales = tensors.get(EMBEDDINGS_TENSOR), tensors.get(SCALES_TENSOR)
    if table is not None and table.dtype == np.int8:
        if scales is None or len(tensors) != 2:
            raise HubError(
                f"expected {EMBEDDINGS_TENSOR!r} in I8 with {SCALES_TENSOR!r}, found {name_some(tensors)}"
            )
        if scales.dtype != np.float32:
            raise HubError(f"expected {SCALES_TENSOR!r} in F32, found {_TYPE_NAMES[scales.dtype]}")
        if scales.shape != (pieces,):
            raise HubError(f"expected scales of shape {[pieces]}, found {list(scales.shape)}")
    elif table is None or len(tensors) != 1:
        raise HubError(f"expected one tensor {EMBEDDINGS_TENSOR!r}, found {name_some(tensors)}")
    if table.shape != (pieces, hidden_size):
        expected = [pieces, hidden_size]
        raise HubError(
            f"expected shape {expected} (tokenizer's pieces, hidden size), found {list(table.shape)}"
        )
    check_numbers(tensors)
    return table, scales


def check_numbers(tensors: Tensors) -> None:
    """Check that every number is finite and within the bounds of its tensor.

    Raises:
        HubError: a number is not.
    """
    for name, tensor in sorted(tensors.items()):
        if (issue := _number_issue(name, tensor)) is not None:
            raise HubError(f"{name}: {issue}; train the language again")


def _number_issue(name: str, tensor: Array) -> str | None:
    if tensor.dtype == np.int8:
        found = tensor.min(initial=0)
        return None if found >= -MOST_INT8 else f"expected integers from {-MOST_INT8} on, found {found}"
    if name == SCALES_TENSOR and (found := tensor.min(initial=0)) < 0:
        return f"expected scales of 0 or more, found {found:g}"
    most = _MOST.get(name, _MOST_WEIGHT)
    bits = _BITS[tensor.dtype]
    # Without the sign bit, floats compare like unsigned integers, with infinity and NaN as the largest: this
    # is faster than comparing floats.
    magnitudes = tensor.view(bits) & bits(np.iinfo(bits).max >> 1)
    if magnitudes.max(initial=0) <= tensor.dtype.type(most).view(bits):
        return None
    if not np.isfinite(tensor).all():
        return "expected numbers, found NaN or infinity"
    least = 0.0 if name == SCALES_TENSOR else -most
    return f"expected weights from {least:g} to {most:g}, found {np.abs(tensor).max():g}"


def name_some(tensors: Iterable[str]) -> str:
    """List the first names of tensors, for a message."""
    names = sorted(tensors)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no tensor"
