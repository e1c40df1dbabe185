"""Passes by length give the token vectors, and the gradients, of one pass over the padded batch."""

import pytest
import tiny_models
import torch

from modenc.base_model import resolve_base
from modenc.training import body_module
from modenc.training.body_module import BodyModule


@pytest.mark.parametrize("rows", [15, 16, 37])
def test_passes_by_length_are_one_pass(tiny_xlmr, monkeypatch, rows):
    base = resolve_base(str(tiny_xlmr))
    module = BodyModule(base.load_body(), base.load_tokenizer(), prompt="", max_length=32)
    sentences = tiny_models.sentences("en")
    # Short ones and long ones by turns.
    texts = [" ".join(sentences[n : n + 1 + n % 3]) for n in range(rows)]
    features = module.preprocess(texts)
    passes = []
    module.body.register_forward_pre_hook(
        lambda _, __, given: passes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    found = []
    for most in (body_module._ROWS_A_PASS, 1000):
        monkeypatch.setattr(body_module, "_ROWS_A_PASS", most)
        module.zero_grad()
        tokens = module.forward(features)["token_embeddings"]
        real = tokens * features["attention_mask"][..., None]
        real.square().sum().backward()
        found.append((tokens.shape, real.detach(), module.body.encoder.layer[0].output.dense.weight.grad))
    assert found[0][0] == found[1][0] == (*features["input_ids"].shape, tiny_models.HIDDEN)
    torch.testing.assert_close(found[0][1:], found[1][1:], atol=1e-4, rtol=1e-4)
    by_length = passes[:-1]
    assert [count for count, _ in by_length] == [min(16, rows - start) for start in range(0, rows, 16)]
    assert [length for _, length in by_length] == sorted(length for _, length in by_length)


@pytest.mark.parametrize(
    ("table", "learns", "gradients", "passes"),
    [(1, True, True, 1), (1, True, False, 3), (1, False, True, 3), (100_000, True, True, 3)],
)
def test_a_large_table_that_learns_is_one_pass(tiny_xlmr, monkeypatch, table, learns, gradients, passes):
    """Each pass would fill a gradient as large as the table."""
    monkeypatch.setattr(body_module, "_LARGE_TABLE", table)
    base = resolve_base(str(tiny_xlmr))
    body = base.load_body()
    body.get_input_embeddings().weight.requires_grad_(learns)
    module = BodyModule(body, base.load_tokenizer(), prompt="", max_length=32)
    features = module.preprocess(tiny_models.sentences("en")[:37])
    rows = []
    body.register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    with torch.set_grad_enabled(gradients):
        module.forward(features)
    assert len(rows) == passes
    assert sum(rows) == 37
