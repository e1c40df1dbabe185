"""Neural translation (NLLB, M2M100, Marian) by transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langcodes import Language

from modenc.base_model.trust import check_config, has_safetensors, model_errors, model_folder, refuse_adapter
from modenc.errors import LanguageError, require_extra
from modenc.languages import find_code, normalize_code, script_of_code
from modenc.translation import Translation

_MOST_TOKENS = 512
"""Longest text in tokens: no family was trained on longer ones."""
_BATCH_SIZE = 16
_BEAMS = 4
_EXPECTED = "a translation model's folder, or its id on Hugging Face"
_MOST_SHOWN = 40
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Tokens of languages: those of NLLB (kaz_Cyrl) and those of M2M100 (__kk__).
_TAG = re.compile(r"([a-z]{3}_[A-Z][a-z]{3})|__([a-z]{2,3})__")


class Model:
    """A model and its tokenizer, for any number of steps.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.

    Raises:
        MissingExtraError: the package that reads tokenizers is not installed.
        BaseModelError: there is no such model, or it is no translation model.
    """

    def __init__(self, name: str) -> None:
        require_extra("translate", "sentencepiece")
        import torch
        from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

        local = Path(name).expanduser()
        location, _, revision = (str(local), "", "") if local.is_dir() else name.partition("@")
        with model_errors(name, _EXPECTED):
            folder = model_folder(location, revision or None)
        refuse_adapter(name, folder)
        # The commit of what was downloaded; None for a folder.
        commit = folder.name if _COMMIT.fullmatch(folder.name) else None
        # For cards, without the path.
        self.name = local.resolve().name if local.is_dir() else f"{location}@{commit}"
        with model_errors(name, _EXPECTED):
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            check_config(name, config)
            # Without tokenizer.json, converting to a fast tokenizer would need more packages.
            fast = (folder / "tokenizer.json").is_file()
            self.tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=fast, trust_remote_code=False)
            where: str | Path = folder
            options: dict[str, Any] = {"use_safetensors": True}
            if not has_safetensors(name, folder):
                # Many of these models have only pickles, from which torch then reads only tensors and
                # numbers. They are downloaded here, at the same commit as the other files.
                where, options = location, {"weights_only": True, "revision": commit}
            model = AutoModelForSeq2SeqLM.from_pretrained(
                where, config=config, dtype=torch.float32, trust_remote_code=False, **options
            )
        model.generation_config.max_length = None  # each call sets max_new_tokens
        self.model = model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        positions = getattr(config, "max_position_embeddings", None) or _MOST_TOKENS
        self.max_tokens = min(int(self.tokenizer.model_max_length), positions, _MOST_TOKENS)


class NeuralStep:
    """Translation from one language to another by a neural model.

    Raises:
        LanguageError: the model lacks a language.
    """

    def __init__(self, model: Model, source: str, target: str) -> None:
        self.model, self.name = model, model.name
        self.tags = language_tags(model.tokenizer, source, target, model.name)

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text."""
        found = []
        for first in range(0, len(texts), _BATCH_SIZE):
            found += self._translate(list(texts[first : first + _BATCH_SIZE]))
        return found

    def _translate(self, texts: list[str]) -> list[Translation]:
        import torch

        tokenizer, model, limit = self.model.tokenizer, self.model.model, self.model.max_tokens
        forced = {}
        if self.tags is not None:
            tokenizer.src_lang, target = self.tags
            forced["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(target)
        batch = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        # A text that fills the limit was most likely cut.
        whole = (batch["attention_mask"].sum(dim=1) < limit).tolist()
        longest = min(limit, 2 * batch["input_ids"].shape[1] + 20)
        with torch.inference_mode():
            generated = model.generate(
                **batch.to(model.device), num_beams=_BEAMS, do_sample=False, max_new_tokens=longest, **forced
            )
        # Not every tokenizer treats language tags as special tokens.
        kept = [[token for token in row if token not in forced.values()] for row in generated.tolist()]
        answers = tokenizer.batch_decode(kept, skip_special_tokens=True)
        return [
            Translation(answer.strip()) if fits else Translation("", failed=True)
            for answer, fits in zip(answers, whole, strict=True)
        ]


def language_tags(tokenizer: Any, source: str, target: str, model: str) -> tuple[str, str] | None:
    """Find what the tokenizer's ``src_lang`` and the first token of translations are to be.

    Both languages are codes in any standard form, or the model's own; ``model`` is its name in messages.

    Returns:
        ``src_lang`` and the token; None for Marian models, which are of one direction.

    Raises:
        LanguageError: the model is of no supported family, or lacks a language.
    """
    kind = type(tokenizer).__name__
    if kind.startswith("Marian"):
        return None
    # M2M100's tags are outside the vocabulary.
    tokens = [*tokenizer.get_vocab(), *getattr(tokenizer, "lang_token_to_id", ())]
    tags = {tag[1] or tag[2]: token for token in tokens if (tag := _TAG.fullmatch(token))}
    if not tags or not hasattr(tokenizer, "src_lang"):
        raise LanguageError(
            f"{model}: expected a translation model of NLLB, M2M100 or Marian, found a tokenizer of class "
            f"{kind}; choose a model of one of these families"
        )
    return _choose(source, tags, model), tags[_choose(target, tags, model)]


def _choose(code: str, tags: dict[str, str], model: str) -> str:
    """Choose the model's code for a language: as given, or one of the language, best in its usual script."""
    if code in tags:
        return code
    known, wanted = sorted(tags), normalize_code(code)
    found = [tag for tag in known if find_code(tag) == wanted]
    if not found:
        shown = ", ".join(known[:_MOST_SHOWN]) + (" …" if len(known) > _MOST_SHOWN else "")
        raise LanguageError(f"{model}: expected a language that it has, found {code!r}; it has {shown}")
    script = Language.get(code.replace("_", "-")).maximize().script
    return min(found, key=lambda tag: (script_of_code(tag) not in (None, script), tag))
