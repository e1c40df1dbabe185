"""Export of a body to ONNX and OpenVINO files for sentence-transformers.

In 8-bit integers the word embeddings have a scale for each row, and the second product of each feed-forward
block stays in floating point: a few of its inputs are a hundred times as large as the others, and quantizing
these would cause most of the error. Weights use 7 of their 8 bits: processors without VNNI add two products
of bytes in 16 bits, which overflow if both bytes are large.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import logging
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.modules import quantize_rows

# The second products of feed-forward blocks; in ONNX also the parallel adapter, a twentieth of a block.
_FLOATING_ONNX = re.compile(r"/layer\.\d+/output/.*MatMul")
_FLOATING_OPENVINO = r".*layer\.\d+\.output\.dense/.*"
_BATCHES, _ROWS, _MOST_TOKENS = 20, 16, 64


def write_onnx(body: PreTrainedModel, folder: Path, *, int8: bool) -> None:
    """Write ``onnx/model.onnx`` into a model's folder.

    With ``int8`` it is quantized to 8 bits; the ranges of activations are set by each text.
    """
    from optimum.exporters.onnx import onnx_export_from_model

    target = folder / "onnx" / "model.onnx"
    target.parent.mkdir()
    body = _with_int8_words(body) if int8 else body
    with tempfile.TemporaryDirectory(dir=folder) as scratch, _quiet():
        onnx_export_from_model(body, Path(scratch), task="feature-extraction", do_validation=False)
        if int8:
            _write_onnx_integers(Path(scratch, target.name), target)
        else:
            for file in Path(scratch).glob("model.onnx*"):
                shutil.move(file, target.with_name(file.name))


def _write_onnx_integers(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = [node.name for node in onnx.load(source, load_external_data=False).graph.node]
    quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul"],
        nodes_to_exclude=[name for name in names if _FLOATING_ONNX.search(name)],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )


def write_openvino(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, *, int8: bool
) -> None:
    """Write ``openvino/openvino_model.xml`` and its weights into a model's folder.

    With ``int8`` it is quantized to 8 bits; texts that are drawn from the tokenizer's vocabulary set the
    ranges of activations.
    """
    target = folder / "openvino" / "openvino_model.xml"
    names = ("input_ids", "attention_mask")
    batches = list(_sample_batches(body, tokenizer))
    body = _with_int8_words(body) if int8 else body
    # OpenVINO and NNCF report nothing about their use if this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    with _quiet(), torch.no_grad():
        openvino = importlib.import_module("openvino")
        model = openvino.convert_model(body, example_input=dict(zip(names, batches[0], strict=True)))
        for name, given in zip(names, model.inputs, strict=True):
            given.get_tensor().set_names({name})
        if int8:
            nncf = importlib.import_module("nncf")
            model = nncf.quantize(
                model,
                nncf.Dataset(batches, lambda batch: dict(enumerate(tensor.numpy() for tensor in batch))),
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(batches),
                ignored_scope=nncf.IgnoredScope(patterns=[_FLOATING_OPENVINO]),
                advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
            )
        openvino.save_model(model, target, compress_to_fp16=False)


def _sample_batches(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ids and mask [rows, length], in int64, of texts that are drawn token by token, always the same.

    Tokens have the vocabulary's own frequencies, so that users need not give any texts.
    """
    tokenizer = copy.deepcopy(tokenizer)  # the one that is exported stays as it is
    config: Any = body.config
    longest = min(2 * _MOST_TOKENS, config.max_position_embeddings // 2)
    frequencies = _frequencies(tokenizer)
    generator = np.random.default_rng(0)
    for _ in range(_BATCHES):
        length = int(generator.integers(8, _MOST_TOKENS))
        drawn = generator.choice(len(frequencies), size=(_ROWS, length), p=frequencies)
        texts = [tokenizer.decode(row) for row in drawn.tolist()]
        rows = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        yield rows["input_ids"], rows["attention_mask"]


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


class _Int8Words(nn.Module):
    def __init__(self, table: Tensor) -> None:
        super().__init__()
        rows, scales = quantize_rows(table)
        self.register_buffer("rows", rows)
        self.register_buffer("scales", scales)

    def forward(self, ids: Tensor) -> Tensor:
        rows: Any = self.rows
        scales: Any = self.scales
        words: Tensor = rows[ids].float() * scales[ids][..., None]
        return words


def _with_int8_words(body: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the body with word embeddings in int8; these are most of a multilingual model."""
    shared = {id(tensor): tensor for tensor in chain(body.parameters(), body.buffers())}
    body = copy.deepcopy(body, shared)
    body.set_input_embeddings(_Int8Words(body.get_input_embeddings().weight.detach()))
    return body


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' warnings, logs and progress bars, which concern only their own code."""
    root = logging.getLogger()
    handlers, disabled = list(root.handlers), root.manager.disable
    logging.disable(logging.WARNING)
    try:
        # NNCF's progress bars go to standard output.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers  # onnxruntime adds one if there is none
        logging.disable(disabled)
