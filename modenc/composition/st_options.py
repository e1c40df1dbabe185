"""Options of sentence-transformers that mean nothing for a hub: refused, not silently left unheard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modenc.errors import OptionError

_BACKEND = "torch"
_SETTINGS = (
    "base, fallback, min_confidence, identifier, compute, max_memory and verify are arguments of their own"
)
_TOKENIZERS = "languages bring tokenizers of their own, and where texts are cut says encoder.max_seq_length"
# Option → what to do instead.
WITHOUT_EFFECT: dict[str, str] = {
    "model_name_or_path": "give the hub as the first argument",
    "modules": "the hub's modules are the only ones; see SentenceTransformer(modules=[*encoder, ...])",
    "cache_folder": "set MODENC_CACHE to a folder",
    "trust_remote_code": "modenc runs no code from hubs and bases; leave it out",
    "use_auth_token": "say token=",
    "processor_kwargs": _TOKENIZERS,
    "tokenizer_kwargs": _TOKENIZERS,
    "config_kwargs": "the configuration is the base's own; its weights are checked against the hub",
    "model_card_data": "a hub's cards are its languages' own",
}
# Key of model_kwargs → what to do instead.
_MODEL_KWARGS: dict[str, str] = {
    "torch_dtype": "say compute='bf16', 'auto' or 'fp32'",
    "dtype": "say compute='bf16', 'auto' or 'fp32'",
    "device_map": "say device=",
    "attn_implementation": "modenc computes attention itself",
}
NO_TRAINING = (
    "an encoder is not trained as a whole: its modules are frozen. Train a language's modules by a recipe "
    "(modenc train, modenc.training.pipeline.train), or modules of your own behind it "
    "(SentenceTransformer(modules=[*encoder, Dense(...)]))"
)
"""Why trainers and ``fit`` are refused."""


def refuse_backend(backend: Any) -> None:
    """Refuse another backend than torch.

    Raises:
        OptionError: it is another.
    """
    if backend != _BACKEND:
        raise OptionError(
            f"backend: expected {_BACKEND!r}, found {backend!r:.60}; modenc computes with torch. For "
            "speed on a CPU say compute='int8' (OpenVINO, in 8-bit integers) or compute='auto'"
        )


def refuse_without_effect(options: Mapping[str, Any]) -> None:
    """Refuse what ``SentenceTransformer`` takes and a hub has no use for, unless it is empty.

    Raises:
        OptionError: such an option is given; the message says what to do instead.
    """
    refuse_backend(options.get("backend", _BACKEND))
    if kwargs := options.get("model_kwargs"):
        names = list(kwargs)
        hint = next((_MODEL_KWARGS[name] for name in names if name in _MODEL_KWARGS), _SETTINGS)
        raise OptionError(
            f"model_kwargs: expected none, found {', '.join(map(str, names))}, which would change nothing; "
            f"{hint}"
        )
    for name, instead in WITHOUT_EFFECT.items():
        if options.get(name):
            raise OptionError(f"{name}: expected none, since it would change nothing; {instead}")


def refuse_in_call(options: Mapping[str, Any]) -> None:
    """Refuse what ``SentenceTransformer.encode`` takes and a hub has no use for.

    Raises:
        OptionError: such an option is given; the message says what to do instead.
    """
    if options.get("processing_kwargs"):
        raise OptionError(f"processing_kwargs: expected none, since they would change nothing; {_TOKENIZERS}")
    # What encode_query and encode_document say of themselves.
    if options.get("task") not in (None, "query", "document"):
        raise OptionError(
            f"task: expected none, found {options['task']!r:.60}, which would change nothing; modules are of "
            "languages, not of tasks: give prompt= or prompt_name="
        )
