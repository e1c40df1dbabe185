"""Inference with a frozen body of the BERT family: layers with the norm after each residual.

``x = norm(x + Attention(x))``, then ``x = norm(x + FFN(x) + Up(relu(Down(x))))``. A language's
adapters are merged into the weights, or :class:`Bucket` adds them to their products.

A batch is split into buckets of rows of similar length, so that little is computed for padding. oneDNN
compiles kernels for each new number of tokens, which costs milliseconds and megabytes: bucket sizes are
rounded up to few different numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

QUERY, KEY, VALUE = (f"attention.self.{part}" for part in ("query", "key", "value"))
ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT = "attention.output.dense", "intermediate.dense", "output.dense"
LINEAR_LAYERS = (QUERY, KEY, VALUE, ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT)
"""Linear layers in a layer of the body that a LoRA can change."""
COMPUTE = ("fp32", "bf16", "auto")
Precision = Literal["fp32", "bf16"]
Activation = Literal["none", "relu", "gelu"]
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
}
# oneDNN packs weights for a number of rows; other numbers work as well.
_TYPICAL_ROWS = 1024
_DOWN, _UP = "down", "up"
_SCORES_AT_A_TIME = 400_000
# One more bucket costs about as much time as this many tokens.
_TOKENS_A_BUCKET = 100
# There are 2 ** this sizes between a number of tokens and its double.
_SIZE_BITS = 3
_LEAST_STEP = 8


@dataclass(frozen=True)
class Layer:
    """Weights of one layer, packed for the kernels."""

    dense: dict[str, Dense]
    """Name → linear layer; includes the parallel adapter's, if there is one."""
    attention_norm: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]


class Bert:
    """A frozen body of the BERT family, for inference.

    Args:
        body: the model; its embeddings are used in place.
        precision: type to compute the layers in; the embedding layer and the output keep the body's type.
    """

    def __init__(self, body: PreTrainedModel, precision: Precision) -> None:
        config: Any = body.config
        self._body = body
        self._precision = precision
        self._heads: int = config.num_attention_heads
        self._epsilon: float = config.layer_norm_eps
        activation = config.hidden_act
        self._fused = activation if activation in ("gelu", "relu") else None
        self._activation: Callable[[Tensor], Tensor] = ACT2FN[activation]
        own: torch.dtype = body.dtype
        self.dtype = torch.bfloat16 if precision == "bf16" else own
        """Type of the hidden states between the layers."""

    # Weights made in inference mode could not be moved to another device.
    @torch.inference_mode(False)
    @torch.no_grad()
    def merged_layers(self, adapters: BankMatrices) -> list[Layer]:
        """Make layers with one slot's adapters merged into the weights."""
        return [self._layer(number, layer, adapters) for number, layer in enumerate(self._body.encoder.layer)]

    def run(self, words: Tensor, bucket: Bucket, layers: list[Layer], adapters: BankMatrices) -> Tensor:
        """Compute the token vectors of a bucket.

        Args:
            words: [rows, length, hidden], word embeddings.
            bucket: the rows.
            layers: weights, from :meth:`merged_layers`.
            adapters: adapters to add, of all slots; empty kinds are merged or left out.

        Returns:
            [rows, length, hidden], meaningless at padding.
        """
        embeddings: Any = self._body.embeddings
        numbers = position_ids(self._body, bucket.ids)
        positions = functional.embedding(numbers, embeddings.position_embeddings.weight)
        x: Tensor = embeddings.LayerNorm(words + positions + embeddings.token_type_embeddings.weight[0])
        before = x.dtype
        x = x.to(self.dtype).flatten(0, 1)
        if layers[0].dense[QUERY].wants_few_sizes:
            x = functional.pad(x, (0, 0, 0, bucket.size - len(x)))
        for number, layer in enumerate(layers):
            dense, hidden = layer.dense, x.shape[1:]
            lora = {name: adapters.lora.get((number, name)) for name in LINEAR_LAYERS}
            query, key, value = (
                bucket.add_lora(lora[name], dense[name](x), x) for name in (QUERY, KEY, VALUE)
            )
            context = _attention(query, key, value, bucket, self._heads)
            y = dense[ATTENTION_OUTPUT](context, residual=x)
            y = bucket.add_lora(lora[ATTENTION_OUTPUT], y, context)
            x = functional.layer_norm(y, hidden, *layer.attention_norm, self._epsilon)
            if self._fused is not None and lora[INTERMEDIATE] is None:
                inner = dense[INTERMEDIATE](x, activation=self._fused)
            else:
                y = bucket.add_lora(lora[INTERMEDIATE], dense[INTERMEDIATE](x), x)
                inner = self._activation(y)
            y = dense[OUTPUT](inner, residual=x)
            if _DOWN in dense:
                y = dense[_UP](dense[_DOWN](x, activation="relu"), residual=y)
            y = bucket.add_lora(lora[OUTPUT], y, inner)
            y = bucket.add_parallel_adapter(adapters.parallel_adapters.get(number), y, x)
            x = functional.layer_norm(y, hidden, *layer.norm, self._epsilon)
        final: Tensor = bucket.in_rows(x).to(before)
        return final

    def _layer(self, number: int, layer: nn.Module, adapters: BankMatrices) -> Layer:
        def merged(name: str) -> Dense:
            linear: Any = layer.get_submodule(name)
            weight = linear.weight.detach()
            if (number, name) in adapters.lora:
                a, b = adapters.lora[number, name]
                weight = weight + (b.T.float() @ a.float()).to(weight)
            return make_dense(weight, linear.bias.detach(), self._precision)

        def norm(name: str) -> tuple[Tensor, Tensor]:
            layer_norm: Any = layer.get_submodule(name)
            return layer_norm.weight.detach().to(self.dtype), layer_norm.bias.detach().to(self.dtype)

        dense = {name: merged(name) for name in LINEAR_LAYERS}
        if number in adapters.parallel_adapters:
            # Views would keep the bank's present matrices in memory.
            down, down_bias, up, up_bias = (
                matrix.to(self._body.dtype, copy=True) for matrix in adapters.parallel_adapters[number]
            )
            dense[_DOWN] = make_dense(down, down_bias, self._precision)
            dense[_UP] = make_dense(up.T, up_bias, self._precision)
        return Layer(dense, norm("attention.output.LayerNorm"), norm("output.LayerNorm"))


