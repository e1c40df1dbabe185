"""A model for each language, run in turn: what engines share that never batch languages together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import RLock
from typing import Generic, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.body import check_fit
from modenc.composition.engine import BASE
from modenc.composition.modules import LanguageModules

Model = TypeVar("Model")


class SerialEngine(ABC, Generic[Model]):
    """An :class:`~modenc.composition.engine.Engine` but for what its subclasses say of their models.

    Args:
        body: the base.
    """

    def __init__(self, body: PreTrainedModel) -> None:
        self._base = body
        self._modules: dict[str, LanguageModules] = {}
        # By language and alignment; the longest unused first.
        self._models: dict[tuple[str, bool], Model] = {}
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Take in a language."""
        check_fit(self._base, modules)
        with self._lock:
            self._modules[modules.lang] = modules

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        return modules.nbytes

    def remove(self, code: str) -> None:
        """Forget a language that no batch is using."""
        with self._lock:
            del self._modules[code]
            for align in (False, True):
                self._models.pop((code, align), None)

    @abstractmethod
    def shrink(self, excess: int) -> None:
        """Free models, which are made again when they are needed, until ``excess`` bytes are free."""

    def tidy(self) -> None:
        """Nothing is ever left behind."""

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            return self._models_nbytes() + sum(modules.nbytes for modules in self._modules.values())

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors of a padded batch."""
        output: Tensor | None = None
        for code in dict.fromkeys(languages):
            members = torch.tensor([row for row, other in enumerate(languages) if other == code])
            members = members.to(ids.device)
            length = int(mask[members].sum(dim=1).max())
            model = self._model(code, align)
            hidden = self._vectors(model, code, ids[members, :length], mask[members, :length])
            if output is None:
                output = hidden.new_zeros((*ids.shape, hidden.shape[-1]))
            output[members, :length] = hidden
        assert output is not None
        return output.masked_fill_(mask[..., None] == 0, 0.0)

    def _model(self, code: str, align: bool) -> Model:
        with self._lock:
            key = (code, align and code != BASE and bool(self._modules[code].parallel))
            if key in self._models:
                self._models[key] = self._models.pop(key)
            else:
                # Weights made in inference mode could never be traced.
                with torch.inference_mode(False), torch.no_grad():
                    self._models[key] = self._make(*key)
            return self._models[key]

    @abstractmethod
    def _make(self, code: str, align: bool) -> Model:
        """The model of one language, or of the base."""

    @abstractmethod
    def _models_nbytes(self) -> int:
        """Bytes that all models take, beyond the body's own weights and the languages' modules."""

    @abstractmethod
    def _vectors(self, model: Model, code: str, ids: Tensor, mask: Tensor) -> Tensor:
        """Token vectors [rows, length, hidden] of rows of one language; for padding any."""
