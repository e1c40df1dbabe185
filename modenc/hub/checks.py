"""Checks of a language's files, which may come from strangers: ``SECURITY.md`` says what they defend against.

Sizes are limited before memory is allocated, weights are safetensors of known shapes with finite numbers
within bounds, a tokenizer's ids are rows of its embeddings, and nothing is executed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from tokenizers import Tokenizer

from modenc.errors import HubError
from modenc.hub.card import FileRecord
from modenc.hub.layout import (
    CLA_CONFIG,
    EMBEDDINGS_TENSOR,
    LORA_CONFIG,
    MOST_INT8,
    MOST_JSON_BYTES,
    PART_FILES,
    README_FILE,
    SCALES_TENSOR,
    json_object,
)

TOKENIZER_FILE, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
TOKENIZER_FILES = {TOKENIZER_FILE: 1 << 25, TOKENIZER_CONFIG: 1 << 20, "special_tokens_map.json": 1 << 20}
"""File in the folder ``tokenizer`` → most bytes; no other file is read."""

_LISTED = 10
# Least bytes of a piece of a vocabulary in a tokenizer.json, with its quotes, number and commas.
_LEAST_PIECE = 5


def raise_issues(issues: list[str], lang: str, folder: Path | str) -> None:
    """Raise an error if there are issues.

    Raises:
        HubError: it names ``folder``, and lists the first issues.
    """
    if issues:
        rest = [f"and {len(issues) - _LISTED} more"] if len(issues) > _LISTED else []
        listed = "\n  ".join([*issues[:_LISTED], *rest])
        raise HubError(
            f"{folder}: the modules of {lang} cannot be used:\n  {listed}\n"
            "Install the language again, or train it again with its recipe. A folder in modenc's cache can "
            "be deleted: it is fetched again"
        )


def listing_issues(
    found: Mapping[str, int | None], records: Mapping[str, FileRecord], hidden_size: int
) -> Iterator[str]:
    """Yield each difference between a language's files, on disk or elsewhere, and its card, as a line.

    Args:
        found: name → bytes; None for a link or special file.
        records: the files on its card.
        hidden_size: width of the base.
    """
    listed = {name: record["bytes"] for name, record in records.items()}
    most = _most_bytes(listed, hidden_size)
    for name in sorted(listed.keys() | found.keys()):
        size = found.get(name)
        if name not in found:
            message = "expected by the card, not found"
        elif size is None:
            message = "expected a plain file, found a link or special file"
        elif name not in listed:
            message = "not in the card; delete it if it is yours"
        elif name not in most:
            message = "expected the files of a tokenizer, of weights and of adapters alone; delete it"
        elif size != listed[name]:
            message = f"expected {listed[name]} bytes, found {size}"
        elif size > most[name]:
            message = f"expected at most {most[name]} bytes, found {size}"
        else:
            continue
        yield f"{name}: {message}"


def _most_bytes(sizes: Mapping[str, int], hidden_size: int) -> dict[str, int]:
    """Return the most bytes of each file of a language; other files are refused."""
    most = {f"tokenizer/{name}": limit for name, limit in TOKENIZER_FILES.items()}
    pieces = sizes.get(f"tokenizer/{TOKENIZER_FILE}", 0) // _LEAST_PIECE
    most |= {
        README_FILE: MOST_JSON_BYTES,
        PART_FILES["embeddings"][0]: most_embeddings_bytes(pieces, hidden_size),
    }
    for part in ("la", "se", "cla"):
        config, weights = PART_FILES[part]
        most |= {config: MOST_JSON_BYTES, weights: most_adapter_bytes(hidden_size)}
    return most


Array = npt.NDArray[Any]
Tensors = dict[str, Array]

MOST_HEADER = 1 << 24
"""Most bytes of a safetensors file's header."""
_DTYPES: dict[str, Any] = {"F16": np.float16, "F32": np.float32, "I8": np.int8}
_FLOATS = ("F16", "F32")
# A hundred times the largest trained weights, and small enough that no sums or squares overflow in a layer.
_MOST_WEIGHT, _MOST_EMBEDDING = 10.0, 1e3
_MOST = {EMBEDDINGS_TENSOR: _MOST_EMBEDDING, SCALES_TENSOR: _MOST_EMBEDDING / MOST_INT8}


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
        if scales.dtype != np.float32 or scales.shape != (pieces,):
            found = f"{scales.dtype} {list(scales.shape)}"
            raise HubError(f"expected {SCALES_TENSOR!r} as float32 {[pieces]}, found {found}")
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
        # NumPy compares float16 far slower.
        numbers = tensor.astype(np.float32) if tensor.dtype == np.float16 else tensor
        most = numbers.dtype.type(MOST_INT8 if tensor.dtype == np.int8 else _MOST.get(name, _MOST_WEIGHT))
        least = 0 if name == SCALES_TENSOR else -most
        low, high = numbers.min(initial=0), numbers.max(initial=0)
        if not least <= low <= high <= most:  # NaN fails, too
            raise HubError(
                f"{name}: expected weights from {least:g} to {most:g}, found {low:g} to {high:g}; train the "
                "language again"
            )


