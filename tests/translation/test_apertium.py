"""Apertium by a program that imitates it, and by the real one where it is installed."""

import shutil
from contextlib import ExitStack

import pytest

from modenc.errors import DataError, MissingExtraError
from modenc.translation.apertium import Apertium, installed_modes, languages_of, mode_between
from modenc.translation.apertium_stream import from_stream, to_stream
from modenc.translation.chains import apertium_chain
from modenc.translation.steps import Chain, Translation, credit

REAL = pytest.mark.skipif(
    shutil.which("apertium") is None or "eng-spa" not in installed_modes(),
    reason="apertium and its pair eng-spa are not installed (apt-get install apertium apertium-eng-spa)",
)


def texts_of(results):
    return [result.text for result in results]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("The cat sleeps", "The cat sleeps.[]"),
        ("The cat sleeps.", "The cat sleeps.[]"),
        ('He said "no."', 'He said "no."[]'),
        ("қайда?", "қайда?[]"),
        ("a/b [c] <d> C# *e* me@f.org ~5", r"a\/b \[c\] \<d\> C[#] [*]e[*] me\@f.org [~]5.[]"),
    ],
)
def test_texts_are_escaped_and_ended(text, sent):
    assert to_stream(text) == sent
    # What comes back as it was sent is the text.
    assert from_stream(sent, text) == Translation(text)


@pytest.mark.parametrize(
    ("answer", "text", "unknown"),
    [
        ("El *zorgle duerme.[]", "El zorgle duerme", 1 / 3),
        ("@one #two *three four.[]", "one two three four", 3 / 4),
        ("la banca/orilla/ribera es vieja.[]", "la banca es vieja", 0),
        (r"24\/7 y *km\/h.[]", "24/7 y km/h", 1 / 3),
        ("[*]estrella [#]1 de *x.[]", "*estrella #1 de x", 1 / 4),
        ("  dos   espacios.[] ", "dos espacios", 0),
        ("se acabó.", "se acabó", 0),
        ("", "", 0),
    ],
)
def test_marks_are_counted_and_taken_away(answer, text, unknown):
    found = from_stream(answer, "no full stop")
    assert found.text == text
    assert found.unknown == pytest.approx(unknown)


def test_a_full_stop_of_the_text_stays():
    assert from_stream("Duerme.[]", "It sleeps.").text == "Duerme."


def test_marked_words_and_alternatives(fake_apertium):
    (found,) = Apertium("eng-kaz").translate(["the blorf bank is gen bil ok"])
    assert found == Translation("THE blorf BANK IS gen bil OK", pytest.approx(3 / 7))


@pytest.mark.parametrize("at", range(4))
def test_a_sentence_that_crashes_costs_itself_alone(fake_apertium, at):
    texts = ["one", "two", "three"]
    texts.insert(at, "crash here")
    found = Apertium("eng-kaz").translate(texts)
    assert texts_of(found) == ["" if "crash" in text else text.upper() for text in texts]
    assert [result.failed for result in found] == ["crashed" if "crash" in text else "" for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("before", ["one", "late one"])
def test_a_sentence_that_hangs_costs_itself_alone(fake_apertium, before):
    """Also where the answer before it is held back until there is more."""
    texts = [before, "hang here", "three", "four"]
    found = Apertium("eng-kaz", seconds=0.5).translate(texts)
    assert texts_of(found) == [before.upper(), "", "THREE", "FOUR"]
    assert [result.failed for result in found] == ["", "timed_out", "", ""]


def test_a_process_may_have_many_open_files(fake_apertium, tmp_path):
    """``select`` takes no file whose number is 1,024 or more."""
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1200:
        pytest.skip("fewer than 1,200 open files are allowed here")
    with ExitStack() as files:
        for _ in range(1030):
            files.enter_context((tmp_path / "open").open("a"))
        assert texts_of(Apertium("eng-kaz").translate(["one", "two"])) == ["ONE", "TWO"]


def test_many_sentences_are_one_start(fake_apertium):
    texts = [f"sentence number {number}" for number in range(5000)]
    assert texts_of(Apertium("eng-kaz").translate(texts)) == [text.upper() for text in texts]
    assert len(fake_apertium.read_text().splitlines()) == 1


def test_a_mode_that_never_translates_is_an_error_with_its_words(fake_apertium):
    with pytest.raises(
        DataError, match=r"it ended each time; its error output: lt-proc: Error: Cannot open bad\.bin"
    ):
        Apertium("bad-bad").translate(["one", "two", "three", "four"])
    with pytest.raises(DataError, match=r"gave no answer within 0\.1 s each time"):
        Apertium("mute-mute", seconds=0.1).translate(["one", "two", "three"])


def test_a_file_may_begin_with_sentences_that_crash(fake_apertium):
    texts = ["crash one", "crash two", "crash three", "crash four", "five"]
    found = Apertium("eng-kaz").translate(texts)
    assert [result.failed for result in found] == ["crashed"] * 4 + [""]
    assert found[-1].text == "FIVE"
    # Also where there is nothing else.
    assert Apertium("eng-kaz").translate(texts[:4]) == [Translation("", failed="crashed")] * 4


def test_modes_that_are_not_there(fake_apertium, tmp_path):
    with pytest.raises(DataError, match=r"spa-eng, spa-eng_US, tur-aze\), found 'eng-kas'; did you mean"):
        Apertium("eng-kas")
    with pytest.raises(DataError, match="no such folder; give the folder of a built language pair"):
        Apertium("eng-kaz", tmp_path / "none")
    (tmp_path / "modes").mkdir()
    with pytest.raises(DataError, match=r"\(there are none\), found 'eng-kaz'; build the pair"):
        Apertium("eng-kaz", tmp_path)
    (tmp_path / "modes" / "eng-kaz.mode").write_text("lt-proc 'eng-kaz.bin'")
    assert texts_of(Apertium("eng-kaz", tmp_path).translate(["built"])) == ["BUILT"]
    assert f"-d {tmp_path} -f none -z eng-kaz" in fake_apertium.read_text()


def test_no_apertium_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="apt-get install apertium apertium-eng-spa"):
        Apertium("eng-kaz")


