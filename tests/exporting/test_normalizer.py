"""An exported tokenizer normalizes texts as encoding does."""

import random
import unicodedata

import pytest
from tokenizers import normalizers
from transformers import AutoTokenizer

from modenc.base_model import resolve_base
from modenc.exporting.export import normalization, with_normalization
from modenc.texts import normalize

PROMPTS = ["query: ", "", "passage:", "文を表す：", "Instruct: a.b (c)?\nQuery:\u00a0"]
PARTS = [
    *("a", "b", "1", ".", "query: ", "é", "e\u0301", "\u0301", "\u0323", "\u0301" * 40, "ᄒ", "ᅧ", "ᆼ", "ｶﾞ"),
    *("क", "ک", "👩", " ", " " * 50, "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "\x00"),
    *("\u00ad", "\u200b", "\u200c", "\u200d", "\u200f", "\u202a", "\ufeff", "\ufe0f", "\U000e0001"),
    *(
        "❤",
        "€",
        "ន",
        "ʻ",
        "\u0640",
        "\u0344" * 29,
        "\u2800",
        "\u3164",
        "\u115f",
        "\ufffe",
        "\u00a8",
        "\u2126",
    ),
]


def _expected(prompt, text):
    return normalize(prompt) + " " * prompt[-1:].isspace() + normalize(text)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_any_mixture_of_odd_characters_is_normalized_as_in_encoding(prompt):
    found, numbers = normalizers.Sequence(normalization(prompt)), random.Random(0)
    texts = ["".join(numbers.choices(PARTS, k=numbers.randrange(9))) for _ in range(5000)]
    for text in texts:
        assert found.normalize_str(prompt + text) == _expected(prompt, text), ascii(text)


def test_every_blank_and_control_character_is_normalized_as_in_encoding():
    found = normalizers.Sequence(normalization("query: "))
    kinds = ("Zs", "Zl", "Zp", "Cc", "Cf")
    odd = [char for char in map(chr, range(0x110000)) if unicodedata.category(char) in kinds]
    assert len(odd) > 200
    odd += map(
        chr, [*range(0x1150, 0x1170), *range(0x17B0, 0x1810), *range(0xFDD0, 0xFDF0), *range(0xFFA0, 0x10000)]
    )
    for char in odd:
        for text in (char, f"a{char}b", f"{char}क", f"क{char}", f"क{char}ष"):
            assert found.normalize_str("query: " + text) == _expected("query: ", text), ascii(text)


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_xlmr"])
@pytest.mark.parametrize("prompt", ["query: ", ""])
def test_the_tokenizer_that_is_loaded_from_its_folder_has_the_steps(family, prompt, tmp_path, request):
    own = resolve_base(str(request.getfixturevalue(family))).load_tokenizer()
    with_normalization(own, prompt).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.special_tokens_map == own.special_tokens_map
    assert loaded.model_input_names == own.model_input_names
    assert loaded.model_max_length == own.model_max_length
    for text in ("", " one\n two ", "one\u00adtwo", "\u200eone\u200f ", "the cat" + " " * 20_000 + "the dog"):
        assert loaded(prompt + text) == own(_expected(prompt, text)), ascii(text[:20])
