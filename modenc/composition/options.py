"""Settings of an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from modenc.composition.kernels import Precision, has_bf16
from modenc.errors import OptionError
from modenc.langid import LanguageIdentifier

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
        if not 0.0 <= self.min_confidence <= 1.0:
            raise OptionError(f"min_confidence: expected 0 to 1, found {self.min_confidence!r:.60}")
        if self.compute not in COMPUTE:
            raise OptionError(f"compute: expected {', '.join(COMPUTE)}, found {self.compute!r}")

    def precision(self, device: torch.device) -> Precision:
        """Return the precision to compute in on ``device``."""
        return "bf16" if self.compute == "bf16" or (self.compute == "auto" and has_bf16(device)) else "fp32"


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
