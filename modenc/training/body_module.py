"""A body and a tokenizer as a sentence-transformers model, for the trainers and to encode."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.bert import choose_precision, position_ids
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.composition.st_module import most_positions
from modenc.evaluation.retrieval import Vectors
from modenc.recipe.plan import LanguagePlan
from modenc.recipe.settings import RunSettings

logger = logging.getLogger(__name__)

Encode = Callable[[list[str]], Vectors]
"""Encodes texts as unit vectors [texts, hidden]."""

# Tokens in a bin of packed rows: several sentences, and few enough that attention costs little.
_BIN_LENGTH = 64
# Share of padding that is computed rather than packed.
_LITTLE_PADDING = 0.05


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
        transformer: Any = body  # or peft's wrapper, which passes its attributes on
        self._most_tokens = most_positions(transformer)

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
        ids = features["input_ids"]
        # In training the trainer sets autocast; this one is for vectors of the dev set, pivot and teacher.
        with torch.autocast(ids.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            tokens = self._token_vectors(ids, features["attention_mask"])
        return {**features, "token_embeddings": tokens}

    def _token_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute token vectors [rows, length, hidden], on a CPU with rows packed where much is padding.

        (Dropout then differs from a pass over the padded batch, so a loss that encodes a batch twice must not
        rely on equal dropout.)
        """
        packs = ids.device.type == "cpu" and self.tokenizer.padding_side == "right"
        if not packs or 1 - float(mask.float().mean()) <= _LITTLE_PADDING:
            return self._pass(input_ids=ids, attention_mask=mask)
        packed = pack_rows(
            ids,
            position_ids(self.body, ids),  # type: ignore[arg-type]
            mask,
            min(_BIN_LENGTH, self._most_tokens),
            pad=self.tokenizer.pad_token_id,  # type: ignore[arg-type]
        )
        tokens = self._pass(
            input_ids=packed.ids, attention_mask=packed.mask.long(), position_ids=packed.positions
        )
        return packed.unpack(tokens, mask)

    def _pass(self, **inputs: Tensor) -> Tensor:
        hidden: Tensor = self.body(**inputs).last_hidden_state
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


def set_dropout(body: PreTrainedModel, dropout: float) -> None:
    """Set the dropout of a body of the BERT or XLM-R family, of attention too."""
    for module in body.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        if hasattr(module, "dropout_prob"):  # attention by torch's fused function
            module.dropout_prob = dropout


def encode_texts(model: SentenceTransformer, texts: list[str]) -> Vectors:
    """Encode texts as unit vectors [texts, hidden] without gradients, each distinct text once."""
    distinct = list(dict.fromkeys(texts))
    was_training = model.training
    # Moved by ``encode``, in inference mode, new adapters could not be trained any more.
    model.to(model.device)
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


def encoder_of(
    base: BaseModel,
    plan: LanguagePlan,
    max_length: int,
    modules: Path | None = None,
    *,
    align: bool = True,
) -> Encode:
    """Return an encoder with the base, or with ``modules`` on it, that remembers what it encoded.

    Its first call reads the modules; texts are cut at ``max_length`` tokens.
    """

    @cache
    def model() -> SentenceTransformer:
        body, tokenizer = base.load_body().requires_grad_(False), base.load_tokenizer()
        if modules is not None:
            read = read_modules(modules, base.hidden_size)
            body, tokenizer = compose(body, read, align=align), read.tokenizer or tokenizer
        return sentence_model(body, tokenizer, plan, max_length)

    @cache
    def vectors(texts: tuple[str, ...]) -> Vectors:
        return encode_texts(model(), list(texts))

    return lambda texts: vectors(tuple(texts))


@dataclass(frozen=True)
class PackedRows:
    """Several short rows of a padded batch side by side in one; made by :func:`pack_rows`.

    A batch of captions and news, padded to its longest sentence, is a third to a half padding, which costs as
    much as words. Here rows stand one after another in bins of equal length, each with positions of its own
    and attention to itself alone, so that every token gets the vector that it has in the padded batch.
    """

    ids: Tensor
    """Token ids [bins, length]."""
    positions: Tensor
    """Position of each token within its row, as given; 0 for padding [bins, length]."""
    mask: Tensor
    """Whether a token attends to another: those of one row do, and padding does to itself
    [bins, length, length]."""
    place: Tensor
    """Place of each token of the batch, row by row, among those of all bins [tokens]."""

    def unpack(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Put token vectors [bins, length, hidden] back into rows [rows, longest, hidden], zeros as padding.

        Args:
            vectors: as computed for ``ids``.
            mask: the padded batch's attention mask [rows, longest].
        """
        unpacked = vectors.new_zeros(*mask.shape, vectors.shape[-1])
        unpacked[mask.bool()] = vectors.flatten(0, 1).index_select(0, self.place)
        return unpacked


def pack_rows(ids: Tensor, positions: Tensor, mask: Tensor, most: int, *, pad: int) -> PackedRows:
    """Put the rows of a batch that is padded on the right into bins, of the length with the fewest tokens.

    Args:
        ids: token ids [rows, longest].
        positions: positions of the tokens [longest] or [rows, longest].
        mask: 1 for tokens and 0 for padding [rows, longest].
        most: length of a bin at most, if no row is longer.
        pad: id of padding.
    """
    lengths = mask.sum(dim=1).tolist()
    longest = max(1, *lengths)
    # Bins as long as the longest row are never more than the padded batch.
    fits = ((*_first_fit(lengths, length), length) for length in range(longest, max(most, longest) + 1))
    start, bins, length = min(fits, key=lambda fit: fit[1] * fit[2])
    tokens = mask.bool()
    row, column = tokens.nonzero(as_tuple=True)
    place = torch.tensor(start, device=ids.device)[row] + column
    packed = ids.new_full((bins * length,), pad)
    binned_positions = ids.new_zeros(bins * length)
    # Padding is a row of its own.
    rows = ids.new_full((bins * length,), -1)
    packed[place], rows[place] = ids[tokens], row
    binned_positions[place] = positions.expand_as(ids)[tokens]
    rows = rows.view(bins, length)
    return PackedRows(
        packed.view(bins, length),
        binned_positions.view(bins, length),
        rows[:, :, None] == rows[:, None, :],
        place,
    )


def _first_fit(lengths: list[int], capacity: int) -> tuple[list[int], int]:
    """Put rows into bins by first-fit decreasing: each row's first place, and the number of bins."""
    used: list[int] = []
    start = [0] * len(lengths)
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        size = lengths[row]
        chosen = next((number for number, full in enumerate(used) if full + size <= capacity), len(used))
        if chosen == len(used):
            used.append(0)
        start[row] = chosen * capacity + used[chosen]
        used[chosen] += size
    return start, max(len(used), 1)


def uses_bf16(run: RunSettings) -> bool:
    """Check whether matrices are multiplied in bfloat16, by the recipe or else by the machine."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return choose_precision(run.precision, device) == "bf16"


def on_terminal() -> bool:
    """Check whether bars are shown: not if standard error is a file, nor if only errors are logged."""
    return sys.stderr is not None and sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)


def readable(metrics: Mapping[str, Any]) -> str:
    """Format metrics on one line: ``sts 81.94, score 88.50``."""
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:.2f}' if isinstance(value, float) else value}"
        for name, value in metrics.items()
    )
