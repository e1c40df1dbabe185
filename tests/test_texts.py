import pickle
from array import array

import numpy as np
import pytest

from modenc.errors import TextError
from modenc.texts import TaggedText, Tokens, as_texts, clean


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
    assert as_texts(np.array("a"), 100) == (["a"], True)
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
        (["a", "b", 3], r"text 2: expected a str, found int \(3\)"),
        (["a", b"b"], r"text 1: expected a str, found bytes"),
        ([["a", "b"]], r"text 0: expected a str, found list .*flatten them"),
        ([("a", "b")], r"text 0: expected a str, found tuple .*pairs are not texts"),
        ([{"text": "a"}], r"text 0: expected a str, found dict"),
    ],
)
def test_other_things_are_refused_with_position_type_and_next_step(inputs, message):
    with pytest.raises(TextError, match=message):
        as_texts(inputs, 100)


def test_long_things_are_not_quoted_whole():
    with pytest.raises(TextError) as error:
        as_texts([b"x" * 10_000], 100)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x00b\x1b\x7f", "ab"),
        ("line\tone\r\ntwo", "line\tone\r\ntwo"),
        ("lone \ud83d and \ude00 end", "lone  and  end"),
        ("pair \ud83d\ude00", "pair 😀"),
        ("  kept  ", "  kept  "),
        ("Қазақ 👩‍👩‍👧", "Қазақ 👩‍👩‍👧"),
    ],
)
def test_clean(text, expected):
    assert clean(text, 100) == expected


def test_long_text_is_cut_after_its_leading_space():
    assert clean(" " * 50 + "abc" * 50, 9) == "abcabcabc"
    assert clean("\x00" * 50 + " \x1b " + "abc" * 50, 9) == "abcabcabc"


def test_tagged_text_is_a_text_that_keeps_its_language_when_sent_on():
    tagged = pickle.loads(pickle.dumps(TaggedText("Қайырлы таң", "kk")))
    assert (tagged, tagged.lang) == ("Қайырлы таң", "kk")
    cut = clean(TaggedText("Қай\x00ырлы", "kk"), 5)
    assert (cut, cut.lang) == ("Қайыр", "kk")
    tagged.tokens = Tokens("", 9, 0, array("i", [5]))
    assert clean(tagged, 3) is tagged
