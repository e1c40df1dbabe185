"""What a server takes, and how it forms batches."""

from __future__ import annotations

from dataclasses import dataclass

from modenc.errors import OptionError

MAX_COMPARED = 100
"""Most texts of a comparison: its answer grows with their square."""


@dataclass(frozen=True)
class ServeSettings:
    """Limits of a server.

    Raises:
        OptionError: the queue has no room for the largest request, or a key is no ASCII text.
    """

    name: str
    """What requests call the hub in ``model``."""
    batch_size: int = 64
    """Most texts in a forward pass; they may come from many requests and be in many languages."""
    window: float = 0.002
    """Seconds that the first text of a batch waits for others while the encoder is idle."""
    max_waiting: int = 4096
    """Most texts that wait; with more, requests are refused (429)."""
    max_texts: int = 2048
    """Most texts of a request."""
    max_characters: int = 100_000
    """Most characters of a text; those beyond the hub's limit of tokens are cut."""
    max_body: int = 8_000_000
    """Most bytes of a request."""
    keys: tuple[str, ...] = ()
    """API keys of which a request must have one; none: every request is served."""

    def __post_init__(self) -> None:
        if self.max_waiting < self.max_texts:
            raise OptionError(
                f"--max-waiting: expected at least --max-texts ({self.max_texts}), found {self.max_waiting}; "
                "a request of that many texts could never be taken"
            )
        if not all(key.isascii() and key.isprintable() and " " not in key for key in self.keys):
            raise OptionError(
                "MODENC_API_KEYS: expected printable ASCII keys without spaces, separated by commas, found "
                "other characters; HTTP headers take no others"
            )
