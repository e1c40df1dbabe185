"""Warnings that point at a line of the user's code."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

# Packages between the user's call and the warning; torch's decorators have frames, too.
_INSIDE = frozenset({"modenc", "sentence_transformers", "torch"})


def warn_user(message: str | Warning) -> None:
    """Warn at the innermost line on the call stack outside modenc and the libraries that call it.

    ``stacklevel`` would count frames, of which Python 3.12 has fewer: comprehensions have none there. A text
    becomes a ``UserWarning``.
    """
    outermost: FrameType = sys._getframe(1)
    frame: FrameType | None = outermost
    while frame is not None and _module(frame).partition(".")[0] in _INSIDE:
        outermost, frame = frame, frame.f_back
    frame = frame or outermost
    warnings.warn_explicit(
        UserWarning(message) if isinstance(message, str) else message,
        UserWarning,  # ignored if the message is a warning, which has its own class
        frame.f_code.co_filename,
        frame.f_lineno,
        module=_module(frame) or None,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "")
