"""A body and a tokenizer as a sentence-transformers model, for the trainers and for cached vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.evaluation.retrieval import Vectors
from modenc.recipe.settings import LanguagePlan
from modenc.storage import whole_file
from modenc.threads import wait_policy
from modenc.training.processes import uses_bf16
from modenc.training.progress import on_terminal

# Few rows sorted by length have little padding, and many rows make efficient matrix products.
_ROWS_A_PASS = 16
# If the embeddings train, each pass fills a gradient as large as their table, which takes longer in a
# multilingual base than the padding that passes save. (Dropout then differs from a pass without
# gradients, so a loss that encodes a batch twice must not rely on equal dropout.)
_LARGE_TABLE = 100_000


class BodyModule(InputModule):  # type: ignore[misc]
    """Module with one tokenizer and one body: texts → token vectors [batch, length, hidden]."""

    def __init__(
        self,
        body: nn.Module,
        tokenizer: PreTrainedTokenizerFast,
        *,
        prompt: str,
        max_length: int,
        bf16: bool = False,
    ) -> None:
        super().__init__()
        self.body = body
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.max_seq_length = max_length
        self.bf16 = bf16

    def preprocess(self, inputs: list[str], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Tokenize ``prompt + text``, cut at ``max_seq_length`` tokens: ids and mask [batch, length]."""
        encoded = self.tokenizer(
            [self.prompt + text for text in inputs],
            truncation=True,
            max_length=self.max_seq_length,
            padding=True,
            return_tensors="pt",
            return_token_type_ids=False,
        )
        return dict(encoded)

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``token_embeddings`` to the features."""
        wait_policy.check()
        ids = features["input_ids"]
        # In training the trainer sets autocast; this one is for vectors of the dev set, pivot and teacher.
        with torch.autocast(ids.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            tokens = self._by_length(ids, features["attention_mask"])
        return {**features, "token_embeddings": tokens}

    def _by_length(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute token vectors [rows, length, hidden], on a CPU in passes over rows of similar length.

        In a shuffled batch of captions and news half of the tokens are padding, which costs as much as words;
        in passes of sixteen sorted rows a third are.
        """
        rows, length = ids.shape
        one_pass = rows <= _ROWS_A_PASS or ids.device.type != "cpu" or self.tokenizer.padding_side != "right"
        if one_pass or self._trains_large_table():
            return self._pass(ids, mask)
        lengths = mask.sum(dim=1)
        order = lengths.argsort(stable=True)
        passes = []
        for chosen in torch.split(order, _ROWS_A_PASS):
            longest = int(lengths[chosen].max())
            tokens = self._pass(ids[chosen, :longest], mask[chosen, :longest])
            passes.append(nn.functional.pad(tokens, (0, 0, 0, length - longest)))
        return torch.cat(passes)[order.argsort()]

    def _trains_large_table(self) -> bool:
        table = self.body.get_input_embeddings().weight  # type: ignore[operator]
        return bool(torch.is_grad_enabled() and table.requires_grad and len(table) > _LARGE_TABLE)

    def _pass(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden.float()

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the trainers save trainable weights alone, the stages write the hub's files."""


def sentence_model(
    body: PreTrainedModel | nn.Module, tokenizer: PreTrainedTokenizerFast, plan: LanguagePlan, max_length: int
) -> SentenceTransformer:
    """Make a sentence-transformers model of one language's body, in the plan's precision."""
    hidden: int = body.config.hidden_size  # type: ignore[union-attr, assignment]
    module = BodyModule(
        body, tokenizer, prompt=plan.base.prompt, max_length=max_length, bf16=uses_bf16(plan.run)
    )
    model = SentenceTransformer(modules=[module, Pooling(hidden, plan.base.pooling)])
    model.model_card_data.generate_widget_examples = False
    return model


def encode_texts(model: SentenceTransformer, texts: list[str]) -> Vectors:
    """Encode texts as unit vectors [texts, hidden] without gradients, each distinct text once."""
    distinct = list(dict.fromkeys(texts))
    was_training = model.training
    with torch.inference_mode():
        vectors = model.encode(
            distinct,
            batch_size=32,
            normalize_embeddings=True,
            show_progress_bar=len(distinct) > 2000 and on_terminal(),
        )
    model.train(was_training)
    row = {text: number for number, text in enumerate(distinct)}
    result: Vectors = vectors[[row[text] for text in texts]]
    return result


def content_key(*content: str) -> str:
    """Hash all of ``content`` to a short file name."""
    return hashlib.sha256("\x1f".join(content).encode("utf-8", "backslashreplace")).hexdigest()[:24]


def cached_vectors(path: Path, encode: Callable[[], Vectors]) -> Vectors:
    """Read the vectors in ``path``, a NumPy file; if it is missing, write those of ``encode`` there first."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another language's training may write the same file.
        with whole_file(path) as temporary:
            np.save(temporary, encode())
    cached: Vectors = np.load(path)
    return cached
