"""Tensors of a language: of the types and shapes that its place calls for, finite, and within bounds."""

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
"""Bytes of a safetensors file's header."""
_DTYPES: dict[str, Any] = {"F16": np.float16, "F32": np.float32, "I8": np.int8}
_TYPE_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_FLOATS = ("F16", "F32")
# A hundred times what training comes to, and little enough that no layer's sums and squares overflow.
_MOST_WEIGHT, _MOST_EMBEDDING = 10.0, 1e3
_MOST = {EMBEDDINGS_TENSOR: _MOST_EMBEDDING, SCALES_TENSOR: _MOST_EMBEDDING / MOST_INT8}
# Unsigned integers of each type's width.
_BITS: dict[Any, Any] = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32}


def parse_tensors(content: bytes, types: tuple[str, ...] = _FLOATS) -> Tensors:
    """The tensors of a safetensors file by name.

    Raises:
        HubError: as :func:`deserialized`.
    """
    return {
        name: np.frombuffer(part["data"], _DTYPES[part["dtype"]]).reshape(part["shape"])
        for name, part in deserialized(content, types)
    }


def deserialized(content: bytes, types: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Name, and type, shape and bytes of each tensor of a safetensors file.

    Raises:
        HubError: the file is damaged, its header too large, or a tensor of another type than ``types``.
    """
    if (header := int.from_bytes(content[:8], "little")) > MOST_HEADER:
        raise HubError(f"expected a header of at most {MOST_HEADER >> 20} MB, found one of {header} bytes")
    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise HubError(f"expected a whole safetensors file, found a damaged one ({error})") from error
    if others := sorted({part["dtype"] for _, part in found} - set(types)):
        raise HubError(f"expected weights in {' or '.join(types)}, found {', '.join(others)}")
    return found


def parse_embeddings(content: bytes, pieces: int, hidden_size: int) -> tuple[Array, Array | None]:
    """A language's table [pieces, hidden] and, where it is in int8, the scales [pieces].

    Raises:
        HubError: as :func:`parse_tensors`, or the tensors are not as
            :data:`~modenc.hub.layout.EMBEDDINGS_TENSOR` says.
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
    """See that every number is finite and within the bounds of its tensor.

    Raises:
        HubError: one is not.
    """
    for name, tensor in sorted(tensors.items()):
        if (fault := _number_fault(name, tensor)) is not None:
            raise HubError(f"{name}: {fault}; train the language again")


def _number_fault(name: str, tensor: Array) -> str | None:
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


def name_some(tensors: Iterable[str]) -> str:
    """The first names of tensors, for a message."""
    names = sorted(tensors)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no tensor"
