"""Neural translation (NLLB, M2M100, MADLAD, Marian) by transformers or CTranslate2."""

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


class NeuralStep:
    """Translation from one language to another by a neural model; see :func:`language_tags`.

    ``beams`` is the width of the beam search: 1 is greedy, and fastest.

    Raises:
        BaseModelError: the tokenizer cannot be read.
        LanguageError: the model lacks a language.
    """

    def __init__(
        self,
        model: TransformersModel | CTranslate2Model,
        source: str,
        target: str,
        beams: int,
        batch_size: int,
    ) -> None:
        from transformers import AutoTokenizer

        folder = model.tokenizer_folder
        with model_errors(model.name, _EXPECTED):
            # Without tokenizer.json, converting to a fast tokenizer would need more packages.
            fast = (folder / "tokenizer.json").is_file()
            self.tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=fast, trust_remote_code=False)
        self.model = model
        self.beams = beams
        self.batch_size = batch_size
        self.tags = language_tags(self.tokenizer, source, target, model.name)
        tag = self.tags.target
        self.target_id = None if tag is None else int(self.tokenizer.convert_tokens_to_ids(tag))
        limits = (int(self.tokenizer.model_max_length), model.max_tokens or _MOST_TOKENS, _MOST_TOKENS)
        self.max_tokens = min(limits)

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text."""
        tokens = self.tokenize(texts)
        answers = self.model.generate([self.truncate(ids) for ids in tokens], self)
        # Not every tokenizer treats language tags as special tokens.
        kept = [[token for token in answer if token != self.target_id] for answer in answers]
        decoded = [str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip() for ids in kept]
        return [
            Translation(text, cut=len(ids) > self.max_tokens)
            for text, ids in zip(decoded, tokens, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Describe the model, the language tags and the settings of the search."""
        # The batch size matters, too: the longest text of a batch limits the length of all its translations.
        search = {"beams": self.beams, "batch_size": self.batch_size}
        return {**self.model.description, "tags": [tag.strip() for tag in self.tags if tag], **search}

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize each text to ids, with tags, without truncation."""
        if self.tags.source is not None:
            self.tokenizer.src_lang = self.tags.source
        encoded = self.tokenizer([self.tags.before_text + text for text in texts], verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def truncate(self, tokens: list[int]) -> list[int]:
        """Truncate a text to the model's maximum length; the end-of-text token stays at the end."""
        return tokens if len(tokens) <= self.max_tokens else [*tokens[: self.max_tokens - 1], tokens[-1]]

    def max_new_tokens(self, longest: int) -> int:
        """Return the most tokens for the translation of a text of ``longest`` tokens."""
        return min(self.max_tokens, 2 * longest + 20)


class TransformersModel:
    """A model for any number of steps, run by transformers.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.

    Raises:
        MissingExtraError: the package that reads tokenizers is not installed.
        BaseModelError: there is no such model, or it is no translation model.
    """

    def __init__(self, name: str) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForSeq2SeqLM

        self.name = name
        location, folder = find_model(name)
        self.tokenizer_folder = folder
        with model_errors(name, _EXPECTED):
            self.description: dict[str, Any] = {
                "tool": f"transformers {version('transformers')}",
                "name": _public_name(location),
                "data": model_fingerprint(folder),
            }
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            check_config(name, config)
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
        self.max_tokens: int | None = getattr(config, "max_position_embeddings", None)

    def generate(self, inputs: Sequence[list[int]], step: NeuralStep) -> list[list[int]]:
        """Translate texts given as token ids; batches have texts of similar lengths."""
        order = sorted(range(len(inputs)), key=lambda i: (-len(inputs[i]), i))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), step.batch_size):
            batch = order[first : first + step.batch_size]
            found |= zip(batch, self._generate([inputs[i] for i in batch], step), strict=True)
        return [found[i] for i in range(len(inputs))]

    def _generate(self, batch: list[list[int]], step: NeuralStep) -> list[list[int]]:
        import torch

        longest = max(map(len, batch))
        padded = [ids + [step.tokenizer.pad_token_id] * (longest - len(ids)) for ids in batch]
        mask = [[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch]
        with torch.inference_mode():
            generated = self.model.generate(
                input_ids=torch.tensor(padded, device=self.model.device),
                attention_mask=torch.tensor(mask, device=self.model.device),
                num_beams=step.beams,
                do_sample=False,
                max_new_tokens=step.max_new_tokens(longest),
                **({} if step.target_id is None else {"forced_bos_token_id": step.target_id}),
            )
        tokens: list[list[int]] = generated.tolist()
        return tokens


class CTranslate2Model:
    """As :class:`TransformersModel`, run by CTranslate2, which is faster on CPUs and may have 8 bits.

    ``name`` is a folder that ``ct2-transformers-converter`` wrote, with the tokenizer's files.
    """

    max_tokens: int | None = None

    def __init__(self, name: str) -> None:
        require_extra("translate", "ctranslate2", "sentencepiece")
        import ctranslate2
        import torch

        self.name = name
        location, self.tokenizer_folder = find_model(name)
        with model_errors(name, _EXPECTED):
            self.description: dict[str, Any] = {
                "tool": f"ctranslate2 {version('ctranslate2')}",
                "name": _public_name(location),
                "data": model_fingerprint(self.tokenizer_folder),
            }
            threads = torch.get_num_threads()
            self.translator = ctranslate2.Translator(location, device="auto", intra_threads=threads)

    def generate(self, inputs: Sequence[list[int]], step: NeuralStep) -> list[list[int]]:
        """Translate texts given as token ids; the library sorts them into batches."""
        target = step.tags.target
        results = self.translator.translate_batch(
            [step.tokenizer.convert_ids_to_tokens(ids) for ids in inputs],
            target_prefix=None if target is None else [[target]] * len(inputs),
            beam_size=step.beams,
            max_batch_size=step.batch_size,
            max_input_length=0,
            max_decoding_length=step.max_new_tokens(max(map(len, inputs))),
        )
        return [step.tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]


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
        models: one for all steps, or one for each; folders with ``model.bin`` are run by CTranslate2.
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
    loaded = {
        name: (CTranslate2Model if (Path(name) / "model.bin").is_file() else TransformersModel)(name)
        for name in dict.fromkeys(models)
    }
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