def position_ids(body: PreTrainedModel, ids: Tensor) -> Tensor:
    """Compute the positions of tokens as a body of the BERT family counts them.

    Args:
        body: the model.
        ids: [rows, length], token ids, padded on the right.

    Returns:
        [length] for BERT; [rows, length] for RoBERTa-like bodies, which count from the padding id and skip
        padding tokens, those inside a text as well.
    """
    config: Any = body.config
    if config.model_type == "bert":
        return torch.arange(ids.shape[1], device=ids.device)
    real = ids.ne(config.pad_token_id)
    return real.cumsum(dim=1) * real + int(config.pad_token_id)


def _attention(query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """Return the attention's output; arguments and result are [tokens, hidden]."""
    output = torch.empty_like(query)
    output[bucket.ids.numel() :] = 0
    split = (*bucket.ids.shape, heads, -1)
    query, key, value, context = (
        bucket.in_rows(tensor).view(split).transpose(1, 2) for tensor in (query, key, value, output)
    )
    mask = bucket.mask
    if query.device.type != "cpu":
        mask = None if mask is None else mask.to(query.dtype)
        context.copy_(functional.scaled_dot_product_attention(query, key, value, attn_mask=mask))
        return output
    # On CPUs plain products are faster than the fused operator at every length, a few rows at a time, so that
    # scores stay in the cache.
    rows, _, width, size = query.shape
    chunk = max(1, _SCORES_AT_A_TIME // (heads * width * width))
    for start in range(0, rows, chunk):
        block = slice(start, start + chunk)
        scores = torch.matmul(query[block], key[block].transpose(-1, -2))
        scores = scores if scores.dtype == torch.float64 else scores.float()
        scores = scores.mul_(size**-0.5) if mask is None else torch.add(mask[block], scores, alpha=size**-0.5)
        context[block] = torch.matmul(scores.softmax(dim=-1).to(value.dtype), value[block])
    return output


def make_dense(weight: Tensor, bias: Tensor, precision: Precision) -> Dense:
    """Make the fastest layer for ``weight`` [out, in] and ``bias`` [out], both detached."""
    if precision == "bf16":
        weight, bias = weight.bfloat16(), bias.bfloat16()
    if weight.device.type != "cpu" or not onednn_works(weight.dtype):
        return TorchDense(weight, bias)
    if weight.dtype == torch.float32 and torch_is_faster():
        return TorchDense(weight, bias)
    return OneDnnDense(weight, bias)


class TorchDense:
    """Dense layer by torch's ``linear``, for any device and type."""

    wants_few_sizes = False
    """Whether each new number of tokens costs time and memory."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """Return ``activation(x W^T + b) + residual`` for x [tokens, in]; give only one of the two."""
        y: Tensor = _ACTIVATIONS[activation](functional.linear(x, self._weight, self._bias))
        return y if residual is None else y.add_(residual)


class OneDnnDense:
    """Dense layer by oneDNN with packed weights, on CPUs, in float32 or bfloat16."""

    wants_few_sizes = True

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._bias = bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """Compute the layer; see :class:`TorchDense`."""
        if residual is not None:
            added: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                x, residual, self._packed, self._bias, "add"
            )
            return added
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, activation, [], "none")
        return y


Dense = TorchDense | OneDnnDense


def torch_is_faster() -> bool:
    """Check whether torch's ``linear`` is at least as fast in float32 as oneDNN: on CPUs without AVX-512.

    There torch's default library (MKL) needs a tenth less time on its path for Intel's processors and no more
    on AMD's; with AVX-512 oneDNN is twice as fast (``benchmarks/performance_findings.md``). Processors other
    than these were not measured.
    """
    return "AVX512" not in torch.backends.cpu.get_cpu_capability()


@cache
def onednn_works(dtype: torch.dtype) -> bool:
    """Check whether torch has oneDNN's operators, and they compute the same as ``linear``."""
    if dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight, bias, residual = (
        torch.rand(shape, generator=generator).to(dtype) for shape in ((8, 32), (16, 32), (16,), (8, 16))
    )
    try:
        with torch.inference_mode():
            layer, reference = OneDnnDense(weight, bias), TorchDense(weight, bias)
            pairs = [(layer(x, activation), reference(x, activation)) for activation in _ACTIVATIONS]
            pairs.append((layer(x, residual=residual), reference(x, residual=residual)))
    except (AttributeError, RuntimeError):
        return False
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    return all(torch.allclose(found.float(), right.float(), atol=tolerance) for found, right in pairs)


def choose_precision(compute: str, device: torch.device) -> Precision:
    """Return the precision for ``fp32``, ``bf16``, or ``auto``: bf16 if the device has it in hardware."""
    return "bf16" if compute == "bf16" or (compute == "auto" and has_bf16(device)) else "fp32"


def has_bf16(device: torch.device) -> bool:
    """Check whether ``device`` multiplies bfloat16 matrices in hardware (otherwise it is slower than fp32).

    A CPU that ``ONEDNN_MAX_CPU_ISA`` limits to older instructions does not.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    found = device.type == "cpu" and any(getattr(torch.cpu, check, lambda: False)() for check in checks)
    # Absent if torch was built without oneDNN.
    allowed = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    return found and bool(allowed())


@dataclass(frozen=True)
class Bucket:
    """Rows of a batch, sorted by slot and padded to the longest."""

    rows: Tensor | None
    """[rows]: positions in the batch; ``None``: the whole batch, in order."""
    ids: Tensor
    """[rows, width]"""
    mask: Tensor | None
    """[rows, 1, 1, width] to add to attention scores, -inf at padding; ``None`` without padding."""
    slots: Tensor
    """[rows]: slots of the rows' languages in the adapter bank, ascending."""
    tokens: int
    """Number of tokens without padding."""

    @property
    def size(self) -> int:
        """Number of tokens to compute with in oneDNN, padding included, rounded up."""
        return round_up_tokens(self.ids.numel())

    def in_rows(self, x: Tensor) -> Tensor:
        """View x [tokens, ·] as [rows, width, ·], without the tokens that :attr:`size` adds at the end."""
        rows, width = self.ids.shape
        return x[: rows * width].view(rows, width, -1)

    @cached_property
    def spans(self) -> list[tuple[int, int, int]]:
        """Slot, first row and end row of each run of rows with the same slot."""
        slots, counts = torch.unique_consecutive(self.slots, return_counts=True)
        ends = counts.cumsum(0).tolist()
        return list(zip(slots.tolist(), [0, *ends], ends, strict=False))

    def add_lora(self, lora: Sequence[Tensor] | None, y: Tensor, x: Tensor) -> Tensor:
        """Add ``B A x`` to y [tokens, ·] in place, each row with the matrices of its slot."""
        if lora is not None:
            a, b = (matrix.index_select(0, self.slots) for matrix in lora)
            self.in_rows(y).baddbmm_(torch.bmm(self.in_rows(x), a.transpose(1, 2)), b)
        return y

    def add_parallel_adapter(self, adapter: Sequence[Tensor] | None, y: Tensor, x: Tensor) -> Tensor:
        """Add ``Up(relu(Down(x)))`` to y [tokens, ·] in place, each row with its slot's matrices.

        One language after another: a copy of these matrices for each row takes longer than their products.
        """
        if adapter is None:
            return y
        width = self.ids.shape[1]
        for slot, first, end in self.spans:
            down, down_bias, up, up_bias = (matrix[slot] for matrix in adapter)
            tokens = slice(first * width, end * width)
            inner = torch.addmm(down_bias, x[tokens], down.T).relu_()
            y[tokens].addmm_(inner, up).add_(up_bias)
        return y


Matrices = dict[Any, tuple[Tensor, ...]]


class BankMatrices(NamedTuple):
    """Stacked matrices of all slots; those of one slot lack the first dimension. Never resized in place."""

    lora: Matrices
    """(Layer number, name of the linear layer) → A [slots, rank, in] and B [slots, rank, out]."""
    parallel_adapters: Matrices
    """Layer number → down [slots, bottleneck, hidden], its bias, up [slots, bottleneck, hidden], its bias."""


def round_up_tokens(tokens: int) -> int:
    """Round up to one of few numbers: a multiple of 8, and above 64 at most an eighth more."""
    step = max(_LEAST_STEP, 1 << max(0, tokens.bit_length() - 1 - _SIZE_BITS))
    return -(-tokens // step) * step


def split_batch(ids: Tensor, mask: Tensor, slots: Sequence[int]) -> list[Bucket]:
    """Split a padded batch into buckets.

    Args:
        ids: [rows, length], padded on the right.
        mask: [rows, length], 1 where there is a token; at least one in every row.
        slots: slot of each row's language in the adapter bank.
    """
    lengths = mask.sum(dim=1).tolist()
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    ends = _cut([lengths[row] for row in order])
    buckets = []
    for start, end in zip([0, *ends], ends, strict=False):
        members = sorted(order[start:end], key=lambda row: (slots[row], row))
        width = lengths[order[end - 1]]
        rows = None if members == list(range(len(lengths))) else torch.tensor(members, device=ids.device)
        own = torch.tensor([lengths[row] for row in members])
        empty = torch.arange(width) >= own[:, None]
        scores = torch.zeros(empty.shape).masked_fill_(empty, -inf)[:, None, None]
        bucket = Bucket(
            rows=rows,
            ids=(ids if rows is None else ids[rows])[:, :width],
            mask=scores.to(ids.device) if empty.any() else None,
            slots=torch.tensor([slots[row] for row in members], device=ids.device),
            tokens=int(own.sum()),
        )
        buckets.append(bucket)
    return buckets


def _cut(lengths: list[int]) -> list[int]:
    """Return the end row of each bucket, for ascending lengths and the least total cost."""
    starts = [row for row, length in enumerate(lengths) if row == 0 or length != lengths[row - 1]]
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for end in [*starts[1:], len(lengths)]:
        width = lengths[end - 1]
        cost, start = min((best[start][0] + round_up_tokens((end - start) * width), start) for start in best)
        best[end] = (cost + _TOKENS_A_BUCKET, [*best[start][1], end])
    return best[len(lengths)][1]
