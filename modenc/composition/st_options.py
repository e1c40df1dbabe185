"""Options of sentence-transformers that mean nothing for a hub: refused, not silently left unheard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

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
# Option of push_to_hub → what to do instead; nothing where it is what happens anyway.
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


def refuse_in_push(options: Mapping[str, Any]) -> None:
    """Refuse what ``SentenceTransformer.push_to_hub`` takes and a hub has no use for.

    Raises:
        OptionError: such an option is given, or one that is not known.
    """
    for name, value in options.items():
        if name not in _PUSH:
            raise OptionError(f"push_to_hub: expected no option {name!r}; there is none of that name")
        if value and _PUSH[name]:
            raise OptionError(f"{name}: expected none, since it would change nothing; {_PUSH[name]}")


class NotTrained:
    """Methods of ``SentenceTransformer`` that would train, or change how it was done."""

    def forward(self, input: dict[str, Tensor], **options: Any) -> dict[str, Tensor]:
        """Features of :meth:`preprocess` to token vectors and ``sentence_embedding`` [batch, hidden].

        Raises:
            OptionError: the encoder is being trained, and nothing in it could learn.
        """
        module: Any = self
        trained = module.training and torch.is_grad_enabled()
        if trained and not any(p.requires_grad for p in module.parameters()):
            raise OptionError(NO_TRAINING)
        features: dict[str, Tensor] = super().forward(input, **options)  # type: ignore[misc]
        return features

    def fit(self, *_: Any, **__: Any) -> None:
        """Refused: modules are trained by recipes.

        Raises:
            OptionError: always; the message says how to train.
        """
        raise OptionError(NO_TRAINING)

    old_fit = fit

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Of no use here: modules are trained with the prompt in the vector.

        Raises:
            OptionError: ``include_prompt`` is false.
        """
        if not include_prompt:
            raise OptionError(
                "include_prompt: expected True, found False; modules are trained with the prompt's tokens in "
                "the vector: leave them in, or give prompt='' to encode without a prompt"
            )
