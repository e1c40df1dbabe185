"""Vocabularies: what trimming keeps, what extending adds, roles of special tokens."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch
from transformers import PreTrainedTokenizerFast

from modenc.base_model import resolve_base
from modenc.composition.modules import read_modules
from modenc.errors import DataError
from modenc.recipe.loader import load_recipe
from modenc.training.language_adaptation import pack
from modenc.training.stage import Stage
from modenc.training.tokenizers import (
    extend,
    piece_counts,
    special_pairs,
    tokenizer_model,
    tokens_per_sentence,
    train_like,
    transliterate,
    trim,
)
from modenc.training.vocabulary import focus_embeddings, train_vocabulary

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "good morning to the cat"] * 5


@pytest.fixture(params=["tiny_bert", "tiny_xlmr"])
def base(request):
    return resolve_base(str(request.getfixturevalue(request.param)))


def test_trimming_to_all_used_pieces_changes_no_vector(base):
    tokenizer = base.load_tokenizer()
    trimmed, ids = trim(tokenizer, TEXTS, 10_000)
    assert len(trimmed) == len(ids) < len(tokenizer)
    for text in TEXTS[:3]:
        assert [ids[number] for number in trimmed(text)["input_ids"]] == tokenizer(text)["input_ids"]
    assert trimmed.pad_token_id == tokenizer.pad_token_id


def test_a_small_trim_still_has_no_unknown_tokens(base):
    trimmed, _ = trim(base.load_tokenizer(), TEXTS, 10)
    assert trimmed.unk_token_id not in trimmed("the cat sat in the park")["input_ids"]


def test_a_trim_is_filled_up_with_likely_pieces_in_the_same_letters(base):
    tokenizer = base.load_tokenizer()
    texts = ["the cat sat on the mat"]
    _, used = trim(tokenizer, texts, 1)
    filled, ids = trim(tokenizer, texts, len(used) + 40)
    added = [
        token
        for token in filled.convert_ids_to_tokens(range(len(filled)))
        if token not in _names(tokenizer, used)
    ]
    assert added
    assert set("".join(added).lower()) <= set("▁#" + texts[0].replace(" ", ""))
    assert len(ids) == len(filled) <= len(used) + 40


def _names(tokenizer, ids):
    return set(tokenizer.convert_ids_to_tokens(ids))


def test_extending_shortens_sentences(base):
    tokenizer = base.load_tokenizer()
    trimmed, ids = trim(tokenizer, TEXTS, 40)
    candidates = ("morning", "▁morning", "park", "▁park", "dog", "▁dog")
    pieces = [piece for piece in candidates if piece not in trimmed.get_vocab()]
    longer = extend(trimmed, pieces, TEXTS)
    assert len(longer) == len(ids) + len(pieces)
    assert tokens_per_sentence(longer, TEXTS) <= tokens_per_sentence(trimmed, TEXTS)


@pytest.mark.parametrize("method", ["trim", "focus", "extend"])
def test_the_prompt_is_cut_as_the_base_cuts_it(base, method):
    tokenizer = base.load_tokenizer()
    # In a Unigram model, even where pieces that cut the prompt otherwise are in the texts, and frequent.
    unigram = tokenizer_model(tokenizer) == "Unigram"
    texts = ["good dogs a dogs", "doggy dog ado"] * 20 if unigram else ["good morning"] * 5
    if method == "focus":
        made = train_like(tokenizer, texts, 60, "a dog: ")
    else:
        made, _ = trim(tokenizer, texts, 30, "a dog: ")
        if method == "extend":
            made = extend(made, ["▁dog", "▁do", "og"] if unigram else ["##mor"], texts, "a dog: ")
    wanted = tokenizer.tokenize("a dog:")
    assert made.tokenize("a dog: good")[: len(wanted)] == wanted


def test_special_tokens_are_matched_by_role(base):
    tokenizer = base.load_tokenizer()
    new = train_like(tokenizer, TEXTS, 80)
    pairs = dict(special_pairs(new, tokenizer))
    assert pairs[new.mask_token_id] == tokenizer.mask_token_id
    assert pairs[new.pad_token_id] == tokenizer.pad_token_id


def test_focus_copies_shared_tokens_and_mixes_frequent_new_ones(tmp_path):
    source = tiny_models.unigram_tokenizer(tiny_models.sentences("en"), size=200)
    lines = tiny_models.sentences("kk") + tiny_models.sentences("az")
    target = tiny_models.unigram_tokenizer(lines, size=300)
    plan = SimpleNamespace(
        vocabulary=SimpleNamespace(fasttext_dim=10, fasttext_epochs=1), run=SimpleNamespace(seed=1)
    )
    stage = SimpleNamespace(plan=plan, folder=tmp_path)
    # Mixes of vectors with positive numbers are between the least and the greatest; random ones are not.
    vectors = torch.rand(len(source), 16)
    found = focus_embeddings(stage, target, source, vectors, lines)
    counts = piece_counts(target, lines)
    known = source.get_vocab()
    for token, number in target.get_vocab().items():
        if token in known:
            assert (vectors == found[number]).all(dim=1).any()
        elif counts[number] >= 10:
            assert vectors.min() < found[number].min()
            assert found[number].max() < vectors.max()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"occur 10 times in the text, found 0 new and \d+ shared ones"):
        focus_embeddings(stage, source, source, vectors, tiny_models.sentences("en"))
    with pytest.raises(DataError, match="found 0 new and 0 shared ones"):
        focus_embeddings(stage, target, source, vectors, lines[:1])


def test_a_vocabulary_is_made_from_a_sample_of_all_sources(tiny_xlmr, tiny_recipe, tmp_path):
    base = resolve_base(str(tiny_xlmr))
    first, second = tiny_models.sentences("en"), tiny_models.sentences("kk")
    text = SimpleNamespace(train=[*first, *second], held_out=second[:20])
    recipe = tiny_recipe("sources")

    def made(count):
        plan = load_recipe(recipe, [f"vocabulary.max_sentences={count}"]).plans["kk"]
        train_vocabulary(Stage("vocabulary", plan, base, SimpleNamespace(text=text), tmp_path, None))
        return read_modules(tmp_path / "kk", base.hidden_size).tokenizer

    sampled = made(len(first))
    pieces = [piece for text in second for piece in sampled(text)["input_ids"]]
    assert pieces.count(sampled.unk_token_id) < len(pieces) / 10
    assert sampled.get_vocab() == made(len(first)).get_vocab()


def test_texts_are_packed_into_blocks(base):
    tokenizer = base.load_tokenizer()
    blocks = pack(tokenizer, TEXTS, 16)
    assert blocks.dtype == np.int32
    stream = []
    for text in TEXTS:
        stream += [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]
    ends = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    assert blocks.tolist() == [
        [ends[0], *stream[start : start + 14], ends[1]] for start in range(0, len(stream) - 13, 14)
    ]
    assert pack(tokenizer, TEXTS[:1], 200).tolist() == [
        [ends[0], *stream[: stream.index(ends[1]) + 1], ends[1]]
    ]
    assert pack(tokenizer, [], 16).shape[0] == 0


UZBEK = {"ш": "sh", "а": "a", "ʻ": "'", "ъ": ""}


@pytest.mark.parametrize("text", ["ШашʻЪ", "Шаʻъш, Аа", "саша"])
def test_characters_are_transliterated_before_a_text_is_cut(base, text):
    tokenizer = base.load_tokenizer()
    latin = {"Ш": "Sh", "А": "A", "Ъ": "", **UZBEK}
    expected = tokenizer("".join(latin.get(char, char) for char in text))["input_ids"]
    assert transliterate(tokenizer, UZBEK)(text)["input_ids"] == expected
    assert tokenizer(text)["input_ids"] != expected


def test_a_transliterating_tokenizer_leaves_other_texts_alone_and_is_kept(base, tmp_path):
    tokenizer = base.load_tokenizer()
    own = transliterate(tokenizer, {"ш": "shch", "ʻ": "'"})
    assert [own(text)["input_ids"] for text in TEXTS] == [tokenizer(text)["input_ids"] for text in TEXTS]
    trimmed, _ = trim(own, TEXTS, 10_000)
    trimmed.save_pretrained(tmp_path / "tokenizer")
    loaded = PreTrainedTokenizerFast.from_pretrained(tmp_path / "tokenizer")
    assert loaded("ш the cat")["input_ids"] == trimmed("shch the cat")["input_ids"]


def test_trimming_keeps_the_pieces_of_transliterated_texts(base):
    own = transliterate(base.load_tokenizer(), {"т": "t", "һ": "h", "е": "e"})
    trimmed, _ = trim(own, ["тһе тһе"], 20)
    assert trimmed.unk_token_id not in trimmed("the")["input_ids"]
    assert trimmed("тһе")["input_ids"] == trimmed("the")["input_ids"]
