"""The two engines that run batches of texts, each row with its language's modules, and which one to take.

:class:`~modenc.composition.batched_engine.BatchedEngine` computes in floating point;
:class:`~modenc.composition.int8_engine.Int8Engine` in 8-bit integers, on CPUs. Both have the same methods,
and threads may share them.
"""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.batched_engine import BatchedEngine
from modenc.composition.int8_engine import Int8Engine
from modenc.composition.settings import ComputeSettings
from modenc.languages import BASE as BASE

Engine = BatchedEngine | Int8Engine


def make_engine(
    body: PreTrainedModel, settings: ComputeSettings, base_tokenizer: Callable[[], PreTrainedTokenizerFast]
) -> Engine:
    """The engine that the settings ask for.

    Args:
        body: the base, used in place.
        settings: what it computes in, and how much memory it may take.
        base_tokenizer: gives the base's tokenizer.

    Raises:
        BaseModelError: int8 is asked for, and the base is not on a CPU.
    """
    if settings.compute == "int8":
        return Int8Engine(body, base_tokenizer)
    return BatchedEngine(body, settings.precision(body.device), settings.memory_limit)
