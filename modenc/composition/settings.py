"""How an encoder computes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch

from modenc.composition.int8 import PACKAGES
from modenc.composition.kernels import Precision
from modenc.errors import OptionError
from modenc.extras import require_extra
from modenc.hardware import has_bf16

MOST = 2**31 - 1
"""What libraries below take for a whole number."""
COMPUTE = ("fp32", "bf16", "int8", "auto")
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMG]B)?", re.IGNORECASE)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class ComputeSettings:
    """How vectors are computed.

    Raises:
        OptionError: a value is none of those named here.
        MissingExtraError: what ``int8`` needs is not installed.
    """

    compute: str = "fp32"
    """``fp32`` (the type of the base's weights), ``bf16``, ``int8`` (on CPUs, by OpenVINO), or ``auto``: bf16
    where the device has it in hardware, else fp32."""
    max_memory: int | str | None = None
    """Bytes, or a text such as ``2GB``, that all languages may take, the base's own weights not counted;
    ``None``: no limit. A batch of more languages than fit takes what it needs, and gives it back."""
    verify: str = "full"
    """What is checked of a language before it is used: ``full``, or ``sizes``: all but the checksums."""

    def __post_init__(self) -> None:
        if self.compute not in COMPUTE:
            raise OptionError(f"compute: expected {', '.join(COMPUTE)}, found {self.compute!r}")
        if self.verify not in ("full", "sizes"):
            raise OptionError(f"verify: expected full or sizes, found {self.verify!r}")
        if self.compute == "int8":
            require_extra("int8", *PACKAGES)
        _ = self.memory_limit

    @property
    def memory_limit(self) -> int | None:
        """:attr:`max_memory` in bytes."""
        if self.max_memory is None:
            return None
        match = _BYTES.fullmatch(str(self.max_memory).strip())
        if match is None:
            raise OptionError(
                "max_memory: expected bytes, or a text such as '500MB' or '2GB', "
                f"found {self.max_memory!r:.60}"
            )
        return int(float(match[1]) * _UNITS[(match[2] or "").upper()])

    def precision(self, device: torch.device) -> Precision:
        """What to compute in on ``device``."""
        return "bf16" if self.compute == "bf16" or (self.compute == "auto" and has_bf16(device)) else "fp32"


def whole(value: Any, name: str, most: int = MOST) -> int:
    """An option that has to be a whole number from 1 to ``most``.

    Raises:
        OptionError: it is something else.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else 0
    if not 1 <= number <= most:
        raise OptionError(f"{name}: expected a whole number from 1 to {most}, found {value!r:.60}")
    return number


def prompt_text(prompt: Any) -> str:
    """A prompt; ``None`` is none.

    Raises:
        OptionError: it is no text.
    """
    if not (prompt is None or isinstance(prompt, str)):
        raise OptionError(f"prompt: expected a text, found {prompt!r:.60}")
    return prompt or ""
