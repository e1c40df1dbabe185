"""The engine in 8-bit integers, by OpenVINO on CPUs.

NNCF's post-training quantisation sets the ranges of weights and activations from texts that are run once.
These are drawn token by token from the vocabulary's own frequencies: the same each time, and nobody has to
bring any. The second product of each feed-forward block stays in floating point: its inputs have a few
numbers a hundred times as large as the others, and are most of what integers lose.

Processors without VNNI add two products of bytes in 16 bits, which overflow where both bytes are large: there
weights keep to 7 of their 8 bits. See :func:`products_overflow`.
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

from modenc.cache import atomic_folder, cache_dir
from modenc.composition.bert import embed
from modenc.composition.body import check_fit, compose
from modenc.composition.modules import LanguageModules
from modenc.composition.packing import Bucket, buckets
from modenc.errors import BaseModelError
from modenc.hardware import has_bf16
from modenc.languages import BASE

logger = logging.getLogger(__name__)

PACKAGES = ("openvino", "nncf")
_FLOATING = r".*layer\.\d+\.output\.dense/.*"
_BATCHES, _ROWS, _MOST_TOKENS = 20, 16, 64
_SAMPLED = 64
_FORMAT = 1


def int8_file(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str) -> Path:
    """The model file of a body's layers in integers, made on first use (some 15 seconds) and then cached.

    It maps what enters the first layer [rows, length, hidden] and a mask [rows, length], 1 where there is a
    token, to what leaves the last, float32.

    Args:
        body: one language's composed body, or the base.
        tokenizer: its own.
        name: for the log.
    """
    folder = cache_dir() / "int8" / _digest(body, tokenizer)
    if not folder.is_dir():
        logger.info("making the 8-bit copy of %s, once", name)
        # NNCF's progress bars go to standard output.
        with atomic_folder(folder) as part, contextlib.redirect_stdout(io.StringIO()):
            openvino().save_model(_quantised(body, tokenizer), part / "model.xml")
    return folder / "model.xml"


def compiled(file: Path) -> Any:
    """OpenVINO's compiled model of a file from :func:`int8_file`, for as many threads as torch has."""
    hints = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        # Of what is left in floating point.
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16(torch.device("cpu")) else "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    return openvino().Core().compile_model(file, "CPU", hints)


@cache
def products_overflow() -> bool:
    """Whether the largest bytes, multiplied by OpenVINO on this processor, give too small a sum.

    Measured once a process, in a fifth of a second, on the path that models take: so a limit that
    ``ONEDNN_MAX_CPU_ISA`` sets counts too.
    """
    library = openvino()
    opset = importlib.import_module("openvino.opset13")
    inner, (most, largest) = 64, (255, 127)
    x = opset.parameter([-1, inner], np.float32)
    low, high = (np.array(value, np.float32) for value in (0, most))
    integers = opset.fake_quantize(x, low, high, low, high, most + 1)
    weight = opset.convert(opset.constant(np.full((16, inner), largest, np.int8)), np.float32)
    # As NNCF leaves weights: without a scale they would not be taken for integers.
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


def _quantised(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Any:
    # A body in another type is left as it is.
    body = body if body.dtype == torch.float32 else copy.deepcopy(body).float()
    with torch.no_grad():
        batches = []
        for ids, mask in drawn_batches(body, tokenizer):
            batches.append((embed(body, body.get_input_embeddings()(ids), ids), mask.float()))
        model = openvino().convert_model(_Layers(body).eval(), example_input=batches[0])
    return in_integers(model, batches)


def in_integers(model: Any, batches: Sequence[tuple[Tensor, ...]], *, everywhere: bool = False) -> Any:
    """An OpenVINO model in 8-bit integers, but for the second product of each feed-forward block.

    Args:
        model: of a body, as ``openvino.convert_model`` makes it.
        batches: its inputs, which set the ranges of its activations.
        everywhere: for processors without VNNI too, whatever this one has.
    """
    openvino()  # which keeps NNCF, too, from reporting its use
    # Here alone, since it takes seconds to import.
    import nncf

    # Not by its own function, which changes the handlers of others.
    logging.getLogger(nncf.__name__).setLevel(logging.ERROR)
    return nncf.quantize(
        model,
        nncf.Dataset(batches, lambda batch: dict(enumerate(part.numpy() for part in batch))),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
        ignored_scope=nncf.IgnoredScope(patterns=[_FLOATING]),
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix.ENABLE if everywhere or products_overflow() else None
        ),
    )


