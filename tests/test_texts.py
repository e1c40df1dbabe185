import pickle
import random

import numpy as np
import pytest

from modenc.errors import TextError
from modenc.texts import TaggedText, as_texts, normalize


@pytest.mark.parametrize(
    "inputs",
    [["a", "б"], ("a", "б"), np.array(["a", "б"]), np.array(["a", "б"], dtype=object), iter(["a", "б"])],
    ids=["list", "tuple", "array", "object array", "iterator"],
)
def test_collections_of_texts_are_taken(inputs):
    assert as_texts(inputs, 100) == (["a", "б"], False)


def test_pandas_and_datasets_columns_are_taken():
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    assert as_texts(pandas.Series(["a", "б"], index=[7, 9]), 100) == (["a", "б"], False)
    assert as_texts(datasets.Dataset.from_dict({"text": ["a", "б"]})["text"], 100) == (["a", "б"], False)


def test_a_single_text_is_told_apart():
    assert as_texts("a", 100) == (["a"], True)
    assert as_texts([], 100) == ([], False)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, r"expected a text or a list of texts, found NoneType \(None\); drop missing texts"),
        (b"abc", r"found bytes \(b'abc'\); decode it first, for example with \.decode\('utf-8'\)"),
        (7, r"found int \(7\); convert it with str\(\)"),
        ({"text": "a"}, r"found dict .*give the text in it"),
        ({"a", "b"}, r"found set .*give a list, which has an order"),
        (np.array([["a", "b"]]), r"found a ndarray of 2 dimensions; give one column"),
        (["a", None], r"text 1: expected a str, found NoneType"),
        (["a", float("nan")], r"text 1: expected a str, found float \(nan\); drop missing texts"),
        ([["a", "b"]], r"text 0: expected a str, found list .*flatten them"),
        ([("a", "b")], r"text 0: expected a str, found tuple .*pairs are not texts"),
    ],
)
def test_other_things_are_refused_with_position_type_and_next_step(inputs, message):
    with pytest.raises(TextError, match=message):
        as_texts(inputs, 100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x00b\x1b\x7f", "ab"),
        ("line\tone\r\ntwo\u00a0\u2028 three", "line one two three"),
        ("  ends  ", "ends"),
        ("lone \ud83d and \ude00 end", "lone and end"),
        ("pair \ud83d\ude00", "pair 😀"),
        ("a\u0301 \u1112\u1167\u11bc", "á 형"),
        ("e\u200e\u0301", "é"),
        ("inter\u00adnational \ufeffnews\u2060\u2061\u061c\u034f", "international news"),
        ("\u202bئۇيغۇرچە\u202c", "ئۇيغۇرچە"),
        ("uni\u200bver\u200dsi\u200cty", "university"),
        ("\u200bHello \u200b there\u200b", "Hello there"),
        ("uni\u00ad\u200bver\u200b\ufeffsity e\u0301\u200bs", "university és"),
        ("\ufeff\u200bends\u200d \u00ad", "ends"),
        ("\ufeff \x00\u200cHello\u200c\u00ad \u200b", "Hello"),
        ("❤\ufe0f 葛\U000e0100 a\U000e0061", "❤ 葛 a"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष កា\u200bរ", "क्\u200dष កា\u200bរ"),
        ("Қазақ 👩‍👩‍👧 🤷🏽\u200d♀", "Қазақ 👩‍👩‍👧 🤷🏽\u200d♀"),
        ("a\u3164\u115f\u1160\uffa0\u180b\u180f\u17b4\U0001d173\ufff0\ufffe\U0010ffffb", "ab"),
        ("⠓⠊\u2800⠞⠓ \u2800one", "⠓⠊ ⠞⠓ one"),
        ("👍\u200bgood\u200d 5 €\u200b. +\u200c1 👩\u200dx", "👍good 5 €. +1 👩x"),
        ("می\u200bخو\u0650\u200bاهم می\u200c\u200cخواهم", "میخو\u0650اهم می\u200cخواهم"),
        ("ሰላ\u200bም oʻ\u200dzbek ọ\u0301\u200bna", "ሰላም oʻzbek ọ\u0301na"),
        ("te\u0640\u0640xt q\u0301\u0640\u0301 عـــربي", "text q\u0301 عـــربي"),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected
    assert normalize(expected) == expected


# Characters that composition, marks and joiners change around each other, and piles of marks.
ODD = [
    *"a1.=©क一かکبกከ👩❤\u0640\u0640\u200b\u200c\u200d\u200d\u00ad\ufe0f\u2800\u115f\u1100\u1161가 \x85\ud83d",
    *"\ude00\u00a8\u0300\u0301\u0323\u0338\u093c\u094d\u05b0\u3099\u064b\u20e3\u102e\u1025\u0958\u09c7\u09be",
    *"\u2adc\u2126\U0001f3fd",
    *("\u0301" * 31, "\u0344" * 29, "\u093c\u0301" * 15, "\u0f73" * 30),
]


def test_normalize_changes_nothing_in_a_normalized_text():
    numbers = random.Random(0)
    for _ in range(10_000):
        text = normalize("".join(numbers.choices(ODD, k=numbers.randrange(12))))
        assert normalize(text) == text, ascii(text)


@pytest.mark.parametrize(
    "piece",
    [
        "\u0300\u0316",
        " \u200b",
        "\u00ad",
        "\ud83d",
        "क्\u200d",
        " ",
        "\u0301\u200d",
        "a\u0301\u0640",
        "\u0301\u0640",
    ],
)
def test_normalize_takes_time_in_proportion_to_the_text(piece):
    # A quadratic step would take hours.
    assert len(normalize("a" + piece * 500_000)) <= 500_000 * len(piece) + 1


@pytest.mark.parametrize("text", ["one two", "one\u00ad\u200b two", "க் \u200dக", "క్\u200cష one"])
def test_a_text_that_was_cut_stays_as_it_is(text):
    for length in range(1, len(text) + 1):
        cut = normalize(text, length)
        assert normalize(cut, length) == cut


def test_blanks_are_collapsed_before_a_text_is_cut():
    assert normalize("one" + " " * 500 + "two", 7) == "one two"
    assert normalize("\x00" * 50 + " \x1b " + "abc" * 50, 9) == "abcabcabc"


def test_tagged_text_is_a_text_that_keeps_its_language_when_sent_on():
    tagged = pickle.loads(pickle.dumps(TaggedText("Қайырлы таң", "kk")))
    assert (tagged, tagged.lang) == ("Қайырлы таң", "kk")
    ((same,), _) = as_texts([tagged], 5)
    assert same is tagged
