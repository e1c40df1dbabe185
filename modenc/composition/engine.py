"""How a batch of one or many languages runs through the body: one language merged, or all in one pass.

*Merged*: a language's adapters are added to the base's weights once, and its texts cost what the base's do.
*Batched*: the base's weights serve all rows, and each language's adapters act beside them on its own rows.
A batch of several languages is batched; one language is merged as soon as it has had enough tokens for that
to pay; languages whose LA and SE are the same share the copy, and only their alignment acts beside it.
In 8-bit integers, and in bodies that are not built like BERT's, one language runs after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from modenc.composition.modules import LanguageModules
from modenc.languages import BASE as BASE


class Engine(Protocol):
    """Runs batches with the languages that were put into it; threads may share it."""

    def put(self, modules: LanguageModules) -> None:
        """Take in a language.

        Raises:
            HubError: its modules do not fit the body.
        """
        ...

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        ...

    def remove(self, code: str) -> None:
        """Forget a language that no batch is using."""
        ...

    def shrink(self, excess: int) -> None:
        """Free what languages have only for speed, the longest unused first, until ``excess`` bytes are."""
        ...

    def tidy(self) -> None:
        """Give all memory back that languages have left behind."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        ...

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors [rows, length, hidden], zero where there is no token.

        Args:
            ids: [rows, length], padded on the right.
            mask: [rows, length], 1 where there is a token.
            languages: a code a row, each put in before, or :data:`BASE`.
            align: apply the cross-lingual alignment adapters.
        """
        ...
