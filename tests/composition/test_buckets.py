"""Buckets lose no row, and have few sizes."""

import torch

from modenc.composition.bert import round_up_tokens, split_batch


def test_split_batch_keeps_every_row_in_order_of_slots():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 91, (64,), generator=generator)
    mask = (torch.arange(90) < lengths[:, None]).long()
    ids = torch.randint(5, 60, (64, 90), generator=generator).masked_fill(mask == 0, 1)
    slots = [row % 5 for row in range(64)]
    found = split_batch(ids, mask, slots)
    assert sorted(row for bucket in found for row in bucket.rows.tolist()) == list(range(64))
    for bucket in found:
        assert bucket.slots.tolist() == sorted(bucket.slots.tolist())
        assert [slots[row] for row in bucket.rows.tolist()] == bucket.slots.tolist()
        assert torch.equal(bucket.ids, ids[bucket.rows][:, : bucket.ids.shape[1]])
    even = split_batch(ids[:, :7], torch.ones(64, 7, dtype=torch.long), [0] * 64)
    assert [(bucket.rows, bucket.mask) for bucket in even] == [(None, None)]


def test_sizes_are_few_and_near():
    assert [round_up_tokens(tokens) for tokens in (1, 8, 9, 64, 65, 100, 129)] == [8, 8, 16, 64, 72, 104, 144]
    sizes = [round_up_tokens(tokens) for tokens in range(1, 20_000)]
    assert all(tokens <= size <= max(tokens + 7, tokens * 9 / 8) for tokens, size in enumerate(sizes, 1))
    assert len(set(sizes)) <= 8 * 10
