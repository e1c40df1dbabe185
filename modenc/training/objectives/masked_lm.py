"""Masked language modeling (Devlin et al., 2019): predict masked tokens.

The head (dense, gelu, layer norm, decoder tied to the embeddings) exists only while training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast


class MaskedLMHead(nn.Module):
    """Head from token vectors of masked positions [n, hidden] to scores [n, vocabulary]."""

    def __init__(self, embeddings: nn.Embedding) -> None:
        super().__init__()
        hidden = embeddings.embedding_dim
        self.dense = nn.Linear(hidden, hidden)
        # The body was trained without this head, so the head begins close to the identity.
        nn.init.eye_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)
        self.norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(embeddings.num_embeddings))
        self._tied = [embeddings]

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute the scores of token vectors."""
        vectors = self.norm(nn.functional.gelu(self.dense(hidden)))
        return nn.functional.linear(vectors, self._tied[0].weight, self.bias)


class MaskedLM(nn.Module):
    """A body with a masked-LM head; the loss is computed on the masked positions only."""

    def __init__(
        self,
        body: nn.Module,
        embeddings: nn.Embedding,
        tokenizer: PreTrainedTokenizerFast,
        mask_probability: float,
    ) -> None:
        super().__init__()
        self.body = body
        self.head = MaskedLMHead(embeddings)
        self.collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=mask_probability)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Compute the mean cross-entropy where ``labels`` [batch, length] is not -100."""
        output = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        chosen = labels != -100
        if not chosen.any():
            return {"loss": output.sum() * 0.0}
        return {"loss": nn.functional.cross_entropy(self.head(output[chosen]), labels[chosen])}

    def loss_of(self, features: dict[str, Tensor]) -> Tensor:
        """Mask a batch of whole sentences and compute its loss."""
        ids, device = features["input_ids"].cpu(), features["input_ids"].device
        special = torch.isin(ids, torch.tensor(self.collator.tokenizer.all_special_ids))
        masked, labels = self.collator.torch_mask_tokens(ids.clone(), special)
        loss: Tensor = self(masked.to(device), features["attention_mask"], labels.to(device))["loss"]
        return loss