def drawn_batches(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids and mask [rows, length], in int64, of texts drawn from a vocabulary's own frequencies."""
    tokenizer = copy.deepcopy(tokenizer)  # others may be using it
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    config: Any = body.config
    longest = min(2 * _MOST_TOKENS, config.max_position_embeddings // 2)
    for texts in _drawn_texts(tokenizer):
        rows = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        yield rows["input_ids"], rows["attention_mask"]


def _drawn_texts(tokenizer: PreTrainedTokenizerFast) -> Iterator[list[str]]:
    """Texts of tokens drawn independently, as often each as the vocabulary says."""
    frequencies = _frequencies(tokenizer)
    generator = np.random.default_rng(0)
    for _ in range(_BATCHES):
        length = int(generator.integers(8, _MOST_TOKENS))
        drawn = generator.choice(len(frequencies), size=(_ROWS, length), p=frequencies)
        yield [tokenizer.decode(row) for row in drawn.tolist()]


def _frequencies(tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """How often each token is expected [vocabulary], special ones never; the sum is 1."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    scores = np.full(len(tokenizer), -np.inf)
    if model["type"] == "Unigram":
        scores[: len(model["vocab"])] = [score for _, score in model["vocab"]]
    else:
        # Others have no scores, but their tokens come roughly in the order of their frequency.
        scores[:] = -np.log(np.arange(1, len(scores) + 1))
    scores[tokenizer.all_special_ids] = -np.inf
    if np.isneginf(scores).all():
        scores[:] = 0
    found = np.exp(scores - scores.max())
    frequencies: np.ndarray = found / found.sum()
    return frequencies


def _digest(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> str:
    """Of all that the file depends on."""
    digest = hashlib.blake2b(digest_size=16)
    parts = [_FORMAT, *(f"{package} {version(package)}" for package in PACKAGES)]
    parts += ["7-bit weights"] if products_overflow() else []
    described = tokenizer.backend_tokenizer.to_str()
    # What comes before, truncation and padding, changes with every use.
    parts += [body.config.to_json_string(), described[described.index('"added_tokens"') :]]
    for part in parts:
        digest.update(str(part).encode())
    tensors = {f"encoder.{name}": tensor for name, tensor in body.encoder.state_dict().items()}
    # Of the words, which only the ranges depend on, some will do: all of a base's are hundreds of MB.
    tensors["words"] = body.get_input_embeddings().weight[::_SAMPLED]
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def openvino() -> Any:
    """OpenVINO; neither it nor NNCF, which needs it, reports its use to its maker."""
    # Both report nothing where this package of theirs cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return importlib.import_module("openvino")


class _Model(NamedTuple):
    compiled: Any
    nbytes: int


class Int8Engine:
    """One language after another, each with a model of its own, so that no text changes another's vector.

    Has the methods of :class:`~modenc.composition.batched_engine.BatchedEngine`.

    Args:
        body: the base.
        base_tokenizer: gives the tokenizer of the base, and of languages that keep its vocabulary.

    Raises:
        BaseModelError: the base is not on a CPU.
    """

    def __init__(self, body: PreTrainedModel, base_tokenizer: Callable[[], PreTrainedTokenizerFast]) -> None:
        if body.device.type != "cpu":
            raise BaseModelError(
                f"compute='int8': expected the encoder on a CPU, found {body.device}; "
                "say device='cpu', or compute='bf16'"
            )
        self._base = body
        self._base_tokenizer = base_tokenizer
        self._modules: dict[str, LanguageModules] = {}
        # By language and alignment; the longest unused first.
        self._models: dict[tuple[str, bool], _Model] = {}
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """See :meth:`BatchedEngine.put`."""
        check_fit(self._base, modules)
        with self._lock:
            self._modules[modules.lang] = modules

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
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

    def reset(self) -> None:
        """Nothing: what was run before does not change what is computed."""

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            models = sum(model.nbytes for model in self._models.values())
            return models + sum(modules.nbytes for modules in self._modules.values())

    @torch.no_grad()
    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors of a padded batch: see :meth:`BatchedEngine.run`."""
        output = torch.zeros(*ids.shape, self._base.config.hidden_size, dtype=self._base.dtype)
        for code in dict.fromkeys(languages):
            members = torch.tensor([row for row, other in enumerate(languages) if other == code])
            request = self._model(code, align).compiled.create_infer_request()
            for bucket in buckets(ids[members], mask[members], [0] * len(members)):
                rows = members if bucket.rows is None else members[bucket.rows]
                found = request.infer(self._inputs(bucket, code), share_inputs=True)[0]
                output[rows, : bucket.ids.shape[1]] = torch.from_numpy(found).to(output.dtype)
        return output.masked_fill_(mask[..., None] == 0, 0.0)

    def _model(self, code: str, align: bool) -> _Model:
        with self._lock:
            key = (code, align and code != BASE and bool(self._modules[code].parallel))
            self._models[key] = self._models.pop(key) if key in self._models else self._make(*key)
            return self._models[key]

    # Weights made in inference mode could never be traced.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _make(self, code: str, align: bool) -> _Model:
        body, tokenizer = self._base, None
        if code != BASE:
            body = compose(self._base, self._modules[code], align=align)
            tokenizer = self._modules[code].tokenizer
        file = int8_file(body, tokenizer or self._base_tokenizer(), code)
        return _Model(compiled(file), file.with_suffix(".bin").stat().st_size)

    def _inputs(self, bucket: Bucket, code: str) -> list[Any]:
        """What the models take: see :func:`int8_file`."""
        table = None if code == BASE else self._modules[code].embeddings
        words = self._base.get_input_embeddings().weight if table is None else table
        x = embed(self._base, functional.embedding(bucket.ids, words), bucket.ids)
        real = torch.ones(bucket.ids.shape)
        if bucket.mask is not None:
            real = (bucket.mask.view(bucket.ids.shape) == 0).float()
        return [x.float().numpy(), real.numpy()]
