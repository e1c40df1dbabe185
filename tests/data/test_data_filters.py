"""Cleaning, dropping and refusing, with an identifier that the tests steer."""

from dataclasses import asdict, fields

import pytest

from modenc.data import filters
from modenc.data.filters import Filters, LanguageCheck, TextFilter, summary
from modenc.data.kinds import PARAPHRASES, TEXT
from modenc.data.text import is_blank, sentence_key
from modenc.errors import DataError
from modenc.langid import Identification, get_identifier
from modenc.recipe.loader import default_section


class FakeIdentifier:
    """Takes texts with « for Kyrgyz, with ~ for Russian without confidence, all others for Kazakh."""

    languages_known = frozenset({"kk", "ky", "ru"})

    def identify(self, texts, languages=None):
        return [
            Identification("ky", 0.99)
            if "«" in text
            else Identification("ru", 0.5)
            if "~" in text
            else Identification("kk", 0.99)
            for text in texts
        ]


ROW_CONDITIONS = Filters(min_chars=4, max_chars=60)


@pytest.fixture(autouse=True)
def identify_with(monkeypatch):
    """Has lines identified by an object; here by a FakeIdentifier at first."""

    def identify_with(identifier):
        monkeypatch.setattr(filters, "get_identifier", lambda: identifier)

    identify_with(FakeIdentifier())
    return identify_with


def test_the_default_filters_are_a_recipes():
    data = default_section("data")
    assert {field.name: getattr(data, field.name) for field in fields(Filters)} == asdict(Filters())


def _kept(lines, lang="kk"):
    text_filter = TextFilter(ROW_CONDITIONS, lang)
    rows = text_filter.select(({"text": line} for line in lines), TEXT)
    return [row["text"] for row in rows], text_filter.counts


@pytest.mark.parametrize(
    "texts",
    [
        ("Oʻzbekiston katta davlat.", "O‘zbekiston katta davlat", "O'zbekiston katta davlat!"),
        ("O`ZBEKISTON KATTA DAVLAT", "oʼzbekiston katta davlat"),
        ("«Hello», world!", "hello world", "Ｈｅｌｌｏ， ｗｏｒｌｄ．"),
        ("Straße", "STRASSE"),
        ("Café", "Cafe\u0301", "ca\u00adfé"),
        ("你好，世界。", "你好 世界"),
        ("عـــربي", "عربي"),
        ("كيف الحال؟", "كيف الحال ?"),
        ("10 %", "10%"),
        ("5 – 6", "5-6", "5−6"),
        ("Hello—world", "Hello – world", "«Hello» -- world"),
        ("What??", "What?", "What ?!"),
        ("ሰላም ነው፧", "ሰላም ነው?"),
        ("i\u0307stanbul", "İstanbul", "istanbul"),
        ("...and so on", "and so on…"),
    ],
)  # fmt: skip
def test_sentence_key_is_equal_for_spellings_of_one_sentence(texts):
    assert len({sentence_key(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ("1.5", "15", "150", "1,5", "1:5", "-15", "1/5", "15 %", "15 €"),
        ("C++", "C#", "C", "C--C"),
        ("He came.", "He came?"),
        ("now here", "nowhere"),
        ("कि", "का"),
        ("bo'r", "bor"),
        (".5", "5", "-.5", "-5"),
        ("What?", "What"),
    ],
)
def test_sentence_key_differs_for_other_sentences(texts):
    assert len({sentence_key(text) for text in texts}) == len(texts)


def test_sentence_key_folds_case_by_the_rules_of_the_language():
    assert sentence_key("ISPARTA", "tr") == sentence_key("ısparta", "tr") != sentence_key("isparta", "tr")
    assert sentence_key("IT IS", "en") == sentence_key("it is")
    assert sentence_key("!? ...", "tr") == "?"
    assert sentence_key(" — ...") == ""


@pytest.mark.parametrize(
    "text", ["\u3164", "\u115f", "\u2800", "ـــ", "ーー", "===", "＝＝", "─────", "|---|", "■", "¿?"]
)
def test_is_blank_for_texts_that_draw_lines_or_nothing(text):
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", ["a", "٥", "東", "€", "∑", "→", "©", "👍", "❤\ufe0f", "▶\ufe0f", "--- a ---"]
)
def test_is_blank_is_false_for_letters_digits_and_symbols(text):
    assert not is_blank(text)


def test_every_line_that_goes_is_counted_under_its_reason():
    lines = [
        "Бұл бір ұзын қазақша сөйлем екен.",
        "бұл бір ұзын қазақша сөйлем екен!",
        "12 34 56",
        "",
        "аб",
        "ұзын " * 20,
        "This sentence is in another script.",
        "Бул «башка» тилдеги узун сүйлөм экен.",
        "Бұл ~ екіұшты ұзын сөйлем болып тұр.",
        "«қысқа» сөз",
        "Дыбыс\x07сыз таңба",
    ]
    kept, report = _kept(lines)
    assert kept == [lines[0], lines[8], lines[9], "Дыбыссыз таңба"]
    assert summary(report) == (
        "read 11, kept 4 (2 empty, 1 duplicate, 1 too short, 1 too long, 1 wrong script, 1 wrong language)"
    )


