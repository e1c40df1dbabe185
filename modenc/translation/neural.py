"""Neural translation (NLLB, M2M100, MADLAD, Marian) by transformers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from langcodes import Language

from modenc.base_model.trust import check_config, has_safetensors, model_errors, model_folder, refuse_adapter
from modenc.cache import COMMIT
from modenc.errors import DataError, LanguageError
from modenc.extras import require_extra
from modenc.languages import find_code, normalize_code, script_of_code
from modenc.translation import Chain, Translation

_MOST_TOKENS = 512
"""Longest text in tokens: no family was trained on longer ones."""
_EXPECTED = "a translation model's folder, or its id on Hugging Face"
_DIGITS = 16
_MOST_SHOWN = 40


class _Family(NamedTuple):
    """A family of models with the same form of language tags."""

    name: str
    tag: re.Pattern[str]
    """Pattern of a language's token; its group is the code."""
    in_text: bool
    """Whether the target's tag precedes the source text, and the source has no tag. Otherwise the encoder's
    input begins with the source's tag, and the decoder's with the target's."""


_FAMILIES = {
    "nllb": _Family("NLLB", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), in_text=False),
    "m2m100": _Family("M2M100", re.compile(r"__([a-z]{2,3})__"), in_text=False),
    "t5": _Family("MADLAD", re.compile(r"<2([a-z]{2,3}(?:_\w+)?)>"), in_text=True),
    "marian": _Family("Marian", re.compile(r">>([a-z]{2,3}(?:_\w+)?)<<"), in_text=True),
}
"""Start of the tokenizer's class name, in lower case → family."""


class LanguageTags(NamedTuple):
    """Language tags of one step of one model."""

    before_text: str
    """Prefix of each text."""
    source: str | None
    """The tokenizer's ``src_lang``."""
    target: str | None
    """First token of the translation."""


class Model:
    """A model and its tokenizer, for any number of steps.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.

    Raises:
        MissingExtraError: the package that reads tokenizers is not installed.
        BaseModelError: there is no such model, or it is no translation model.
    """

    def __init__(self, name: str) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

        self.name = name
        location, folder = find_model(name)
        with model_errors(name, _EXPECTED):
            self.description: dict[str, Any] = {
                "tool": f"transformers {version('transformers')}",
                "name": _public_name(location),
                "data": model_fingerprint(folder),
            }
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
                where, options = location, {"weights_only": True, "revision": _commit_of(folder)}
            model = AutoModelForSeq2SeqLM.from_pretrained(
                where, config=config, dtype=torch.float32, trust_remote_code=False, **options
            )
        model.generation_config.max_length = None  # each call sets max_new_tokens
        self.model = model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        positions = getattr(config, "max_position_embeddings", None) or _MOST_TOKENS
        self.max_tokens = min(int(self.tokenizer.model_max_length), positions, _MOST_TOKENS)


