r"""A decoder whose only input is one sentence vector: a Transformer without cross-attention.

It makes an encoder put all of a sentence into its vector, and is thrown away after training. With target
pieces y_1 … y_L, embeddings E, positions P, a start symbol y_0 and the vector c (the condition), it computes
the scores l_t of y_t from y_0 … y_{t-1}:

    ``input``  (MuSR, section 3.1):    h⁰_t = W [E(y_{t-1}); c] + P_t,   hⁿ = Layer_n(hⁿ⁻¹)
    ``layers`` (VMSST, section 5):     h⁰_t = E(y_{t-1}) + P_t,          hⁿ = Layer_n(hⁿ⁻¹ + W_n c)

Scores are ``E h_t`` (tied), and for ``layers`` ``W [h_t; c]``, or factored ``E V [h_t; c]`` (VMSST, A.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from modenc.recipe.settings import DecoderSettings

IGNORED = -100
"""Padding of targets, which the libraries' cross-entropies ignore."""


def scale_to_sqrt_dim(vectors: Tensor) -> Tensor:
    """Scale sentence vectors [..., hidden] to length √hidden, the usual scale of a network's inputs."""
    scaled: Tensor = nn.functional.normalize(vectors, dim=-1) * vectors.shape[-1] ** 0.5
    return scaled


class TargetTexts:
    """Target texts of a decoder: rows of numbers of pieces, each with an end.

    Args:
        texts: the texts; the row of a text is its position.
        tokenizer: tokenizes them, without prompt and special tokens.
        max_length: pieces at which a text is cut, the end not counted.
        max_pieces: how many pieces are kept, the most frequent; others become the unknown one (0: all).
    """

    def __init__(
        self, texts: Sequence[str], tokenizer: PreTrainedTokenizerFast, max_length: int, max_pieces: int
    ) -> None:
        encoded: list[list[int]] = tokenizer(
            list(texts), add_special_tokens=False, truncation=True, max_length=max_length
        )["input_ids"]
        counts = Counter(chain.from_iterable(encoded))
        special = [tokenizer.eos_token_id or tokenizer.sep_token_id, tokenizer.unk_token_id]
        for piece in special:
            counts.pop(piece, None)
        most = max(max_pieces - len(special), 0) if max_pieces else None
        kept = [piece for piece, _ in counts.most_common(most)]
        self.pieces = torch.tensor([*special, *kept])
        """The pieces' ids in the tokenizer's vocabulary [pieces]; first the end, then the unknown one."""
        number = {piece: position for position, piece in enumerate(self.pieces.tolist())}
        self._rows = [torch.tensor([*(number.get(piece, 1) for piece in ids), 0]) for ids in encoded]

    def batch(self, rows: Tensor) -> Tensor:
        """Return the texts in ``rows`` [batch] as numbers [batch, length], ``IGNORED`` past their ends."""
        chosen = [self._rows[row] for row in rows.tolist()]
        return nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=IGNORED)

    def ids(self, targets: Tensor) -> Tensor:
        """Convert numbers [batch, length] to ids in the tokenizer's vocabulary; ignored ones to the end."""
        return self.pieces.to(targets.device)[targets.clamp(min=0)]


def transformer_layers(hidden: int, size: DecoderSettings) -> nn.ModuleList:
    """Make the layers of a small Transformer: pre-norm, with GELU; with a causal mask a decoder's."""
    inner = hidden * size.inner_factor
    return nn.ModuleList(
        nn.TransformerEncoderLayer(
            hidden, size.heads, inner, size.dropout, "gelu", batch_first=True, norm_first=True
        )
        for _ in range(size.layers)
    )


class VectorDecoder(nn.Module):
    """The decoder above.

    Args:
        embeddings: initial E, a row for each target piece [pieces, hidden].
        condition_size: length of the condition.
        size: the decoder's size.
        injection: where the condition is added.
        starts: number of start symbols: one, or one for each language.
        factored: for ``layers``, whether the scores' projection is factored.
    """

    def __init__(
        self,
        embeddings: Tensor,
        condition_size: int,
        size: DecoderSettings,
        *,
        injection: Literal["input", "layers"],
        starts: int = 1,
        factored: bool = False,
    ) -> None:
        super().__init__()
        pieces, hidden = embeddings.shape
        self.injection = injection
        self.embed = nn.Embedding(pieces, hidden, _weight=embeddings.clone().float())
        self.start = nn.Parameter(torch.randn(starts, hidden) * embeddings.std())
        self.position = nn.Parameter(torch.randn(size.max_length + 1, hidden) * embeddings.std())
        self.layers = transformer_layers(hidden, size)
        self.norm = nn.LayerNorm(hidden)
        if injection == "input":
            self.join = nn.Linear(hidden + condition_size, hidden)
        else:
            self.condition = nn.ModuleList(nn.Linear(condition_size, hidden) for _ in range(size.layers))
            self.project = nn.Linear(hidden + condition_size, hidden if factored else pieces)
            # At first these are the tied scores, which do not depend on the condition.
            with torch.no_grad():
                self.project.weight.zero_()
                self.project.weight[:, :hidden] = torch.eye(hidden) if factored else embeddings
        self.tied = injection == "input" or factored
        self.bias = nn.Parameter(torch.zeros(pieces)) if self.tied else None

    def forward(self, condition: Tensor, targets: Tensor, start: Tensor | None = None) -> Tensor:
        """Compute the scores [batch, length, pieces] of each target piece.

        Args:
            condition: vectors [batch, condition_size].
            targets: piece numbers [batch, length], ``IGNORED`` past the end.
            start: start symbol of each row [batch]; the first by default.
        """
        length = targets.shape[1]
        first = self.start[torch.zeros_like(targets[:, 0]) if start is None else start]
        written = self.embed(targets[:, :-1].clamp(min=0))
        inputs = torch.cat([first[:, None], written], dim=1)
        if self.injection == "input":
            inputs = self.join(torch.cat([inputs, condition[:, None].expand(-1, length, -1)], dim=-1))
        state = inputs + self.position[:length]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=state.device)
        for number, layer in enumerate(self.layers):
            if self.injection == "layers":
                state = state + self.condition[number](condition)[:, None]
            state = layer(state, src_mask=causal, is_causal=True)
        state = self.norm(state)
        if self.injection == "layers":
            state = torch.cat([state, condition[:, None].expand(-1, length, -1)], dim=-1)
            state = self.project(state)
        return nn.functional.linear(state, self.embed.weight, self.bias) if self.tied else state


def sequence_nll(scores: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Compute the negative log-likelihood of each row [batch], summed over its pieces."""
    losses = nn.functional.cross_entropy(
        scores.float().flatten(0, 1),
        targets.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="none",
    )
    return losses.view(targets.shape).sum(dim=1)


def pieces_in(targets: Tensor) -> Tensor:
    """Count the pieces of the targets [batch, length], ends included."""
    return (targets != IGNORED).sum()
