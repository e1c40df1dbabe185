"""Engine in 8-bit integers, by OpenVINO on CPUs.

NNCF's post-training quantization sets the ranges of weights and activations from sample texts. These are
drawn token by token with the vocabulary's own frequencies, always the same ones, so that users need not give
any. The second product of each feed-forward block stays in floating point: a few of its inputs are a hundred
times as large as the others, and quantizing these would cause most of the error.

Processors without VNNI add two products of bytes in 16 bits, which overflow if both bytes are large. On these
processors weights use 7 of their 8 bits. See :func:`products_overflow`.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.cache import cache_dir, new_cache_folder
from modenc.composition.bert import embed
from modenc.composition.body import check_fit, compose
from modenc.composition.buckets import Bucket, split_batch
from modenc.composition.kernels import has_bf16
from modenc.composition.modules import LanguageModules
from modenc.errors import BaseModelError
from modenc.languages import BASE

logger = logging.getLogger(__name__)

PACKAGES = ("openvino", "nncf")
_FLOATING = r".*layer\.\d+\.output\.dense/.*"
_BATCHES, _ROWS, _MOST_TOKENS = 20, 16, 64
_SAMPLED = 64
_FORMAT = 1


def int8_file(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str) -> Path:
    """Return the file of a body's quantized layers, made on first use (some 15 seconds) and then cached.

    The model maps the input of the first layer [rows, length, hidden] and a mask [rows, length], 1 at tokens,
    to the output of the last layer, all in float32.

    Args:
        body: one language's composed body, or the base's.
        tokenizer: tokenizer of the same language.
        name: name for the log.
    """
    folder = cache_dir() / "int8" / _fingerprint(body, tokenizer)
    if not folder.is_dir():
        logger.info("making the 8-bit copy of %s, once", name)
        # NNCF's progress bars go to standard output.
        with new_cache_folder(folder) as new, contextlib.redirect_stdout(io.StringIO()):
            openvino().save_model(_quantized(body, tokenizer), new / "model.xml")
    return folder / "model.xml"


def compiled(file: Path) -> Any:
    """Compile a file from :func:`int8_file` for as many threads as torch uses."""
    hints = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        # For the layers that stay in floating point.
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16(torch.device("cpu")) else "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    return openvino().Core().compile_model(file, "CPU", hints)


@cache
def products_overflow() -> bool:
    """Check whether products of the largest bytes overflow in OpenVINO on this processor.

    Measured once a process, in a fifth of a second, with the operators that models use, so that a limit set
    by ``ONEDNN_MAX_CPU_ISA`` counts, too.
    """
    library = openvino()
    opset = importlib.import_module("openvino.opset13")
    inner, (most, largest) = 64, (255, 127)
    x = opset.parameter([-1, inner], np.float32)
    low, high = (np.array(value, np.float32) for value in (0, most))
    integers = opset.fake_quantize(x, low, high, low, high, most + 1)
    weight = opset.convert(opset.constant(np.full((16, inner), largest, np.int8)), np.float32)
    # The form that NNCF gives weights: without a scale OpenVINO would not compute in integers.
    weight = opset.multiply(weight, opset.constant(np.ones((16, 1), np.float32)))
    model = library.Model([opset.matmul(integers, weight, False, True)], [x])
    hints = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    found = library.Core().compile_model(model, "CPU", hints)([np.full((8, inner), most, np.float32)])[0]
    return bool(found.min() < 0.99 * inner * most * largest)


class _Layers(nn.Module):
    def __init__(self, body: PreTrainedModel) -> None:
        super().__init__()
        self.encoder: Any = body.encoder

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = (1.0 - mask)[:, None, None, :] * -10_000.0
        hidden: Tensor = self.encoder(x, attention_mask=scores).last_hidden_state
        return hidden


def _quantized(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Any:
    body = body if body.dtype == torch.float32 else copy.deepcopy(body).float()
    with torch.no_grad():
        batches = []
        for ids, mask in sample_batches(body, tokenizer):
            batches.append((embed(body, body.get_input_embeddings()(ids), ids), mask.float()))
        model = openvino().convert_model(_Layers(body).eval(), example_input=batches[0])
    return quantize(model, batches)


def quantize(model: Any, batches: Sequence[tuple[Tensor, ...]], *, portable: bool = False) -> Any:
    """Quantize an OpenVINO model to 8 bits, except the second product of each feed-forward block.

    Args:
        model: a body, as ``openvino.convert_model`` makes it.
        batches: sample inputs, which set the ranges of its activations.
        portable: use 7 bits for weights, as processors without VNNI need, even if this one has it.
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
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix.ENABLE if portable or products_overflow() else None
        ),
    )


