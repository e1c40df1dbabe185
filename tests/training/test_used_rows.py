"""A whole model trains the rows of its table that its texts use, as if it had the whole table."""

import torch

from modenc.base_model import resolve_base
from modenc.training.monolithic import UsedRows, used_rows

READ = ["Мұғалім жаңа кітапты оқиды", "My brother reads a book"]


def learn(body, ids):
    """Two steps, which put weights and the optimizer's state in motion."""
    optimizer = torch.optim.AdamW(body.parameters(), lr=0.01, weight_decay=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        body(input_ids=ids).last_hidden_state.square().sum().backward()
        torch.nn.utils.clip_grad_norm_(body.parameters(), 1.0)
        optimizer.step()


def test_the_weights_are_those_that_the_whole_table_gets(tiny_xlmr):
    base = resolve_base(str(tiny_xlmr))
    tokenizer = base.load_tokenizer()
    ids = tokenizer(READ, padding=True, return_tensors="pt")["input_ids"]
    whole, part = base.load_body().eval(), base.load_body().eval()
    start = part.get_input_embeddings().weight.detach().clone()
    learn(whole, ids)
    table = part.get_input_embeddings()
    with used_rows(part, tokenizer, READ):
        assert len(part.get_input_embeddings().weight) < len(start)
        learn(part, ids)
        during = part(input_ids=ids).last_hidden_state
    assert part.get_input_embeddings() is table
    torch.testing.assert_close(part(input_ids=ids).last_hidden_state, during, rtol=0, atol=0)
    moved = (table.weight != start).any(dim=1)
    assert set(moved.nonzero().flatten().tolist()) == set(ids.flatten().tolist()) - {tokenizer.pad_token_id}
    for (name, expected), (_, found) in zip(whole.named_parameters(), part.named_parameters(), strict=True):
        torch.testing.assert_close(found, expected, msg=lambda text, name=name: f"{name}: {text}")


def test_other_texts_keep_the_embeddings_that_they_have():
    table = torch.nn.Embedding(6, 2, padding_idx=1)
    rows = UsedRows(table, torch.tensor([1, 3, 4]))
    ids = torch.tensor([[3, 5], [1, 0]])
    torch.testing.assert_close(rows(ids), table(ids), rtol=0, atol=0)
    rows(ids).sum().backward()
    # The padding's row and those of no text learn nothing.
    assert rows.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
