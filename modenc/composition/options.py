"""Settings of an encoder, and checks of the options of its calls."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modenc.composition.kernels import Precision, has_bf16
from modenc.errors import OptionError
from modenc.langid import LanguageIdentifier

MOST = 2**31 - 1
"""Largest whole number that the libraries take."""
COMPUTE = ("fp32", "bf16", "auto")


@dataclass(frozen=True)
class EncoderSettings:
    """How an encoder chooses languages and computes vectors.

    Raises:
        OptionError: a value is invalid.
    """

    fallback: str | None = None
    """Modules for a language that has none: ``base``, ``error``, or another language's code; ``None``: see
    :attr:`~modenc.composition.routing.LanguageRouter.fallback`."""
    min_confidence: float = 0.0
    """Texts whose :attr:`~modenc.composition.routing.Routing.share` is less than this (0 to 1) go to the
    fallback."""
    identifier: LanguageIdentifier | str | Path | None = None
    """A language identifier, a fastText file, or ``None`` for py3langid."""
    compute: str = "fp32"
    """``fp32`` (the type of the base's weights), ``bf16``, or ``auto``: bf16 if the device has it in
    hardware, else fp32."""

    def __post_init__(self) -> None:
        least, identifier = self.min_confidence, self.identifier
        if not isinstance(least, Real) or not 0.0 <= float(least) <= 1.0:
            raise OptionError(f"min_confidence: expected 0 to 1, found {least!r:.60}")
        if not (identifier is None or isinstance(identifier, str | Path) or hasattr(identifier, "identify")):
            raise OptionError(
                "identifier: expected a fastText file, an object with a method identify, or None, "
                f"found {identifier!r:.60}"
            )
        if self.compute not in COMPUTE:
            raise OptionError(f"compute: expected {', '.join(COMPUTE)}, found {self.compute!r}")

    def precision(self, device: torch.device) -> Precision:
        """Return the precision to compute in on ``device``."""
        return "bf16" if self.compute == "bf16" or (self.compute == "auto" and has_bf16(device)) else "fp32"


def positive_int(value: Any, name: str, most: int = MOST) -> int:
    """Return an option's value as an int, from 1 to ``most``.

    Raises:
        OptionError: it is something else.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else 0
    if not 1 <= number <= most:
        raise OptionError(f"{name}: expected a whole number from 1 to {most}, found {value!r:.60}")
    return number


def check_device(device: str | torch.device | None) -> None:
    """Check that PyTorch can compute on a device; ``None`` is the best one there is.

    Raises:
        OptionError: it cannot.
    """
    try:
        torch.empty(0, device=device)
    # A PyTorch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OptionError(
            f"device: expected one that PyTorch has here, such as 'cpu', found {device!r:.60} ({reason:.200})"
        ) from error


def prompt_text(prompt: Any) -> str:
    """Return a prompt as text; ``None`` is the empty one.

    Raises:
        OptionError: it is no text.
    """
    if not (prompt is None or isinstance(prompt, str)):
        raise OptionError(f"prompt: expected a text, found {prompt!r:.60}")
    return prompt or ""


def refuse_training(encoder: nn.Module, _: Any) -> None:
    """Refuse to train an encoder without trainable parameters; a forward hook of ``encoder``.

    Raises:
        OptionError: the encoder is being trained, and all its parameters are frozen.
    """
    training = encoder.training and torch.is_grad_enabled()
    if training and not any(parameter.requires_grad for parameter in encoder.parameters()):
        raise OptionError(
            "an encoder is not trained as a whole: its modules are frozen. Train a language's modules by a "
            "recipe (modenc train, modenc.training.pipeline.train), or modules of your own behind it "
            "(SentenceTransformer(modules=[*encoder, Dense(...)]))"
        )
