"""Export of a body to ONNX and OpenVINO files for sentence-transformers.

In 8-bit integers the word embeddings have a scale for each row, and the second product of each feed-forward
block stays in floating point, as in :mod:`modenc.exporting.quantizing`. Weights use 7 of their 8 bits, so
that processors without VNNI compute correctly, too.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.modules import quantize_rows
from modenc.exporting.quantizing import openvino, quantize, sample_batches

# Includes the parallel adapter, which is a twentieth of a block.
_FLOATING = re.compile(r"/layer\.\d+/output/.*MatMul")


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
        nodes_to_exclude=[name for name in names if _FLOATING.search(name)],
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
    batches = list(sample_batches(body, tokenizer))
    body = _with_int8_words(body) if int8 else body
    with _quiet(), torch.no_grad():
        model = openvino().convert_model(body, example_input=dict(zip(names, batches[0], strict=True)))
        for name, given in zip(names, model.inputs, strict=True):
            given.get_tensor().set_names({name})
        if int8:
            model = quantize(model, batches)
        openvino().save_model(model, target, compress_to_fp16=False)


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
