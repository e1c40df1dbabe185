"""How an encoder computes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from modenc.composition.int8 import PACKAGES
from modenc.composition.kernels import Precision
from modenc.errors import BaseModelError, HubError
from modenc.extras import require_extra
from modenc.hardware import has_bf16

COMPUTE = ("fp32", "bf16", "int8", "auto")
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class ComputeSettings:
    """How vectors are computed.

    Raises:
        BaseModelError: a value is none of those named here.
        HubError: the same, of ``verify``.
        MissingExtraError: what ``int8`` needs is not installed.
    """

    compute: str = "fp32"
    """``fp32`` (the type of the base's weights), ``bf16``, ``int8`` (on CPUs, by OpenVINO), or ``auto``: bf16
    where the device has it in hardware, else fp32."""
    max_memory: int | str | None = None
    """Bytes, or a text such as ``2GB``, that all languages may take, the base's own weights not counted;
    ``None``: no limit. A batch of more languages than fit takes what it needs, and gives it back."""
    verify: str = "full"
    """What is checked of a language before it is used: ``full``: every checksum; ``sizes``: sizes and headers
    alone, for a hub on a slow disk that nobody else writes to."""

    def __post_init__(self) -> None:
        if self.compute not in COMPUTE:
            raise BaseModelError(f"compute: expected {', '.join(COMPUTE)}, found {self.compute!r}")
        if self.verify not in ("full", "sizes"):
            raise HubError(f"verify: expected full or sizes, found {self.verify!r}")
        if self.compute == "int8":
            require_extra("int8", *PACKAGES)
        _ = self.memory_limit

    @property
    def memory_limit(self) -> int | None:
        """:attr:`max_memory` in bytes."""
        if self.max_memory is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)?", str(self.max_memory).strip(), re.IGNORECASE)
        if match is None:
            raise BaseModelError(
                f"max_memory: expected bytes, or a text such as '500MB' or '2GB', found {self.max_memory!r}"
            )
        return int(float(match[1]) * _UNITS[(match[2] or "").upper()])

    def precision(self, device: torch.device) -> Precision:
        """What to compute in on ``device``."""
        return "bf16" if self.compute == "bf16" or (self.compute == "auto" and has_bf16(device)) else "fp32"