def test_a_language_the_identifier_does_not_know_is_not_judged_by_it():
    line = "Бу «башка» тилдеги узун сүйлөм экен."
    assert LanguageCheck("tt").reasons([line]) == [""]
    assert LanguageCheck("kk").reasons([line]) == ["wrong_language"]


def test_a_language_that_is_not_known_is_told_from_the_pivot(identify_with):
    class English(FakeIdentifier):
        languages_known = frozenset({"en", "fr"})

        def identify(self, texts, languages=None):
            return [Identification("en" if "the" in text else "fr", 0.99) for text in texts]

    lines = ["This is the wrong side of a pair.", "Hemmesi dogry, ine şeýle sözlem."]
    identify_with(English())
    alone, with_pivot = LanguageCheck("tk"), LanguageCheck("tk", "en")
    assert alone.reasons(lines) == ["", ""]
    assert with_pivot.reasons(lines) == ["wrong_language", ""]


@pytest.mark.parametrize("check_script", [True, False])
def test_only_its_script_tells_against_a_line_of_no_known_language(identify_with, check_script):
    identify_with(get_identifier())
    check = LanguageCheck("en", filters=Filters(check_script=check_script))
    reasons = check.reasons(["ꦲꦏ꧀ꦱꦫꦗꦮ" * 5, "This is an ordinary English line of words."])
    assert reasons == ["wrong_script" if check_script else "", ""]


def test_near_relatives_are_not_another_language(identify_with):
    class Norwegian(FakeIdentifier):
        languages_known = frozenset({"no", "nn", "hr", "sr"})

        def identify(self, texts, languages=None):
            return [Identification("nn", 0.99) for _ in texts]

    identify_with(Norwegian())
    assert LanguageCheck("no").reasons(["Dette er ei ganske lang setning."]) == [""]


def test_a_bad_negative_goes_alone_and_a_pair_of_one_sentence_goes_whole():
    rows = [
        {"anchor": "бірінші сөйлем", "positive": "екінші сөйлем", "negative": "аб"},
        {"anchor": "үшінші сөйлем", "positive": "Үшінші сөйлем!", "negative": "төртінші"},
        {"anchor": "бесінші сөйлем", "positive": "sixth sentence"},
    ]
    text_filter = TextFilter(ROW_CONDITIONS, "kk")
    assert list(text_filter.select(rows, PARAPHRASES)) == [
        {"anchor": "бірінші сөйлем", "positive": "екінші сөйлем", "negative": ""}
    ]
    assert (text_filter.counts["identical"], text_filter.counts["wrong_script"]) == (1, 1)


def test_rows_with_a_sentence_of_evaluation_data_are_dropped():
    rows = [
        {"anchor": "бірінші сөйлем", "positive": "екінші сөйлем", "negative": "ҮШІНШІ сөйлем!"},
        {"anchor": "төртінші сөйлем", "positive": "«Үшінші» сөйлем"},
    ]
    text_filter = TextFilter(ROW_CONDITIONS, "kk", not_in={sentence_key("үшінші сөйлем")})
    assert [row["negative"] for row in text_filter.select(rows, PARAPHRASES)] == [""]
    assert summary(text_filter.counts) == "read 2, kept 1 (1 in evaluation data)"


def test_batches_keep_all_rows_in_order():
    words = [f"сөйлем нөмірі {i}" for i in range(2500)]
    assert _kept(words)[0] == words


def _sample(own, other):
    lines = [f"Бұл қазақша жазылған сөйлем нөмірі {i}" for i in range(own)]
    return lines + [f"Бул «кыргызча» жазылган сүйлөм номери {i}" for i in range(other)]


def _check_share(own, other):
    text_filter = TextFilter(ROW_CONDITIONS, "kk")
    list(text_filter.select(({"text": line} for line in _sample(own, other)), TEXT))
    text_filter.check.check_language_share()


def test_a_corpus_of_another_language_is_refused_with_numbers():
    _check_share(own=60, other=40)
    message = r"kk: 83% of 1,000 lines look like ky \(Kyrgyz\), e\.g\. 'Бул "
    with pytest.raises(DataError, match=f"{message}.*expected at least 50% Kazakh, found 17%"):
        _check_share(own=170, other=830)


def test_a_few_lines_are_not_refused():
    _check_share(own=0, other=19)
    with pytest.raises(DataError, match="100% of 20 lines look like ky"):
        _check_share(own=0, other=20)


def test_a_corpus_in_another_script_is_refused():
    text_filter = TextFilter(ROW_CONDITIONS, "kk")
    list(text_filter.select(({"text": f"A sentence of English letters, no {i}"} for i in range(60)), TEXT))
    with pytest.raises(DataError, match=r"kk: 100% of 60 lines look like script Latn"):
        text_filter.check.check_language_share()
