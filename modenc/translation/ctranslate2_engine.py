"""The same families of models, converted for CTranslate2: faster on processors, and 8-bit."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modenc.errors import BaseModelError
from modenc.extras import require_extra
from modenc.translation.models import (
    Generation,
    PairTokenizer,
    called,
    clear_errors,
    content_of,
    find_model,
    make_pair_tokenizer,
)
from modenc.translation.steps import Translated

_WEIGHTS = "model.bin"


class CTranslate2Model:
    """One converted model, for any number of steps.

    Args:
        name: a folder that ``ct2-transformers-converter`` wrote.
        tokenizer: folder or id of the model that it was made from; None: the files are in the folder too.
        generation: how translations are searched for.

    Raises:
        MissingExtraError: ctranslate2 is not installed.
        BaseModelError: there is no such folder, or it holds no converted model.
    """

    def __init__(self, name: str, tokenizer: str | None, generation: Generation) -> None:
        require_extra("translate", "ctranslate2", "sentencepiece")
        import ctranslate2
        import torch

        self.name = name
        self.generation = generation
        self.folder = Path(name).expanduser()
        if not (self.folder / _WEIGHTS).is_file():
            found = "another" if self.folder.is_dir() else "no such"
            raise BaseModelError(
                f"{name}: expected a folder with {_WEIGHTS}, as ct2-transformers-converter writes it; found "
                f"{found} folder. Convert the model, or take --engine transformers"
            )
        self.tokenizer = tokenizer or name
        self.tokenizer_folder = find_model(self.tokenizer)[2]
        with clear_errors(name):
            self.content, self.tokenizer_content = content_of(self.folder), content_of(self.tokenizer_folder)
            self.translator = ctranslate2.Translator(
                str(self.folder), device="auto", intra_threads=torch.get_num_threads()
            )

    def step(self, source: str, target: str) -> CTranslate2Step:
        """From one language to another, by their codes.

        Raises:
            BaseModelError: there is no tokenizer.
            LanguageError: the model lacks a language.
        """
        return CTranslate2Step(
            self, make_pair_tokenizer(self.tokenizer, self.tokenizer_folder, (source, target))
        )


class CTranslate2Step:
    """One pair of languages of a :class:`CTranslate2Model`."""

    def __init__(self, model: CTranslate2Model, pair_tokenizer: PairTokenizer) -> None:
        self._model = model
        self._pair_tokenizer = pair_tokenizer

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text; the library makes batches of texts of like lengths."""
        tokens, tokenizer = self._pair_tokenizer.tokens(texts), self._pair_tokenizer.tokenizer
        given = [tokenizer.convert_ids_to_tokens(self._pair_tokenizer.cut(ids)) for ids in tokens]
        target = self._pair_tokenizer.tags.target
        results = self._model.translator.translate_batch(
            given,
            target_prefix=None if target is None else [[target]] * len(given),
            beam_size=self._model.generation.beams,
            max_batch_size=self._model.generation.batch_size,
            max_input_length=0,
            max_decoding_length=self._pair_tokenizer.most_new(max(map(len, tokens), default=0)),
        )
        longest = self._pair_tokenizer.longest
        return [
            Translated(self._text(result.hypotheses[0]), cut=len(ids) > longest)
            for result, ids in zip(results, tokens, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """Library, model and tokenizer, what tells them from others of their names, and the settings."""
        tags = self._pair_tokenizer.tags
        return {
            "tool": f"ctranslate2 {version('ctranslate2')}",
            "name": called(self._model.name),
            "data": self._model.content,
            "tokenizer": called(self._model.tokenizer),
            "tokenizer_data": self._model.tokenizer_content,
            "tags": [tag for tag in (tags.before_text.strip(), tags.source, tags.target) if tag],
            "beams": self._model.generation.beams,
            "batch_size": self._model.generation.batch_size,
        }

    def _text(self, tokens: list[str]) -> str:
        return self._pair_tokenizer.text(self._pair_tokenizer.tokenizer.convert_tokens_to_ids(tokens))
