"""JSON files that carry the checksum of their own text, so that no changed byte in one goes unseen.

The last key, ``seal``, is the SHA-256 of the whole text with zeros in its own place.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from modenc.errors import HubError

SEAL = "seal"
_BLANK = "0" * 64
_SEAL = re.compile("[0-9a-f]{64}")


def sealed_text(content: dict[str, Any]) -> str:
    """The text of a JSON object with its seal."""
    text = json.dumps({**content, SEAL: _BLANK}, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 reads as surrogates, which JSON has an escape for.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return _with(text, _BLANK, _digest(text))


def check_seal(text: str, seal: Any, where: str) -> None:
    """See that a text is the one that was sealed.

    Args:
        text: what :func:`sealed_text` gave.
        seal: the value of its key ``seal``.
        where: the file's name for the message.

    Raises:
        HubError: it is another.
    """
    if not isinstance(seal, str) or not _SEAL.fullmatch(seal):
        found = "no seal"
    else:
        found = _digest(_with(text, seal, _BLANK))
    if found != seal:
        raise HubError(
            f"{where}: expected the text that was sealed ({seal!r:.70}), found another ({found}): the file "
            "is damaged or was changed by hand; restore it, or install or train again"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _with(text: str, old: str, new: str) -> str:
    """``text`` with the last ``old`` replaced."""
    before, found, after = text.rpartition(old)
    return before + new + after if found else text