def name_some(tensors: Iterable[str]) -> str:
    """List the first names of tensors, for a message."""
    names = sorted(tensors)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no tensor"


# Most numbers in a file of an adapter, in matrices of [hidden, hidden].
_MOST_MATRICES = 1 << 10
_MOST_SCALING = 1e3
_LORA_TENSOR = re.compile(
    r"base_model\.model\.(?P<module>[\w.]{1,200})\.lora_(?P<matrix>[AB])(?:\.\w{1,100})?\.weight", re.ASCII
)
_PARALLEL_TENSOR = re.compile(
    r"(?:[\w.]{1,100}\.)?encoder\.layer\.(?P<layer>\d{1,4})\.output\.adapters\.\w{1,100}"
    r"\.adapter_(?P<projection>down|up)(?:\.0)?\.(?P<kind>weight|bias)",
    re.ASCII,
)
_PARALLEL = {
    "is_parallel": True,
    "output_adapter": True,
    "mh_adapter": False,
    "original_ln_after": True,
    "non_linearity": "relu",
}
# Setting → values that modenc computes with.
_LORA: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    # Others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) change the base's weights.
    "init_lora_weights": (None, True, False, "gaussian", "eva", "orthogonal"),
}
# Settings that must be absent or off, since modenc does not support them.
_NOT_IN_PARALLEL = ("ln_before", "ln_after", "phm_layer", "use_gating", "inv_adapter")
_NOT_IN_LORA = (
    *("use_dora", "lora_bias", "use_qalora", "use_bdlora", "modules_to_save", "trainable_token_indices"),
    *("target_parameters", "layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config"),
    "alpha_pattern",
)


Numbers = TypeVar("Numbers")
"""A NumPy array or a tensor."""


class LoraLayer(NamedTuple, Generic[Numbers]):
    """LoRA of one linear layer: ``W x + b (a x)``, with ``b`` multiplied by the scaling."""

    a: Numbers
    """[rank, in]"""
    b: Numbers
    """[out, rank]"""


class ParallelAdapter(NamedTuple, Generic[Numbers]):
    """Parallel adapter of one feed-forward block: ``Up(relu(Down(x)))``, ``Up`` multiplied by the scaling."""

    down_weight: Numbers
    """[bottleneck, hidden]"""
    down_bias: Numbers
    up_weight: Numbers
    """[hidden, bottleneck]"""
    up_bias: Numbers


def most_adapter_bytes(hidden_size: int) -> int:
    """Return the most bytes of an adapter's weights for a base of this width."""
    return MOST_HEADER + 4 * _MOST_MATRICES * hidden_size**2


def most_embeddings_bytes(pieces: int, hidden_size: int) -> int:
    """Return the most bytes of the embeddings of a vocabulary of ``pieces``."""
    return MOST_HEADER + 4 * pieces * (hidden_size + 1)


