"""Options of an encoder: how it computes, and those of sentence-transformers that it refuses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from modenc.composition.kernels import Precision, has_bf16
from modenc.errors import OptionError

_ENCODE = inspect.signature(SentenceTransformer.encode)
# The encoder and the four arguments that its own encode names.
_OWN = tuple(_ENCODE.parameters)[:5]
MOST = 2**31 - 1
"""Largest whole number that the libraries take."""
COMPUTE = ("fp32", "bf16", "auto")
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMG]B)?", re.IGNORECASE)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SETTINGS = (
    "base, fallback, min_confidence, identifier, compute, max_memory and verify are arguments of their own"
)
_TOKENIZERS = "each language has its own tokenizer; set encoder.max_seq_length to cut texts elsewhere"
# Option → what to do instead.
WITHOUT_EFFECT: dict[str, str] = {
    "model_name_or_path": "give the hub as the first argument",
    "modules": "the hub's modules are the only ones; see SentenceTransformer(modules=[*encoder, ...])",
    "cache_folder": "set MODENC_CACHE to a folder",
    "trust_remote_code": "modenc runs no code from hubs and bases; leave it out",
    "use_auth_token": "use token=",
    "processor_kwargs": _TOKENIZERS,
    "tokenizer_kwargs": _TOKENIZERS,
    "config_kwargs": "the configuration is the base's own; its weights are checked against the hub",
    "model_card_data": "each language of a hub has its own card",
}
# Key of model_kwargs → what to do instead.
_MODEL_KWARGS: dict[str, str] = {
    "torch_dtype": "use compute='bf16', 'auto' or 'fp32'",
    "dtype": "use compute='bf16', 'auto' or 'fp32'",
    "device_map": "use device=",
    "attn_implementation": "modenc computes attention itself",
}
# Option of push_to_hub → what to do instead; empty for options that match what modenc does anyway.
_PUSH: dict[str, str] = {
    "safe_serialization": "",
    "exist_ok": "",
    "local_model_path": "modenc hub push --hub DIR pushes a folder",
    "replace_model_card": "it is replaced, with the text of README.md in the hub's folder if there is one",
    "train_datasets": "the languages' cards say what they were trained on",
    "create_pr": "push to a branch (revision=) and open a pull request on the site",
}
NO_TRAINING = (
    "an encoder is not trained as a whole: its modules are frozen. Train a language's modules by a recipe "
    "(modenc train, modenc.training.pipeline.train), or modules of your own behind it "
    "(SentenceTransformer(modules=[*encoder, Dense(...)]))"
)
"""Message that refuses trainers and ``fit``."""


@dataclass(frozen=True)
class ComputeSettings:
    """Settings of the computation of vectors.

    Raises:
        OptionError: a value is invalid.
    """

    compute: str = "fp32"
    """``fp32`` (the type of the base's weights), ``bf16``, or ``auto``: bf16 if the device has it in
    hardware, else fp32."""
    max_memory: int | str | None = None
    """Bytes, or a text such as ``2GB``, that all languages may take, without the base's own weights;
    ``None``: no limit. A batch with more languages than fit exceeds it until the batch is done."""
    verify: str = "full"
    """Checks of a language before it is used: ``full``, or ``sizes`` (all but the checksums)."""

    def __post_init__(self) -> None:
        if self.compute not in COMPUTE:
            raise OptionError(f"compute: expected {', '.join(COMPUTE)}, found {self.compute!r}")
        if self.verify not in ("full", "sizes"):
            raise OptionError(f"verify: expected full or sizes, found {self.verify!r}")
        _ = self.memory_limit

    @property
    def memory_limit(self) -> int | None:
        """:attr:`max_memory` in bytes."""
        if self.max_memory is None:
            return None
        match = _BYTES.fullmatch(str(self.max_memory).strip())
        if match is None:
            raise OptionError(
                "max_memory: expected bytes, or a text such as '500MB' or '2GB', "
                f"found {self.max_memory!r:.60}"
            )
        return int(float(match[1]) * _UNITS[(match[2] or "").upper()])

    def precision(self, device: torch.device) -> Precision:
        """Return the precision to compute in on ``device``."""
        return "bf16" if self.compute == "bf16" or (self.compute == "auto" and has_bf16(device)) else "fp32"


def positive_int(value: Any, name: str, most: int = MOST) -> int:
    """Return an option's value as an int, from 1 to ``most``.

    Raises:
        OptionError: it is something else.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else 0
    if not 1 <= number <= most:
        raise OptionError(f"{name}: expected a whole number from 1 to {most}, found {value!r:.60}")
    return number


def check_device(device: str | torch.device | None) -> None:
    """Check that PyTorch can compute on a device; ``None`` is the best one there is.

    Raises:
        OptionError: it cannot.
    """
    try:
        torch.empty(0, device=device)
    # A PyTorch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OptionError(
            f"device: expected one that PyTorch has here, such as 'cpu', found {device!r:.60} ({reason:.200})"
        ) from error


