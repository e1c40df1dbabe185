"""The normalization of texts as a part of an exported tokenizer."""

from __future__ import annotations

import re

from tokenizers import Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

from modenc.texts import INVISIBLE, JOINERS, PILED_MARKS, STRETCHES, normalize_prompt

# What is removed from the ends of texts.
_ENDS = "[ \u200b-\u200d]+"


def with_normalization(tokenizer: PreTrainedTokenizerFast, prompt: str) -> PreTrainedTokenizerFast:
    """Make a tokenizer that does to a text what encoding does, and then what ``tokenizer`` does.

    Args:
        tokenizer: not changed.
        prompt: the prompt before texts; it is kept where a text is empty or begins with blanks.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    own = [backend.normalizer] if backend.normalizer else []
    backend.normalizer = normalizers.Sequence([*normalization(prompt), *own])
    # A class of a model's own may build its normalizer anew when it is loaded.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )


def normalization(prompt: str) -> list[normalizers.Normalizer]:
    """Return the steps of :func:`modenc.texts.normalize`, for a text with its prompt."""
    prefix = normalize_prompt(prompt)
    compose = [normalizers.Replace(Regex(PILED_MARKS), ""), normalizers.NFC()]
    return [
        # Blanks as in str.split, and Braille's.
        normalizers.Replace(Regex("[\\s\x1c-\x1f\u2800]+"), " "),
        normalizers.Replace(Regex(INVISIBLE), ""),
        *compose,
        normalizers.Replace(Regex(JOINERS), ""),
        normalizers.Replace(Regex(STRETCHES), ""),
        *compose,
        normalizers.Replace(Regex(rf"\A{_ENDS}|{_ENDS}\z"), ""),
        normalizers.Replace(Regex(" +"), " "),
        normalizers.Replace(Regex(rf"\A{re.escape(prefix.rstrip())}(?:{_ENDS}|\z)"), prefix),
    ]
