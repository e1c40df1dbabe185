"""Settings of a server: limits, batches and keys."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from modenc.errors import OptionError

MAX_COMPARED = 100
"""Most texts of a comparison, since its response grows with their square."""


@dataclass(frozen=True)
class ServeSettings:
    """Limits of a server.

    Raises:
        OptionError: the queue has no room for the largest request.
    """

    name: str
    """Name of the hub, for ``model`` in requests."""
    batch_size: int = 64
    """Most texts in a forward pass; they may come from many requests and be in many languages."""
    window: float = 0.002
    """Seconds that the first text of a batch waits for others while the encoder is idle."""
    max_waiting: int = 4096
    """Most waiting texts; further requests are refused (429)."""
    max_texts: int = 2048
    """Most texts of a request."""
    max_characters: int = 100_000
    """Most characters of a text; those beyond the hub's limit of tokens are cut."""
    max_body: int = 8_000_000
    """Most bytes of a request."""
    key_digests: tuple[bytes, ...] = ()
    """:func:`digest` of each API key; a request must have one of the keys. Empty: every request is served."""

    def __post_init__(self) -> None:
        if self.max_waiting < self.max_texts:
            raise OptionError(
                f"--max-waiting: expected at least --max-texts ({self.max_texts}), found {self.max_waiting}; "
                "a request of that many texts could never be taken"
            )


def digest(key: str) -> bytes:
    """Hash an API key with SHA-256; the key itself is neither stored nor sent to other machines."""
    return sha256(key.encode()).digest()


def key_digests(keys: str) -> tuple[bytes, ...]:
    """Hash API keys that are separated by commas.

    Raises:
        OptionError: one is not printable ASCII text.
    """
    listed = [key for word in keys.split(",") if (key := word.strip())]
    if not all(key.isascii() and key.isprintable() and " " not in key for key in listed):
        raise OptionError(
            "MODENC_API_KEYS: expected printable ASCII keys without spaces, separated by commas, found "
            "other characters; HTTP headers take no others"
        )
    return tuple(map(digest, listed))
