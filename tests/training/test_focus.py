"""The quick steps of FOCUS equal deepfocus's own."""

import fasttext
import pytest
import tiny_models
import torch
from deepfocus import FOCUS
from entmax import sparsemax

from modenc.training import focus


@pytest.mark.parametrize(
    ("new", "shared", "spread"), [(50, 400, 1.0), (20, 1500, 1.0), (7, 3, 1.0), (30, 500, 0.01)]
)
def test_mixes_are_sparsemax_of_cosines(new, shared, spread, monkeypatch):
    monkeypatch.setattr(focus, "_CELLS", 2000)  # several blocks
    monkeypatch.setattr(focus, "_LIKELY_SUPPORT", 64)
    torch.manual_seed(0)
    center = torch.randn(20)
    queries, keys = (center * (spread < 1) + spread * torch.randn(count, 20) for count in (new, shared))
    vectors = torch.randn(shared, 16)
    cosines = torch.nn.functional.cosine_similarity(queries[:, None].double(), keys.double(), dim=2)
    weights = sparsemax(cosines, dim=1)
    if spread < 1:
        assert (weights > 0).sum(dim=1).max() > focus._LIKELY_SUPPORT  # more are looked at
    expected = (weights @ vectors.double()).float()
    torch.testing.assert_close(focus.mixes(queries, keys, vectors), expected, atol=1e-5, rtol=0)


def test_the_greatest_are_those_of_topk():
    torch.manual_seed(0)
    scores = torch.randn(9, 1003)
    assert torch.equal(focus._greatest(scores, 20), scores.topk(20, dim=1).values)


@pytest.mark.slow
def test_focus_gives_what_deepfocus_gives(tmp_path, monkeypatch):
    lines = tiny_models.sentences("kk") + tiny_models.sentences("az")
    source = tiny_models.unigram_tokenizer(tiny_models.sentences("en"), size=200)
    target = tiny_models.unigram_tokenizer(lines, size=300)
    (tmp_path / "tokens.txt").write_text("\n".join(" ".join(target.tokenize(line)) for line in lines))
    options = {"model": "cbow", "dim": 10, "minCount": 1, "bucket": 1000, "thread": 10, "verbose": 0}
    fasttext.train_unsupervised(str(tmp_path / "tokens.txt"), **options).save_model(
        str(tmp_path / "model.bin")
    )
    torch.manual_seed(0)
    settings = {
        "target_tokenizer": target,
        "source_tokenizer": source,
        "source_embeddings": torch.randn(len(source), 16),
        "fasttext_model_path": str(tmp_path / "model.bin"),
        "processes": 1,
        "verbosity": "silent",
    }
    slow = FOCUS(**settings)
    mixed, mixes = [], focus.mixes
    monkeypatch.setattr(focus, "mixes", lambda *tensors: mixed.append(len(tensors[0])) or mixes(*tensors))
    with focus.quick_steps():
        quick = FOCUS(**settings)
    assert sum(mixed) > 20, "deepfocus no longer calls what quick_steps() replaces"
    assert len(set(target.get_vocab()) - set(source.get_vocab())) > 20
    torch.testing.assert_close(quick, slow, atol=1e-5, rtol=0)
    torch.testing.assert_close(FOCUS(**settings), slow, atol=0, rtol=0)
