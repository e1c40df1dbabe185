"""A body and a tokenizer as a sentence-transformers model, for the trainers and for cached vectors."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.recipe.settings import LanguagePlan
from modenc.threads import waiting
from modenc.train.precision import uses_bf16
from modenc.train.progress import on_terminal

# Few enough that sorted by length they hold little padding, enough to keep the products large.
_ROWS_A_PASS = 16
# Each pass fills a gradient as large as the table of embeddings, where that is trained: a multilingual base's
# took longer than the padding that passes save. (Dropout then differs from a pass without gradients, which a
# loss that encodes a batch twice must not rely on.)
_LARGE_TABLE = 100_000


class BodyModule(InputModule):  # type: ignore[misc]
    """Tokenise with one tokenizer, run one body: texts → token vectors [batch, length, hidden]."""

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
        """Token ids and mask [batch, length] of ``prompt + text``, cut at ``max_seq_length`` tokens."""
        texts = [self.prompt + text for text in inputs]
        encoded = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.max_seq_length,
            padding=True,
            return_tensors="pt",
            return_token_type_ids=False,
        )
        return dict(encoded)

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``token_embeddings`` to the features."""
        waiting.look()
        ids = features["input_ids"]
        # The trainer chooses for training; this serves the dev set, the pivot and the teacher.
        with torch.autocast(ids.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            tokens = self._by_length(ids, features["attention_mask"])
        return {**features, "token_embeddings": tokens}

    def _by_length(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token vectors [rows, length, hidden], on a processor from passes over rows of like lengths.

        Half the tokens of a shuffled batch of captions and news are padding, whose products cost as much as
        words'; sorted in sixteens, a third.
        """
        rows, length = ids.shape
        one_pass = rows <= _ROWS_A_PASS or ids.device.type != "cpu" or self.tokenizer.padding_side != "right"
        if one_pass or self._trains_large_table():
            return self._pass(ids, mask)
        lengths = mask.sum(dim=1)
        order = lengths.argsort(stable=True)
        passes = []
        for part in torch.split(order, _ROWS_A_PASS):
            longest = int(lengths[part].max())
            tokens = self._pass(ids[part, :longest], mask[part, :longest])
            passes.append(nn.functional.pad(tokens, (0, 0, 0, length - longest)))
        return torch.cat(passes)[order.argsort()]

    def _trains_large_table(self) -> bool:
        table = self.body.get_input_embeddings().weight  # type: ignore[operator]
        return bool(torch.is_grad_enabled() and table.requires_grad and len(table) > _LARGE_TABLE)

    def _pass(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden.float()

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Not saved: the trainers keep trainable weights only, the stages write hub files."""


def sentence_model(
    body: PreTrainedModel | nn.Module,
    tokenizer: PreTrainedTokenizerFast,
    plan: LanguagePlan,
    max_length: int,
) -> SentenceTransformer:
    """A sentence-transformers model over one language's body, in the plan's precision."""
    hidden: int = body.config.hidden_size  # type: ignore[union-attr, assignment]
    module = BodyModule(
        body, tokenizer, prompt=plan.base.prompt, max_length=max_length, bf16=uses_bf16(plan.run)
    )
    model = SentenceTransformer(modules=[module, Pooling(hidden, plan.base.pooling)])
    model.model_card_data.generate_widget_examples = False
    return model


def encode_texts(
    model: SentenceTransformer, texts: list[str], batch_size: int = 32
) -> npt.NDArray[np.float32]:
    """Unit-length vectors [texts, hidden] without gradients, each distinct text encoded once."""
    distinct = list(dict.fromkeys(texts))
    was_training = model.training
    with torch.inference_mode():
        vectors = model.encode(
            distinct,
            batch_size=batch_size,
            normalize_embeddings=True,
            show_progress_bar=len(distinct) > 2000 and on_terminal(),
        )
    model.train(was_training)
    row = {text: number for number, text in enumerate(distinct)}
    result: npt.NDArray[np.float32] = vectors[[row[text] for text in texts]]
    return result
