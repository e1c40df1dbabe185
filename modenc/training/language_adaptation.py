"""Stage 2: embeddings and a LoRA on query, key and value (LA) learn the language's text."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.recipe.settings import FRESH, LanguageAdaptationSettings
from modenc.training.adapters_io import ATTENTION_LAYERS, add_lora, save_lora, scaled_adapter
from modenc.training.alignment import learn_from_pivot
from modenc.training.body_module import encode_texts, sentence_model
from modenc.training.data_access import sample
from modenc.training.dev import DevEvaluator, PublishedWeights
from modenc.training.objectives.distillation import DistillationLoss
from modenc.training.objectives.masked_lm import MaskedLM
from modenc.training.stage import Stage, published_adapter
from modenc.training.trainers import train_body, train_sentence_model
from modenc.training.vocabulary import save_embeddings

logger = logging.getLogger(__name__)


def train_language_adaptation(stage: Stage) -> dict[str, Any]:
    """Train LA, and the embeddings where the recipe says so, and write them; returns metrics."""
    settings = stage.plan.language_adaptation
    if stage.plan.skips("language_adaptation"):
        return {}
    body, tokenizer = stage.body_and_tokenizer()
    model = add_lora(_with_start(stage, body), settings.lora, ATTENTION_LAYERS)
    embeddings = model.get_input_embeddings()
    embeddings.weight.requires_grad_(settings.train_embeddings and stage.plan.vocabulary.method != "base")
    start = embeddings.weight.detach().clone() if embeddings.weight.requires_grad else None
    published_weights = partial(scaled_adapter, model, settings.strength, start)
    masked_lm = None
    if "mlm" in settings.objective:
        masked_lm = MaskedLM(model, embeddings, tokenizer, settings.mask_probability)
    if settings.objective == "pivot":
        metrics = _adapt_to_pivot(stage, model, tokenizer, published_weights)
    elif masked_lm is not None and settings.objective == "mlm":
        metrics = _masked_lm(stage, masked_lm, tokenizer)
    else:
        metrics = _distill(stage, model, masked_lm, tokenizer, published_weights)
    with published_weights():
        save_lora(model, stage.modules / "la", stage.base.id)
        if start is not None:
            save_embeddings(embeddings.weight, stage.modules, stage.plan.vocabulary.storage)
    return metrics


def _optimizer(settings: LanguageAdaptationSettings, model: nn.Module) -> torch.optim.Optimizer:
    """Make AdamW with a learning rate of its own for the embedding matrix."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    table = [parameter for name, parameter in named if "word_embeddings" in name]
    rest = [parameter for name, parameter in named if "word_embeddings" not in name]
    groups = [
        {"params": rest, "lr": settings.optimizer.learning_rate},
        {"params": table, "lr": settings.embedding_learning_rate, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], weight_decay=settings.optimizer.weight_decay
    )


def _masked_lm(stage: Stage, model: MaskedLM, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    settings = stage.plan.language_adaptation
    train = Dataset.from_dict({"input_ids": pack(tokenizer, stage.data.text.train, settings.block_length)})
    optimizer = _optimizer(settings, model)
    return train_body(stage, settings.optimizer, model, train, collator=model.collator, optimizer=optimizer)


def pack(tokenizer: PreTrainedTokenizerFast, texts: list[str], length: int) -> npt.NDArray[np.int32]:
    """Join texts with separators and cut them into blocks of ids [blocks, length], dropping the rest.

    A stream shorter than a block makes one shorter block.
    """
    separator = tokenizer.sep_token_id
    stream: list[int] = []
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else ():
        stream += [*ids, separator]
    tokens = np.array(stream, np.int32)
    inner = min(length - 2, max(len(tokens), 1))
    count = len(tokens) // inner
    blocks = np.empty((count, inner + 2), np.int32)
    blocks[:, 0], blocks[:, -1] = tokenizer.cls_token_id, separator
    blocks[:, 1:-1] = tokens[: count * inner].reshape(count, inner)
    return blocks


def _with_start(stage: Stage, body: PreTrainedModel) -> PreTrainedModel:
    """Merge the SE that stage 3 starts from, if it does not start afresh, unless masked words are learned."""
    start = stage.plan.sentence_encoding.start
    if start == FRESH or stage.plan.language_adaptation.objective not in ("distill", "pivot"):
        return body
    published = published_adapter(stage, start).parent
    return compose(body, read_modules(published, stage.base.hidden_size, ["se"]), align=False)


def _adapt_to_pivot(
    stage: Stage, model: PeftModel, tokenizer: PreTrainedTokenizerFast, published_weights: PublishedWeights
) -> dict[str, Any]:
    settings = stage.plan.language_adaptation
    # keep_weight keeps the cosines that stage 3 leaves, which do not exist yet.
    losses = replace(
        stage.plan.alignment, optimizer=settings.optimizer, max_length=settings.max_length, keep_weight=0.0
    )
    student = sentence_model(model, tokenizer, stage.plan, settings.max_length)
    optimizer = partial(_optimizer, settings, student)
    return learn_from_pivot(stage, losses, student, optimizer, published_weights)


def _distill(
    stage: Stage,
    model: PeftModel,
    masked_lm: MaskedLM | None,
    tokenizer: PreTrainedTokenizerFast,
    published_weights: PublishedWeights,
) -> dict[str, Any]:
    settings, plan = stage.plan.language_adaptation, stage.plan
    optimizer = settings.optimizer
    texts = sample(stage.data.text.train, optimizer.steps * optimizer.rows_a_step(), plan.run.seed)
    held_out = stage.data.text.held_out[:200]
    body = _with_start(stage, stage.load_body())
    base = sentence_model(body, stage.base.load_tokenizer(), plan, settings.max_length)
    logger.info("  vectors with the base's vocabulary, of %d sentences", len(texts))
    teacher, teacher_held_out = encode_texts(base, texts), encode_texts(base, held_out)
    del base, body  # large, and not needed while the student learns
    dev = DevEvaluator(teacher_texts=held_out, teacher=teacher_held_out, weights=published_weights)
    student = sentence_model(model, tokenizer, plan, settings.max_length)
    loss = DistillationLoss(student, torch.from_numpy(teacher), masked_lm, settings.mlm_weight)
    return train_sentence_model(
        stage,
        optimizer,
        student,
        Dataset.from_dict({"text": texts, "label": list(range(len(texts)))}),
        loss,
        dev,
        optimizer=_optimizer(settings, masked_lm or student),
    )
