"""Quantization of OpenVINO graphs by NNCF, and the sample texts that set the ranges of activations.

The texts are drawn token by token with the vocabulary's own frequencies, always the same ones, so that users
need not give any. The second product of each feed-forward block stays in floating point: a few of its inputs
are a hundred times as large as the others, and quantizing these would cause most of the error.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

_FLOATING = r".*layer\.\d+\.output\.dense/.*"
_BATCHES, _ROWS, _MOST_TOKENS = 20, 16, 64


def quantize(model: Any, batches: Sequence[tuple[Tensor, ...]]) -> Any:
    """Quantize an OpenVINO model to 8 bits, except the second product of each feed-forward block.

    Weights use 7 of their 8 bits: processors without VNNI add two products of bytes in 16 bits, which
    overflow if both bytes are large.

    Args:
        model: a body, as ``openvino.convert_model`` makes it.
        batches: sample inputs, which set the ranges of its activations.
    """
    openvino()  # keeps NNCF from reporting its use
    # Imported here, since it takes seconds.
    import nncf

    # NNCF's own function would change the handlers of other loggers.
    logging.getLogger(nncf.__name__).setLevel(logging.ERROR)
    return nncf.quantize(
        model,
        nncf.Dataset(batches, lambda batch: dict(enumerate(tensor.numpy() for tensor in batch))),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
        ignored_scope=nncf.IgnoredScope(patterns=[_FLOATING]),
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
    )


def sample_batches(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ids and mask [rows, length], in int64, of texts drawn with the vocabulary's own frequencies."""
    tokenizer = copy.deepcopy(tokenizer)  # the one that is exported stays as it is
    config: Any = body.config
    longest = min(2 * _MOST_TOKENS, config.max_position_embeddings // 2)
    for texts in _sample_texts(tokenizer):
        rows = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        yield rows["input_ids"], rows["attention_mask"]


def _sample_texts(tokenizer: PreTrainedTokenizerFast) -> Iterator[list[str]]:
    """Yield batches of texts whose tokens are drawn independently, with the vocabulary's frequencies."""
    frequencies = _frequencies(tokenizer)
    generator = np.random.default_rng(0)
    for _ in range(_BATCHES):
        length = int(generator.integers(8, _MOST_TOKENS))
        drawn = generator.choice(len(frequencies), size=(_ROWS, length), p=frequencies)
        yield [tokenizer.decode(row) for row in drawn.tolist()]


def _frequencies(tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """Return the expected frequency of each token [vocabulary], 0 for special ones; the sum is 1."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    scores = np.full(len(tokenizer), -np.inf)
    if model["type"] == "Unigram":
        scores[: len(model["vocab"])] = [score for _, score in model["vocab"]]
    else:
        # Other models have no scores, but roughly sort their tokens by frequency.
        scores[:] = -np.log(np.arange(1, len(scores) + 1))
    scores[tokenizer.all_special_ids] = -np.inf
    found = np.exp(scores - scores.max())
    frequencies: np.ndarray = found / found.sum()
    return frequencies


def openvino() -> Any:
    """Import OpenVINO with its telemetry, and NNCF's, turned off."""
    # Both report nothing if this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return importlib.import_module("openvino")
