"""Packed rows give the token vectors, and the gradients, of one pass over the padded batch."""

import pytest
import tiny_models
import torch

from modenc.base_model import resolve_base
from modenc.recipe.settings import LoraSettings
from modenc.training import body_module
from modenc.training.adapters_io import add_lora, add_parallel_adapter
from modenc.training.body_module import BodyModule, pack_rows, set_dropout


def module_with_passes(folder, *, adapter="", bf16=False):
    """Make a module of a base, and a list that takes the shape of the ids of each of its passes."""
    torch.manual_seed(0)  # for the adapters
    base = resolve_base(str(folder))
    body = base.load_body()
    if adapter == "parallel":
        add_parallel_adapter(body, 2)
    if adapter == "lora":
        body = add_lora(body, LoraSettings(rank=2, alpha=4, dropout=0.0), ["query", "dense"])
        for parameter in body.parameters():
            # A fresh LoRA's second matrix is zeros, and the first would have no gradient.
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter, std=0.1)
    module = BodyModule(body, base.load_tokenizer(), prompt="", max_length=32, bf16=bf16).eval()
    passes = []
    body.register_forward_pre_hook(
        lambda _, __, given: passes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    return module, passes


def mixed_texts(rows):
    """Make short texts and long ones by turns."""
    sentences = tiny_models.sentences("en")
    return [" ".join(sentences[n].split()[: 1 + 3 * (n % 4)]) for n in range(rows)]


@pytest.mark.parametrize("rows", [2, 15, 37])
@pytest.mark.parametrize("adapter", ["", "parallel", "lora"])
@pytest.mark.parametrize("base", ["tiny_xlmr", "tiny_bert"])
def test_packed_rows_are_one_padded_pass(request, monkeypatch, base, adapter, rows):
    module, passes = module_with_passes(request.getfixturevalue(base), adapter=adapter)
    # A padding token that a text spells out has a position in BERT, and none in XLM-R.
    pad = module.tokenizer.pad_token
    features = module.preprocess([*mixed_texts(rows)[:-1], f"so {pad} it is"])
    assert (features["input_ids"] == module.tokenizer.pad_token_id)[features["attention_mask"].bool()].any()
    found = []
    for little in (0.05, 1.0):
        monkeypatch.setattr(body_module, "_LITTLE_PADDING", little)
        module.zero_grad()
        tokens = module.forward(features)["token_embeddings"]
        real = tokens * features["attention_mask"][..., None]
        # A sum of squares would hardly have a gradient: the last norm keeps it constant.
        (real @ torch.linspace(-1, 1, real.shape[-1])).sum().backward()
        gradients = {
            name: parameter.grad
            for name, parameter in module.named_parameters()
            if parameter.grad is not None
        }
        found.append((tokens.shape, real.detach(), gradients))
    assert found[0][0] == found[1][0] == (*features["input_ids"].shape, tiny_models.HIDDEN)
    torch.testing.assert_close(found[0][1:], found[1][1:], atol=1e-4, rtol=1e-4)
    packed, padded = (count * length for count, length in passes)
    assert padded == features["input_ids"].numel()
    assert packed < 0.9 * padded or rows == 2


def test_packed_rows_are_one_padded_pass_in_bfloat16(tiny_xlmr, monkeypatch):
    module, passes = module_with_passes(tiny_xlmr, adapter="parallel", bf16=True)
    features = module.preprocess(mixed_texts(15))
    found = []
    for little in (0.05, 1.0):
        monkeypatch.setattr(body_module, "_LITTLE_PADDING", little)
        tokens = module.forward(features)["token_embeddings"]
        found.append(tokens * features["attention_mask"][..., None])
    assert len(set(passes)) == 2
    # bfloat16 has 8 bits.
    torch.testing.assert_close(*found, atol=5e-2, rtol=5e-2)


def test_little_padding_is_computed(tiny_xlmr):
    module, passes = module_with_passes(tiny_xlmr)
    features = module.preprocess(tiny_models.sentences("en")[:1] * 5)
    module.forward(features)
    assert passes == [tuple(features["input_ids"].shape)]


def test_bins_are_full_and_rows_whole():
    lengths = [3, 7, 2, 8, 5, 1]
    mask = (torch.arange(8) < torch.tensor(lengths)[:, None]).long()
    ids = torch.arange(1, 49).view(6, 8) * mask
    packed = pack_rows(ids, torch.arange(8) + 2, mask, 10, pad=0)
    assert packed.ids.shape == (3, 9)
    assert (packed.ids != 0).sum() == sum(lengths)
    flat = packed.ids.flatten()[packed.place]
    assert torch.equal(flat, ids[mask.bool()])
    assert torch.equal(packed.unpack(packed.ids[..., None], mask)[..., 0], ids)
    places = torch.split(packed.place, lengths)
    for row, length in zip(places, lengths, strict=True):
        assert torch.equal(row, torch.arange(length) + row[0])
        assert torch.equal(packed.positions.flatten()[row], torch.arange(length) + 2)
        seen = packed.mask[row[0] // 9, row[0] % 9].nonzero().flatten() + row[0] // 9 * 9
        assert torch.equal(seen, row)


@pytest.mark.parametrize("lengths", [[40, 33, 33], [50, 45, 40, 35] * 8, list(range(30, 61)), [70, 3]])
def test_bins_are_never_more_than_the_padded_batch(lengths):
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    packed = pack_rows(mask, torch.arange(len(mask[0])), mask, 64, pad=0)
    assert packed.ids.sum() == sum(lengths)
    assert packed.ids.numel() <= mask.numel()


def test_rows_without_tokens_are_zeros():
    mask = torch.tensor([[0, 0, 0], [1, 1, 0], [0, 0, 0]])
    sevens, positions = torch.full((3, 3), 7), torch.arange(3)
    packed = pack_rows(sevens, positions, mask, 8, pad=0)
    assert torch.equal(packed.ids, torch.tensor([[7, 7]]))
    assert torch.equal(packed.unpack(packed.ids[..., None], mask)[..., 0], 7 * mask)
    assert pack_rows(sevens, positions, 0 * mask, 8, pad=0).ids.tolist() == [[0]]


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
