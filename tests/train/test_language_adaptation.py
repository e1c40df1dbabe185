"""Stage 2 by masked words: what its perplexity is measured on."""

import functools

import pytest

from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.train import language_adaptation
from modenc.train.pipeline import train_recipe


@pytest.mark.parametrize("blocks", [5, 11])
def test_few_held_out_blocks_are_evaluated_whole(tiny_recipe, monkeypatch, blocks):
    """Fewer than a batch of eight, or a batch and some more."""
    seen, real = [], language_adaptation.MaskedLM.forward

    @functools.wraps(real)
    def forward(self, input_ids, **features):
        seen.append((self.training, len(input_ids)))
        return real(self, input_ids, **features)

    # Of the text to learn all blocks, of the held-out text so many.
    packed, ends = language_adaptation.pack, iter([None, blocks])
    monkeypatch.setattr(language_adaptation, "pack", lambda *settings: packed(*settings)[: next(ends)])
    monkeypatch.setattr(language_adaptation.MaskedLM, "forward", forward)
    overrides = ["language_adaptation.objective=mlm", "language_adaptation.block_length=16"]
    overrides += ["vocabulary.method=base", "language_adaptation.optimizer.steps=1"]
    recipe = load_recipe(tiny_recipe("few-blocks"), overrides)
    train_recipe(recipe, languages=["en"], stages=["vocabulary", "language_adaptation"])
    metrics = Hub.open(recipe.hub).card("en").stages["language_adaptation"]["metrics"]
    assert 1 < metrics["perplexity_before"] < 1e6
    assert sum(count for training, count in seen if not training) == 2 * blocks
