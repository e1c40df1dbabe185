"""Apertium by a program that imitates it, and by the real one where it is installed."""

import shutil
import subprocess

import pytest

from modenc.errors import DataError, MissingExtraError
from modenc.translation import Chain, Translation
from modenc.translation.apertium import Apertium

REAL = pytest.mark.skipif(
    shutil.which("apertium") is None or b"eng-spa" not in subprocess.check_output(["apertium", "-l"]),
    reason="apertium and its pair eng-spa are not installed (apt-get install apertium apertium-eng-spa)",
)


def texts_of(results):
    return [result.text for result in results]


def test_marked_words(fake_apertium):
    (found,) = Apertium("en", "kk").translate(["the blorf bank is gen bil ok"])
    assert found == Translation("THE blorf BANK IS gen bil OK", pytest.approx(3 / 7))


def test_characters_that_mean_something_to_apertium_stay(fake_apertium):
    text = "24/7 AND/OR C# *YES* ME@HOME.ORG ~5 X^2 ~ @ * #1"
    assert Apertium("en", "kk").translate([text]) == [Translation(text)]


@pytest.mark.parametrize("at", range(4))
def test_a_sentence_that_crashes_costs_itself_alone(fake_apertium, at):
    texts = ["one", "two", "three"]
    texts.insert(at, "crash here")
    found = Apertium("en", "kk").translate(texts)
    assert texts_of(found) == ["" if "crash" in text else text.upper() for text in texts]
    assert [result.failed for result in found] == ["crash" in text for text in texts]


def test_a_mode_that_never_translates_is_an_error_with_its_words(fake_apertium):
    with pytest.raises(
        DataError, match=r"expected translations, found none; its error output: lt-proc: Error: Cannot open"
    ):
        Apertium("bad", "bad")


def test_modes_by_their_languages(fake_apertium, tmp_path):
    for pair, mode in (
        (("es", "en"), "spa-eng"),
        (("spa", "eng_US"), "spa-eng_US"),
        (("eng", "hbs_HR"), "eng-hbs_HR"),
    ):
        assert Apertium(*pair).name == mode
    with pytest.raises(DataError, match=r"spa-eng, spa-eng_US, tur-aze\), found 'en-fr'; install its pair"):
        Apertium("en", "fr")
    (tmp_path / "modes").mkdir()
    with pytest.raises(DataError, match=r"\(there are none\), found 'en-kk'"):
        Apertium("en", "kk", tmp_path)
    (tmp_path / "modes" / "eng-kaz.mode").write_text("lt-proc 'eng-kaz.bin'")
    assert texts_of(Apertium("en", "kk", tmp_path).translate(["built"])) == ["BUILT"]
    assert f"-d {tmp_path} eng-kaz" in fake_apertium.read_text()


def test_no_apertium_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="apt-get install apertium apertium-eng-spa"):
        Apertium("en", "kk")


def test_a_chain_takes_the_worst_share_and_stops_at_a_failure(fake_apertium):
    chain = Chain("apertium", (Apertium("eng", "tr"), Apertium("tr", "az")))
    assert str(chain) == "apertium (eng-tur, tur-aze)"
    found = chain.translate(["blorf a", "crash", "fine", "blorf a"])
    assert texts_of(found) == ["blorf A", "", "FINE", "blorf A"]
    assert [result.unknown for result in found] == [0.5, 0, 0, 0.5]
    assert found[1].failed


def test_equal_texts_are_translated_once():
    class Counting:
        def translate(self, texts):
            assert texts == ["a", "b"]
            return [Translation(text * 2) for text in texts]

    assert texts_of(Chain("counting", (Counting(),)).translate(["a", "", "b", "a"])) == ["aa", "", "bb", "aa"]


@REAL
def test_the_real_one():
    step = Apertium("en", "es")
    texts = [
        "A man is playing a guitar.",
        "the zorgle is here",
        "24/7 and/or C# *yes* me@home.org [ok] ~5 x^2 $5 {a} <b>",
        "A woman is slicing an onion",
        "Where is the library?",
    ]
    found = step.translate(texts)
    assert found[0] == Translation("Un hombre está tocando una guitarra.")
    assert "zorgle" in found[1].text
    assert 0 < found[1].unknown < 0.5
    assert all(part in found[2].text for part in ("24/7", "C#", "me@home.org", "[", "]", "~5", "$5", "<b>"))
    assert found[3].text.endswith("cebolla")
    assert found[4].text.endswith("?")
    # Each is translated by itself, whatever is beside it.
    assert step.translate(texts[3:]) == found[3:]
