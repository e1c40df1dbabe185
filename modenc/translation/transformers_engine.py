"""NLLB, M2M100, MADLAD and Marian by transformers' ``generate``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modenc.translation.models import (
    Generation,
    PairTokenizer,
    called,
    clear_errors,
    commit_of,
    content_of,
    find_model,
    make_pair_tokenizer,
)
from modenc.translation.steps import Translated


class TransformersModel:
    """One model, for any number of steps.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.
        generation: how translations are searched for.

    Raises:
        MissingExtraError: what reads tokenizers is not installed.
        BaseModelError: there is no such model, or it is none for translation.
    """

    def __init__(self, name: str, generation: Generation) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForSeq2SeqLM

        from modenc.base_model.trust import check_config, has_safetensors

        self.name = name
        self.generation = generation
        self.location, self.revision, self.folder = find_model(name)
        with clear_errors(name):
            self.content = content_of(self.folder)
            config = AutoConfig.from_pretrained(self.folder, trust_remote_code=False)
            check_config(name, config)
            # Many of these models are pickles only, which torch reads as tensors and numbers alone.
            where: str | Path = self.folder
            options: dict[str, Any] = {"use_safetensors": True}
            if not has_safetensors(name, self.folder):
                # Of the same commit as what was fetched, whatever was published since.
                revision = commit_of(self.folder) or self.revision
                where, options = self.location, {"weights_only": True, "revision": revision}
            model = AutoModelForSeq2SeqLM.from_pretrained(
                where, config=config, dtype=torch.float32, trust_remote_code=False, **options
            )
        # Given with each call, by the batch's length.
        model.generation_config.max_length = None
        self.model = model.eval().to("cuda" if torch.cuda.is_available() else "cpu")

    def step(self, source: str, target: str) -> TransformersStep:
        """From one language to another, by their codes.

        Raises:
            LanguageError: the model lacks one.
        """
        positions = getattr(self.model.config, "max_position_embeddings", None)
        return TransformersStep(
            self, make_pair_tokenizer(self.name, self.folder, (source, target), positions)
        )


class TransformersStep:
    """One pair of languages of a :class:`TransformersModel`."""

    def __init__(self, model: TransformersModel, pair_tokenizer: PairTokenizer) -> None:
        self._model = model
        self._pair_tokenizer = pair_tokenizer

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text; the batches are of texts of like lengths."""
        tokens = self._pair_tokenizer.tokens(texts)
        order = sorted(range(len(texts)), key=lambda i: (-len(tokens[i]), i))
        found: dict[int, str] = {}
        size = self._model.generation.batch_size
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            answers = self._generate([self._pair_tokenizer.cut(tokens[i]) for i in batch])
            found |= zip(batch, answers, strict=True)
        longest = self._pair_tokenizer.longest
        return [Translated(found[i], cut=len(tokens[i]) > longest) for i in range(len(texts))]

    def describe(self) -> dict[str, Any]:
        """Library, model, revision, what tells it from others of its name, tags, beams and batch size."""
        tags = self._pair_tokenizer.tags
        return {
            "tool": f"transformers {version('transformers')}",
            "name": called(self._model.location),
            "revision": self._model.revision or "",
            "data": self._model.content,
            "tags": [tag for tag in (tags.before_text.strip(), tags.source, tags.target) if tag],
            "beams": self._model.generation.beams,
            # A batch's longest text says how long its translations may be.
            "batch_size": self._model.generation.batch_size,
        }

    def _generate(self, batch: list[list[int]]) -> list[str]:
        import torch

        model, pad = self._model.model, self._pair_tokenizer.tokenizer.pad_token_id
        longest = max(map(len, batch))
        padded = [ids + [pad] * (longest - len(ids)) for ids in batch]
        seen = [[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch]
        target = self._pair_tokenizer.target_id()
        with torch.inference_mode():
            generated = model.generate(
                input_ids=torch.tensor(padded, device=model.device),
                attention_mask=torch.tensor(seen, device=model.device),
                num_beams=self._model.generation.beams,
                do_sample=False,
                max_new_tokens=self._pair_tokenizer.most_new(longest),
                **({} if target is None else {"forced_bos_token_id": target}),
            )
        return [self._pair_tokenizer.text(tokens) for tokens in generated.tolist()]