def test_modes_by_their_languages(fake_apertium, tmp_path):
    assert languages_of("eng-kaz") == ("en", "kk")
    assert languages_of("spa-eng_US") == ("es", "en")
    assert languages_of("eng-kaz-tagger") is None
    assert languages_of("nosuch-xx") is None
    assert mode_between("es", "en") == "spa-eng"
    for mode in ("es-en", "spa-eng"):
        (tmp_path / "modes").mkdir(exist_ok=True)
        (tmp_path / "modes" / f"{mode}.mode").touch()
    with pytest.raises(
        DataError, match=r"several modes from es to en \(es-en, spa-eng\); name one with --mode"
    ):
        mode_between("es", "en", tmp_path)


def test_a_chain_takes_the_worst_share_and_stops_at_a_failure(fake_apertium):
    chain, source, target = apertium_chain([], ["eng", "tr", "az"], None, 5)
    assert (source, target) == ("en", "az")
    assert credit(chain.describe()) == "apertium 9.8.7 (eng-tur, tur-aze)"
    found = chain.translate(["blorf a", "crash", "fine", "blorf a"])
    assert texts_of(found) == ["blorf A", "", "FINE", "blorf A"]
    assert [result.unknown for result in found] == [0.5, 0, 0, 0.5]
    assert found[1].failed == "crashed"
    with pytest.raises(DataError, match="expected a --mode for each of the 2 steps, found 1"):
        apertium_chain(["eng-tur"], ["en", "tr", "az"], None, 5)
    with pytest.raises(DataError, match="expected two languages in each name; give --source"):
        apertium_chain(["eng-kaz-tagger"], [], None, 5)


@pytest.mark.parametrize(
    ("modes", "languages", "message"),
    [
        (
            ["tur-aze", "eng-tur"],
            [],
            "--mode eng-tur: expected a mode from az to tr, found one from en to tr; change it, the order",
        ),
        (
            ["eng-kaz"],
            ["en", "tr"],
            "--mode eng-kaz: expected a mode from en to tr, found one from en to kk;",
        ),
        (
            ["eng-tur", "tur-aze"],
            ["en", "kk", "az"],
            "--mode eng-tur: expected a mode from en to kk, found on",
        ),
    ],
)
def test_modes_fit_each_other_and_the_languages(fake_apertium, modes, languages, message):
    with pytest.raises(DataError, match=message):
        apertium_chain(modes, languages, None, 5)


def test_modes_fit_as_far_as_their_names_say(fake_apertium):
    assert apertium_chain(["eng-tur", "tur-aze"], [], None, 5)[1:] == ("en", "az")
    assert apertium_chain(["eng-kaz"], ["eng", "kk_Latn"], None, 5)[1] == "en"
    assert apertium_chain(["eng-kaz-tagger"], ["en", "tr"], None, 5)[1:] == ("en", "tr")
    assert apertium_chain(["eng-hbs_HR"], ["en", "hr"], None, 5)[1:] == ("en", "hr")


def test_equal_texts_are_translated_once():
    class Counting:
        def translate(self, texts):
            assert texts == ["a", "b"]
            return [Translation(text * 2) for text in texts]

    assert texts_of(Chain((Counting(),)).translate(["a", "", "b", "a"])) == ["aa", "", "bb", "aa"]


@REAL
def test_the_real_one():
    step = Apertium("eng-spa")
    texts = [
        "A man is playing a guitar.",
        "the zorgle is here",
        "24/7 and/or C# *yes* me@home.org [ok] ~5",
        "A woman is slicing an onion",
        "Where is the library?",
    ]
    found = step.translate(texts)
    assert found[0] == Translation("Un hombre está tocando una guitarra.")
    assert "zorgle" in found[1].text
    assert 0 < found[1].unknown < 0.5
    assert all(part in found[2].text for part in ("24/7", "C#", "me@home.org", "[", "]", "~5"))
    assert found[3].text.endswith("cebolla")
    assert found[4].text.endswith("?")
    # Each is translated by itself, whatever is beside it.
    assert step.translate(texts[3:]) == found[3:]
    about = step.describe()
    assert about["tool"].startswith("apertium 3.")
    assert len(about["data"]) == 16
