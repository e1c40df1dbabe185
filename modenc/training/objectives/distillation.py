r"""Distillation from the base's own sentence embeddings: of a new vocabulary, and of the ranking of passages.

With unit vectors s_i of the student and t_i of the teacher (the same with the base's vocabulary) for the
sentences of a batch: ``L = mean_i (1 - s_i·t_i) + mean_ij (s_i·s_j - t_i·t_j)²``. The second term
keeps the geometry between sentences; ``mlm+distill`` adds a weighted masked-LM loss.

Training for similarity costs quality in search, which a ranking without labels preserves. With unit vectors
b of the frozen base and s of the student for queries q and all passages p of a batch, E5's own temperature in
training, and twice as much for the student, whose cosines scored pairs spread wider:

    L = w mean_q KL(softmax_p(b_q·b_p / 0.01) || softmax_p(s_q·s_p / 0.02))
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.training.objectives.masked_lm import MaskedLM

_TEACHER_TEMPERATURE, _STUDENT_TEMPERATURE = 0.01, 0.02


class DistillationLoss(nn.Module):
    """Loss that pulls sentence vectors onto a teacher's.

    Inputs:
        one text column, and as label the row of ``teacher`` [texts, hidden] that belongs to it.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        teacher: Tensor,
        masked_lm: MaskedLM | None = None,
        mlm_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.teacher = nn.functional.normalize(teacher, dim=-1)
        self.masked_lm = masked_lm
        if masked_lm is not None:
            self.auxiliary = masked_lm.head
        self.mlm_weight = mlm_weight

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        (features,) = sentence_features
        student = nn.functional.normalize(self.model(features)["sentence_embedding"], dim=-1)
        teacher = self.teacher[labels.cpu()].to(student)
        loss = (1 - (student * teacher).sum(-1)).mean() + similarity_gap(student, teacher)
        if self.masked_lm is not None:
            loss = loss + self.mlm_weight * self.masked_lm.loss_of(features)
        return loss


class _PassageLoss(nn.Module):
    """Loss that keeps what a teacher's vectors say of a batch's queries and passages.

    Inputs:
        a column of queries and one of passages; as label the row of ``queries`` and ``passages``, the
        teacher's vectors [rows, hidden], that belongs to them.
    """

    def __init__(
        self, model: SentenceTransformer, queries: Tensor, passages: Tensor, *, weight: float
    ) -> None:
        super().__init__()
        self.model = model
        self.queries, self.passages = (nn.functional.normalize(side, dim=-1) for side in (queries, passages))
        self.weight = weight

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Compute the loss of one batch (a scalar)."""
        query, passage = (
            nn.functional.normalize(self.model(features)["sentence_embedding"], dim=-1)
            for features in sentence_features
        )
        rows = labels.cpu()
        return self.weight * self._gap(query, passage, self.queries[rows], self.passages[rows])

    def _gap(self, query: Tensor, passage: Tensor, teacher_query: Tensor, teacher_passage: Tensor) -> Tensor:
        raise NotImplementedError


class RankingDistillationLoss(_PassageLoss):
    """Loss that keeps a teacher's ranking of a batch's passages; see the formula above."""

    def _gap(self, query: Tensor, passage: Tensor, teacher_query: Tensor, teacher_passage: Tensor) -> Tensor:
        target = (teacher_query @ teacher_passage.T / _TEACHER_TEMPERATURE).softmax(-1).to(query)
        ranking = (query @ passage.T / _STUDENT_TEMPERATURE).log_softmax(-1)
        return nn.functional.kl_div(ranking, target, reduction="batchmean")


class CosineDistillationLoss(_PassageLoss):
    """Loss that keeps all cosines between a batch's queries and passages."""

    def _gap(self, query: Tensor, passage: Tensor, teacher_query: Tensor, teacher_passage: Tensor) -> Tensor:
        teacher = torch.cat([teacher_query, teacher_passage]).to(query)
        return similarity_gap(torch.cat([query, passage]), teacher)


def similarity_gap(student: Tensor, teacher: Tensor) -> Tensor:
    """Compute the mean squared difference of two batches' cosine matrices; unit vectors [batch, hidden]."""
    return nn.functional.mse_loss(student @ student.T, teacher @ teacher.T)


def teacher_gap(student: Tensor, teacher: Tensor) -> Tensor:
    """Compute mean squared differences from the teacher's cosines, of unit vectors [batch, hidden].

    Two sets of cosines are compared: between the student's vectors, and of the student's with the teacher's.
    Relational distillation (Park et al., 2019) has the first alone, which lets the two spaces rotate apart.
    """
    target = teacher @ teacher.T
    own, across = student @ student.T, student @ teacher.T
    return nn.functional.mse_loss(own, target) + nn.functional.mse_loss(across, target)
