"""Packed frozen layers compute what torch's do, in both passes."""

import pytest
import torch
from torch import nn

from modenc.base_model import resolve_base
from modenc.recipe.settings import LoraSettings
from modenc.training import adapters_io
from modenc.training.adapters_io import PackedLinear, add_lora, add_parallel_adapter, pack_frozen


@pytest.fixture(params=[False, True], ids=["oneDNN", "torch"])
def faster(request, monkeypatch):
    """Whether torch's float32 products are said to be the faster ones."""
    monkeypatch.setattr(adapters_io, "torch_is_faster", lambda _: request.param)
    return request.param


@pytest.mark.parametrize("bf16", [False, True])
def test_output_and_gradient_are_those_of_linear(bf16, faster):
    torch.manual_seed(0)
    layer = nn.Linear(24, 40).requires_grad_(False)
    x = torch.randn(3, 5, 24)
    found = []
    for module in (layer, PackedLinear(layer)):
        own = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = module(own)
        y.float().square().sum().backward()
        assert y.dtype == (torch.bfloat16 if bf16 else torch.float32)
        found.append((y.detach(), own.grad))
    tolerance = {"atol": 0.5, "rtol": 0.05} if bf16 else {"atol": 1e-4, "rtol": 1e-5}
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, **tolerance)
    assert torch.equal(layer(x.double().float()), layer(x))
    works = adapters_io.onednn_works(torch.bfloat16 if bf16 else torch.float32)
    assert bool(module._packed) == (works and (bf16 or not faster))


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("adapter", ["lora", "parallel"])
def test_only_frozen_layers_are_packed_and_adapters_learn_the_same(tiny_xlmr, adapter):
    gradients = []
    for packed in (False, True):
        torch.manual_seed(0)
        body = resolve_base(str(tiny_xlmr)).load_body()
        if adapter == "lora":
            model = add_lora(body, LoraSettings(rank=2, alpha=4, dropout=0.0), ["query", "dense"])
        else:
            add_parallel_adapter(body, 2)
            model = body
        if packed:
            pack_frozen(model)
            count = sum(isinstance(part, PackedLinear) for part in model.modules())
            assert count >= 12
            assert not any(
                p.requires_grad
                for m in model.modules()
                if isinstance(m, PackedLinear)
                for p in m.parameters()
            )
        model.eval()
        ids = torch.arange(5, 25).view(2, 10)
        hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        hidden.square().mean().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert gradients[0]
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-4)