class NeuralStep:
    """Translation from one language to another by a neural model; see :func:`language_tags`.

    ``beams`` is the width of the beam search: 1 is greedy, and fastest.

    Raises:
        LanguageError: the model lacks a language.
    """

    def __init__(self, model: Model, source: str, target: str, beams: int, batch_size: int) -> None:
        self.model = model
        self.beams = beams
        self.batch_size = batch_size
        self.tags = language_tags(model.tokenizer, source, target, model.name)
        tag = self.tags.target
        self.target_id = None if tag is None else int(model.tokenizer.convert_tokens_to_ids(tag))

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text; batches have texts of similar lengths."""
        tokens = self.tokenize(texts)
        order = sorted(range(len(texts)), key=lambda i: (-len(tokens[i]), i))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), self.batch_size):
            batch = order[first : first + self.batch_size]
            found |= zip(batch, self._generate([self.truncate(tokens[i]) for i in batch]), strict=True)
        return [self._read(found[i], tokens[i]) for i in range(len(texts))]

    def describe(self) -> dict[str, Any]:
        """Describe the model, the language tags and the settings of the search."""
        # The batch size matters, too: the longest text of a batch limits the length of all its translations.
        search = {"beams": self.beams, "batch_size": self.batch_size}
        return {**self.model.description, "tags": [tag.strip() for tag in self.tags if tag], **search}

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize each text to ids, with tags, without truncation."""
        if self.tags.source is not None:
            self.model.tokenizer.src_lang = self.tags.source
        encoded = self.model.tokenizer([self.tags.before_text + text for text in texts], verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def truncate(self, tokens: list[int]) -> list[int]:
        """Truncate a text to the model's maximum length; the end-of-text token stays at the end."""
        most = self.model.max_tokens
        return tokens if len(tokens) <= most else [*tokens[: most - 1], tokens[-1]]

    def _generate(self, batch: list[list[int]]) -> list[list[int]]:
        import torch

        model = self.model.model
        longest = max(map(len, batch))
        padded = [ids + [self.model.tokenizer.pad_token_id] * (longest - len(ids)) for ids in batch]
        mask = [[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch]
        with torch.inference_mode():
            generated = model.generate(
                input_ids=torch.tensor(padded, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                num_beams=self.beams,
                do_sample=False,
                max_new_tokens=min(self.model.max_tokens, 2 * longest + 20),
                **({} if self.target_id is None else {"forced_bos_token_id": self.target_id}),
            )
        tokens: list[list[int]] = generated.tolist()
        return tokens

    def _read(self, answer: list[int], tokens: list[int]) -> Translation:
        # Not every tokenizer treats language tags as special tokens.
        kept = [token for token in answer if token != self.target_id]
        text = str(self.model.tokenizer.decode(kept, skip_special_tokens=True)).strip()
        return Translation(text, cut=len(tokens) > self.model.max_tokens)


def language_tags(tokenizer: Any, source: str, target: str, model: str) -> LanguageTags:
    """Find the tags that make a model translate from one language to another.

    Both are language codes in any standard form, or the model's own tags; ``model`` is its name in messages.

    Raises:
        LanguageError: the model is of no supported family, or lacks a language.
    """
    kind = type(tokenizer).__name__
    family = next((known for start, known in _FAMILIES.items() if kind.lower().startswith(start)), None)
    if family is None:
        names = ", ".join(known.name for known in _FAMILIES.values())
        raise LanguageError(
            f"{model}: expected a translation model of {names}, found a tokenizer of class {kind}; "
            "choose a model of one of these families"
        )
    # M2M100's tags are outside the vocabulary.
    tokens = [*tokenizer.get_vocab(), *getattr(tokenizer, "lang_token_to_id", ())]
    tags = {found.group(1): token for token in tokens if (found := family.tag.fullmatch(token))}
    if not tags and family.name == "Marian":
        return LanguageTags("", None, None)  # a model of one target language has no tags
    wanted = _choose(target, tags, model)
    if family.in_text:
        return LanguageTags(f"{tags[wanted]} ", None, None)
    return LanguageTags("", _choose(source, tags, model), tags[wanted])


def _choose(code: str, tags: Iterable[str], model: str) -> str:
    """Choose the model's tag for a code: the code or a tag of its language, best in its usual script."""
    if code in (known := sorted(tags)):
        return code
    wanted = normalize_code(code)
    found = [tag for tag in known if find_code(tag) == wanted]
    if not found:
        shown = ", ".join(known[:_MOST_SHOWN]) + (" …" if len(known) > _MOST_SHOWN else "")
        raise LanguageError(f"{model}: expected a language that it has, found {code!r}; it has {shown}")
    script = Language.get(code.replace("_", "-")).maximize().script
    return min(found, key=lambda tag: (script_of_code(tag) not in (None, script), tag))


def model_chain(
    models: Sequence[str], languages: Sequence[str], beams: int = 4, batch_size: int = 16
) -> Chain:
    """Make a chain of neural models; each model is loaded once, also if it is used in several steps.

    Args:
        models: one for all steps, or one for each.
        languages: two or more codes, or tags of the models.
        beams: width of the beam search.
        batch_size: texts in a batch.

    Raises:
        MissingExtraError: a package of the extra is not installed.
        BaseModelError: there is no such model.
        LanguageError: a model lacks a language.
        DataError: the number of models is wrong.
    """
    pairs = list(pairwise(languages))
    if len(models) not in (1, len(pairs)):
        raise DataError(
            f"expected one --model, or one for each of the {len(pairs)} steps; found {len(models)}"
        )
    loaded = {name: Model(name) for name in dict.fromkeys(models)}
    names = models if len(models) == len(pairs) else [*models] * len(pairs)
    return Chain(
        tuple(
            NeuralStep(loaded[name], source, target, beams, batch_size)
            for name, (source, target) in zip(names, pairs, strict=True)
        )
    )


def find_model(name: str) -> tuple[str, Path]:
    """Find a model, and download its files if need be; returns its folder or id, and the folder of its files.

    Raises:
        MissingExtraError: the package that reads tokenizers is not installed.
        BaseModelError: there is no such model, or it cannot be downloaded.
    """
    require_extra("translate", "sentencepiece")
    local = Path(name).expanduser()
    location, _, revision = (str(local), "", "") if local.is_dir() else name.partition("@")
    with model_errors(name, _EXPECTED):
        folder = model_folder(location, revision or None)
    refuse_adapter(name, folder)
    return location, folder


def _commit_of(folder: Path) -> str | None:
    """Return the commit of a downloaded model's folder; None for other folders."""
    fetched = folder.parent.name == "snapshots" and COMMIT.fullmatch(folder.name)
    return folder.name if fetched else None


def model_fingerprint(folder: Path) -> str:
    """Return a model's commit or, for a local folder, a fingerprint of its files."""
    if commit := _commit_of(folder):
        return commit
    hasher = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix.lower() != ".md":
            with path.open("rb") as stream:
                hasher.update(f"{path.name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return hasher.hexdigest()[:_DIGITS]


def _public_name(location: str) -> str:
    """Return a model's name for cards: its id, or its folder's name without the path."""
    return Path(location).resolve().name if Path(location).is_dir() else location
