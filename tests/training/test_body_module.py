"""The dropout of a body."""

import pytest
import torch

from modenc.base_model import resolve_base
from modenc.training.body_module import set_dropout


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_set_dropout_reaches_every_layer_and_attention(tiny_xlmr, attention):
    body = resolve_base(str(tiny_xlmr)).load_body(attention)
    ids = torch.randint(5, 50, (4, 12), generator=torch.Generator().manual_seed(0))
    expected = body(ids).last_hidden_state
    body.train()
    set_dropout(body, 0.2)
    assert not torch.allclose(body(ids).last_hidden_state, expected, atol=1e-3)
    set_dropout(body, 0.0)
    torch.testing.assert_close(body(ids).last_hidden_state, expected)