def parse_lora(content: bytes, config: dict[str, Any], hidden_size: int) -> dict[str, LoraLayer[Array]]:
    """Parse a peft LoRA (Hu et al., 2022) to module name → weights, scaled.

    Raises:
        HubError: it is no plain LoRA, or not for a base of this width.
    """
    tensors = parse_tensors(content)
    found = {key: config.get(key) for key, plain in _LORA.items() if config.get(key) not in plain}
    found |= {key: config[key] for key in _NOT_IN_LORA if config.get(key)}
    if found:
        raise HubError(f"expected a plain peft LoRA without bias in {LORA_CONFIG}, found {found!r:.200}")
    ranks, alpha = _ranks(config), _scaling(config, "lora_alpha")
    pairs: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        match = _LORA_TENSOR.fullmatch(name)
        if match is None or match["matrix"] in pairs.setdefault(match["module"], {}):
            raise HubError(f"expected each layer's lora_A and lora_B weights once, found {name!r:.120}")
        pairs[match["module"]][match["matrix"]] = tensor
    if not pairs:
        raise HubError(f"expected lora_A and lora_B weights, found {name_some(tensors)}")
    for layer, pair in pairs.items():
        shapes = {matrix: list(tensor.shape) for matrix, tensor in pair.items()}
        if set(pair) != {"A", "B"} or any(tensor.ndim != 2 for tensor in pair.values()):
            raise HubError(f"{layer}: expected the matrices lora_A and lora_B, found {shapes}")
        matrices = f"found A {shapes['A']}, B {shapes['B']}"
        rank, width, out, rank_of_b = *shapes["A"], *shapes["B"]
        if rank != rank_of_b or rank not in ranks:
            listed = " or ".join(str(rank) for rank in sorted(ranks))
            raise HubError(f"{layer}: expected rank {listed:.60} ({LORA_CONFIG}), {matrices}")
        if hidden_size not in (width, out):
            raise HubError(f"{layer}: expected hidden size {hidden_size}, {matrices}")
    check_numbers(tensors)
    root = math.sqrt if config.get("use_rslora") else float
    return {
        layer: LoraLayer(pair["A"], pair["B"].astype(np.float32) * (alpha / root(len(pair["A"]))))
        for layer, pair in pairs.items()
    }


def parse_parallel(
    content: bytes, config: dict[str, Any], hidden_size: int
) -> dict[int, ParallelAdapter[Array]]:
    """Parse an AdapterHub parallel adapter (He et al., 2022) to layer number → weights, scaled.

    Raises:
        HubError: it is another kind of adapter, or not for a base of this width.
    """
    tensors, scaling = parse_tensors(content), _parallel_scaling(config.get("config"))
    layers: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        match = _PARALLEL_TENSOR.fullmatch(name)
        weights = layers.setdefault(int(match["layer"]), {}) if match else {}
        if match is None or (key := f"{match['projection']}_{match['kind']}") in weights:
            raise HubError(f"expected each layer's adapter_down and adapter_up once, found {name!r:.120}")
        weights[key] = tensor
    if not layers:
        raise HubError(f"expected the matrices of a parallel adapter, found {name_some(tensors)}")
    for layer, weights in sorted(layers.items()):
        _check_layer(layer, weights, hidden_size)
    check_numbers(tensors)
    for weights in layers.values():
        weights |= {key: weights[key].astype(np.float32) * scaling for key in ("up_weight", "up_bias")}
    return {layer: ParallelAdapter(**weights) for layer, weights in sorted(layers.items())}


PARSERS: dict[str, Callable[[bytes, dict[str, Any], int], dict[Any, Any]]] = {
    "la": parse_lora,
    "se": parse_lora,
    "cla": parse_parallel,
}
"""Part → its parser, of the weights file's content, the configuration and the base's hidden size."""


def _parallel_scaling(settings: object) -> float:
    """Return the scaling of a plain parallel adapter from its configuration; refuse other adapters."""
    if not isinstance(settings, dict):
        raise HubError(f"expected an AdapterHub configuration in {CLA_CONFIG}, found {settings!r:.60}")
    scaling = _scaling(settings, "scaling")
    settings = {"original_ln_after": True, **settings}
    found = {key: settings.get(key) for key, value in _PARALLEL.items() if settings.get(key) != value}
    found |= {key: settings[key] for key in _NOT_IN_PARALLEL if settings.get(key)}
    if found:
        raise HubError(
            f"expected a parallel adapter with {_PARALLEL} alone in {CLA_CONFIG}, found {found!r:.200}"
        )
    return scaling


