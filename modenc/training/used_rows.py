"""While a whole model trains: a table of embeddings that has only the rows that its texts use.

A multilingual base has 250,000 pieces, three languages' texts use 15,000. The others get no gradient, but a
dense gradient, its norm and the optimizer's state are as large as the table, at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

_TEXTS_A_CALL = 10_000


class UsedRows(nn.Embedding):
    """Trainable rows of some of a table's pieces; those of the others are as in the table, and frozen.

    Takes the table's own piece ids [...], returns their embeddings [..., hidden].

    Args:
        table: the whole table; not changed.
        pieces: ids of the pieces whose rows train, each once, the padding's among them [pieces].
    """

    rows: Tensor
    """Row of each of the table's pieces; -1: frozen [vocabulary]."""

    def __init__(self, table: nn.Embedding, pieces: Tensor) -> None:
        whole = table.weight.detach()
        rows = torch.full((table.num_embeddings,), -1)
        rows[pieces] = torch.arange(len(pieces))
        padding = None if table.padding_idx is None else int(rows[table.padding_idx])
        super().__init__(len(pieces), table.embedding_dim, padding, _weight=whole[pieces.to(whole.device)])
        self.register_buffer("rows", rows.to(whole.device), persistent=False)
        # No buffer: processes that train together send each other those at every step.
        self._whole = [whole]

    def forward(self, ids: Tensor) -> Tensor:
        """Piece ids [...] → embeddings [..., hidden]."""
        rows = self.rows[ids]
        unused = rows < 0
        embedded: Tensor = super().forward(rows.clamp(min=0))
        if not unused.any():
            return embedded
        whole = self._whole[0]
        return torch.where(unused[..., None], whole[ids.to(whole.device)].to(embedded), embedded)


@contextmanager
def used_rows(
    body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]
) -> Iterator[None]:
    """Train ``body``'s embeddings of the pieces of ``texts`` alone; afterwards they are in its table.

    Args:
        body: its table is replaced in the meantime.
        tokenizer: the body's.
        texts: all that the training reads.
    """
    table: nn.Embedding = body.get_input_embeddings()  # type: ignore[assignment]
    pieces = _pieces(tokenizer, texts)
    small = UsedRows(table, pieces)
    body.set_input_embeddings(small)
    try:
        yield
    finally:
        with torch.no_grad():
            table.weight[pieces] = small.weight.to(table.weight)
        body.set_input_embeddings(table.to(small.weight.device))


def _pieces(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Tensor:
    """Ids of all pieces of ``texts`` and of the special ones, sorted [pieces]."""
    found = set(tokenizer.all_special_ids)
    distinct = sorted(set(texts))
    for start in range(0, len(distinct), _TEXTS_A_CALL):
        found.update(*tokenizer(distinct[start : start + _TEXTS_A_CALL], verbose=False)["input_ids"])
    return torch.tensor(sorted(found))
