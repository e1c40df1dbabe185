"""What modenc needs of other libraries without a promise of theirs: each is noticed when it moves."""

import platform
import sys
from dataclasses import fields

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.composition.bert import onednn_works


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="torch is built otherwise elsewhere"
)
def test_torch_has_the_operators_that_only_speed_depends_on():
    assert onednn_works(torch.float32)
    for place, name in (
        (torch.cpu, "_is_avx512_bf16_supported"),
        (torch.cpu, "_is_amx_tile_supported"),
        (torch.ops.mkldnn, "_is_mkldnn_bf16_supported"),
    ):
        assert hasattr(place, name), name


def test_batches_are_of_one_language_where_there_are_enough_texts(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    batches, forward = [], encoder[0].forward

    def noted(features, **options):
        batches.append(set(features["language"]))
        return forward(features, **options)

    monkeypatch.setattr(encoder[0], "forward", noted)
    texts = [text for pair in zip(sentences("kk")[:8], sentences("az")[:8], strict=True) for text in pair]
    encoder.encode(texts, lang=["kk", "az"] * 8, batch_size=4)
    assert len(batches) == 4
    assert all(len(languages) == 1 for languages in batches)


def test_what_is_overridden_is_there():
    assert "_input_length" in dir(SentenceTransformer)
    pytest.importorskip("peft", reason="the training half is not installed")
    from sentence_transformers import SentenceTransformerTrainer
    from transformers import Trainer, TrainingArguments

    assert "_n_gpu" in {field.name for field in fields(TrainingArguments)}
    assert {"_save", "_load_from_checkpoint"} <= set(dir(Trainer))
    assert {"get_batch_sampler", "add_model_card_callback"} <= set(dir(SentenceTransformerTrainer))