def prompt_text(prompt: Any) -> str:
    """Return a prompt as text; ``None`` is the empty one.

    Raises:
        OptionError: it is no text.
    """
    if not (prompt is None or isinstance(prompt, str)):
        raise OptionError(f"prompt: expected a text, found {prompt!r:.60}")
    return prompt or ""


def refuse_training(encoder: nn.Module, _: Any) -> None:
    """Refuse to train an encoder without trainable parameters; a forward hook of ``encoder``.

    Raises:
        OptionError: the encoder is being trained, and all its parameters are frozen.
    """
    training = encoder.training and torch.is_grad_enabled()
    if training and not any(parameter.requires_grad for parameter in encoder.parameters()):
        raise OptionError(NO_TRAINING)


def reject_unsupported(options: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse options of ``SentenceTransformer`` that have no effect here, unless they are empty.

    Returns:
        The other options.

    Raises:
        OptionError: such an option is given; the message says what to do instead.
    """
    if (backend := options.get("backend", "torch")) != "torch":
        raise OptionError(
            f"backend: expected 'torch', found {backend!r:.60}; modenc computes with torch. For speed use "
            "compute='auto', or export a language for that backend (modenc export --to onnx or openvino)"
        )
    if kwargs := options.get("model_kwargs"):
        names = list(kwargs)
        hint = next((_MODEL_KWARGS[name] for name in names if name in _MODEL_KWARGS), _SETTINGS)
        raise OptionError(f"model_kwargs has no effect here (found {', '.join(map(str, names))}); {hint}")
    for name, instead in WITHOUT_EFFECT.items():
        if options.get(name):
            raise OptionError(f"{name} has no effect here; {instead}")
    return {name: value for name, value in options.items() if name not in WITHOUT_EFFECT}


def call_options(args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``SentenceTransformer.encode`` by name.

    Args:
        args: positional arguments after ``batch_size``.
        options: keyword arguments.

    Raises:
        TypeError: an option is given twice, or there are too many.
        OptionError: an option has no effect here; the message says what to do instead.
    """
    bound = _ENCODE.bind_partial(*_OWN, *args, **options)
    named = dict(zip(_ENCODE.parameters, bound.args, strict=False)) | bound.kwargs
    options = {name: value for name, value in named.items() if name not in _OWN}
    if options.get("processing_kwargs"):
        raise OptionError(f"processing_kwargs has no effect here; {_TOKENIZERS}")
    # encode_query and encode_document pass their own.
    if options.get("task") not in (None, "query", "document"):
        raise OptionError(
            f"task={options['task']!r:.60} is not supported: modules are per language, not per task. "
            "Use prompt= or prompt_name="
        )
    return options


def refuse_in_push(options: Mapping[str, Any]) -> None:
    """Refuse options of ``SentenceTransformer.push_to_hub`` that have no effect here.

    Raises:
        OptionError: such an option is given, or an unknown one.
    """
    for name, value in options.items():
        if name not in _PUSH:
            raise OptionError(f"push_to_hub has no option {name!r}")
        if value and _PUSH[name]:
            raise OptionError(f"{name} has no effect here; {_PUSH[name]}")


class NoTrainingMixin:
    """Mixin that refuses methods of ``SentenceTransformer`` for training."""

    def fit(self, *_: Any, **__: Any) -> None:
        """Refuse to train: modules are trained by recipes.

        Raises:
            OptionError: always; the message says how to train.
        """
        raise OptionError(NO_TRAINING)

    old_fit = fit

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Refuse to leave the prompt out of the vector, since modules are trained with it.

        Raises:
            OptionError: ``include_prompt`` is false.
        """
        if not include_prompt:
            raise OptionError(
                "include_prompt: expected True, found False; modules are trained with the prompt's tokens in "
                "the vector: leave them in, or give prompt='' to encode without a prompt"
            )