def _check_layer(layer: int, weights: Tensors, hidden_size: int) -> None:
    shapes = {key: tensor.shape for key, tensor in weights.items()}
    bottleneck = next(iter(shapes.get("down_weight", ())), 0)
    expected = {
        "down_weight": (bottleneck, hidden_size),
        "down_bias": (bottleneck,),
        "up_weight": (hidden_size, bottleneck),
        "up_bias": (hidden_size,),
    }
    if shapes != expected or not bottleneck:
        listed = ", ".join(
            f"{key.replace('_', ' ')} {list(shapes[key]) if key in shapes else 'missing'}" for key in expected
        )
        raise HubError(
            f"layer {layer}: expected one bottleneck and hidden size {hidden_size} throughout, found {listed}"
        )


def _ranks(config: dict[str, Any]) -> set[int]:
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


_SPECIAL_TOKENS = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
# Most tokens around a text.
_MOST_AROUND = 8
# A noncharacter, which no vocabulary has.
_UNKNOWN = "\U0010ffff"


@contextmanager
def tokenizer_errors(message: str) -> Iterator[None]:
    """Turn panics and errors of the tokenizers library in the block into a :class:`HubError`.

    ``message`` is its text, with ``{}`` for the library's.
    """
    try:
        yield
    except BaseException as error:  # its own errors are plain Exceptions
        known = type(error) is Exception or isinstance(error, ValueError)
        if not known and type(error).__name__ != "PanicException":
            raise
        raise HubError(message.format(error)) from error


@dataclass(frozen=True)
class ParsedTokenizer:
    """A language's checked tokenizer, without truncation and padding."""

    backend: Tokenizer
    options: dict[str, Any]
    """Special tokens and names of model inputs, as ``PreTrainedTokenizerFast`` takes them."""
    pieces: int
    """Size of the vocabulary."""


def parse_tokenizer(files: Mapping[str, bytes]) -> ParsedTokenizer:
    """Parse the contents of :data:`TOKENIZER_FILES`, of which only the first is required.

    Raises:
        HubError: it is damaged, fails on a text, or has ids that are no rows of the embeddings.
    """
    with tokenizer_errors(f"expected a readable {TOKENIZER_FILE}, found: {{}}"):
        backend = Tokenizer.from_buffer(files[TOKENIZER_FILE])
        backend.no_truncation()
        backend.no_padding()
        around, unknown = backend.encode("").ids, backend.encode(_UNKNOWN).ids
    vocabulary = backend.get_vocab(with_added_tokens=True)
    ids, pieces = {*around, *unknown, *vocabulary.values()}, len(vocabulary)
    if not ids or min(ids) < 0 or max(ids) >= pieces:
        raise HubError(f"expected ids from 0 to {pieces - 1}, one for each of the tokens, found others")
    if len(around) > _MOST_AROUND:
        raise HubError(f"expected at most {_MOST_AROUND} tokens around a text, found {len(around)}")
    config = json_object(files.get(TOKENIZER_CONFIG, b"{}"), TOKENIZER_CONFIG)
    options: dict[str, Any] = {
        name: _special_token(config[name], name, backend) for name in _SPECIAL_TOKENS if config.get(name)
    }
    if names := config.get("model_input_names"):
        if not isinstance(names, list):
            raise HubError(
                f"expected a list for model_input_names of {TOKENIZER_CONFIG}, found {names!r:.60}"
            )
        options["model_input_names"] = names
    return ParsedTokenizer(backend, options, pieces)


def _special_token(value: Any, name: str, backend: Tokenizer) -> str:
    text = value.get("content") if isinstance(value, dict) else value
    with suppress(UnicodeEncodeError):  # half of a surrogate pair, which is valid in JSON
        if isinstance(text, str) and backend.token_to_id(text) is not None:
            return text
    raise HubError(f"expected {name} of {TOKENIZER_CONFIG} in the vocabulary, found {text!r:.60}")