def sample_batches(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ids and mask [rows, length], in int64, of texts drawn with the vocabulary's own frequencies."""
    tokenizer = copy.deepcopy(tokenizer)  # other threads may be using it
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
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
    if np.isneginf(scores).all():
        scores[:] = 0
    found = np.exp(scores - scores.max())
    frequencies: np.ndarray = found / found.sum()
    return frequencies


def _fingerprint(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> str:
    """Hash everything that the quantized file depends on."""
    hasher = hashlib.blake2b(digest_size=16)
    contents = [_FORMAT, *(f"{package} {version(package)}" for package in PACKAGES)]
    contents += ["7-bit weights"] if products_overflow() else []
    description = tokenizer.backend_tokenizer.to_str()
    # Truncation and padding, which change with every use, come before the added tokens.
    contents += [body.config.to_json_string(), description[description.index('"added_tokens"') :]]
    for content in contents:
        hasher.update(str(content).encode())
    tensors = {f"encoder.{name}": tensor for name, tensor in body.encoder.state_dict().items()}
    # Word embeddings only affect the ranges, and a base's are hundreds of MB: every 64th row is hashed.
    tensors["words"] = body.get_input_embeddings().weight[::_SAMPLED]
    for name, tensor in tensors.items():
        hasher.update(name.encode())
        hasher.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()


def openvino() -> Any:
    """Import OpenVINO with its telemetry, and NNCF's, turned off."""
    # Both report nothing if this package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return importlib.import_module("openvino")


class _Model(NamedTuple):
    compiled: Any
    nbytes: int


class Int8Engine:
    """Engine in 8-bit integers with a model for each language, which run one after another.

    No text changes the vector of another text. The methods are those of
    :class:`~modenc.composition.batched_engine.BatchedEngine`.

    Args:
        body: the base's body.
        base_tokenizer: returns the tokenizer of the base and of languages that keep its vocabulary.

    Raises:
        BaseModelError: the body is not on a CPU.
    """

    def __init__(self, body: PreTrainedModel, base_tokenizer: Callable[[], PreTrainedTokenizerFast]) -> None:
        if body.device.type != "cpu":
            raise BaseModelError(
                f"compute='int8': expected the encoder on a CPU, found {body.device}; "
                "use device='cpu', or compute='bf16'"
            )
        self._body = body
        self._base_tokenizer = base_tokenizer
        self._modules: dict[str, LanguageModules] = {}
        # (Language, alignment) → model; least recently used first.
        self._models: dict[tuple[str, bool], _Model] = {}
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Add a language; see :meth:`BatchedEngine.put`."""
        check_fit(self._body, modules)
        with self._lock:
            self._modules[modules.lang] = modules

    def cost(self, modules: LanguageModules) -> int:
        """Return the bytes that :meth:`put` would add."""
        return modules.nbytes

    def remove(self, code: str) -> None:
        """Remove a language that no batch is using."""
        with self._lock:
            del self._modules[code]
            for align in (False, True):
                self._models.pop((code, align), None)

    def shrink(self, excess: int = 0) -> None:
        """Free models until ``excess`` bytes are free; they are read from the cache again when needed."""
        with self._lock:
            for key in list(self._models):
                if excess > 0:
                    excess -= self._models.pop(key).nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of all languages, without the body's own weights."""
        with self._lock:
            models = sum(model.nbytes for model in self._models.values())
            return models + sum(modules.nbytes for modules in self._modules.values())

    @torch.no_grad()
    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Compute the token vectors of a batch; see :meth:`BatchedEngine.run`."""
        output = torch.zeros(*ids.shape, self._body.config.hidden_size, dtype=self._body.dtype)
        for code in dict.fromkeys(languages):
            members = torch.tensor([row for row, other in enumerate(languages) if other == code])
            request = self._model(code, align).compiled.create_infer_request()
            for bucket in split_batch(ids[members], mask[members], [0] * len(members)):
                rows = members if bucket.rows is None else members[bucket.rows]
                found = request.infer(self._inputs(bucket, code), share_inputs=True)[0]
                output[rows, : bucket.ids.shape[1]] = torch.from_numpy(found).to(output.dtype)
        return output.masked_fill_(mask[..., None] == 0, 0.0)

    def _model(self, code: str, align: bool) -> _Model:
        with self._lock:
            key = (code, align and code != BASE and bool(self._modules[code].parallel_adapters))
            self._models[key] = self._models.pop(key) if key in self._models else self._make(*key)
            return self._models[key]

    # Weights made in inference mode cannot be traced.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _make(self, code: str, align: bool) -> _Model:
        body, tokenizer = self._body, None
        if code != BASE:
            body = compose(self._body, self._modules[code], align=align)
            tokenizer = self._modules[code].tokenizer
        file = int8_file(body, tokenizer or self._base_tokenizer(), code)
        return _Model(compiled(file), file.with_suffix(".bin").stat().st_size)

    def _inputs(self, bucket: Bucket, code: str) -> list[Any]:
        """Make the inputs of a model from :func:`int8_file`."""
        table = None if code == BASE else self._modules[code].embeddings
        words = self._body.get_input_embeddings().weight if table is None else table
        x = embed(self._body, functional.embedding(bucket.ids, words), bucket.ids)
        real = torch.ones(bucket.ids.shape)
        if bucket.mask is not None:
            real = (bucket.mask.view(bucket.ids.shape) == 0).float()
        return [x.float().numpy(), real.numpy()]
