import numpy as np
import pytest

from modenc.errors import DataError
from modenc.translation.filters import REASONS, FilterSettings, PairFilter, cosines_by, first_reason
from modenc.translation.rows import Layout
from modenc.translation.run import Summary
from modenc.translation.steps import Translated

EN = "The teacher reads a new book in the library every morning."
KK = "Мұғалім күн сайын таңертең кітапханада жаңа кітапты оқиды."


@pytest.mark.parametrize(
    ("text", "result", "reason"),
    [
        (EN, Translated(KK), ""),
        ("", Translated(""), ""),
        ("24/7", Translated("24/7"), ""),
        (EN, Translated("", failed="crashed"), "crashed"),
        (EN, Translated("", failed="timed_out"), "timed_out"),
        (EN, Translated(""), "empty"),
        (EN, Translated(KK, unknown=0.3), "unknown_words"),
        (EN, Translated(KK, unknown=0.25), ""),
        (EN, Translated(EN.upper().replace(".", "!")), "copy"),
        (EN, Translated(KK * 5), "length"),
        (KK * 5, Translated(EN), "length"),
        ("Иә", Translated("Иә, әрине, келемін"), ""),
        (EN, Translated("Muǵalim kún saıyn kitaphanada jańa kitap oqıdy."), "wrong_script"),
        (EN, Translated("Учитель каждое утро читает новую книгу в школьной библиотеке."), "wrong_language"),
    ],
)
def test_each_reason(text, result, reason):
    reasons, cosines = PairFilter(FilterSettings(), "en", "kk").check([(text, result)])
    assert reasons == [reason]
    assert cosines == [None]


def test_settings_can_let_pass():
    settings = FilterSettings(max_unknown=1, max_length_ratio=100, check_language=False)
    pairs = [(EN, Translated(KK * 5, unknown=1)), (EN, Translated("Учитель читает книгу."))]
    assert PairFilter(settings, "en", "kk").check(pairs)[0] == ["", ""]


def test_vectors_are_made_of_what_passed_all_else():
    seen = []

    def cosines(texts, translations):
        seen.extend(zip(texts, translations, strict=True))
        return np.array([0.5, 0.99994], dtype=np.float32)[: len(texts)]

    pairs = [
        (EN, Translated(KK)),
        (EN, Translated("")),
        ("", Translated("")),
        ("Hello!", Translated("Сәлем!")),
    ]
    pair_filter = PairFilter(FilterSettings(min_similarity=0.7), "en", "kk", cosines)
    assert pair_filter.check(pairs) == (["dissimilar", "empty", "", ""], [0.5, None, None, 0.9999])
    assert seen == [(EN, KK), ("Hello!", "Сәлем!")]


def test_cosines_are_of_each_sides_own_language():
    def encode(texts, lang):
        return np.array([[3, 4] if lang == "en" else [len(text), 0] for text in texts], dtype=np.float32)

    cosines = cosines_by(encode, "en", "kk")
    assert cosines(["a", "b"], ["c", "dd"]).tolist() == pytest.approx([0.6, 0.6])


def test_the_first_reason_of_a_row_counts():
    assert first_reason(["", ""]) == ""
    assert first_reason(["copy", "", "crashed", "length"]) == "crashed"
    dropped = {"crashed": 1, "copy": 1200}
    assert Summary(1500, 299, dropped, 0).line() == (
        "read 1,500, kept 299 (1 crashed the engine, 1,200 copies of the source)"
    )
    assert Summary(2, 2, {}, 0).line() == "read 2, kept 2"
    assert all(reason for reason in REASONS.values())


def test_columns_called_by_the_language_keep_their_text(tmp_path):
    layout = Layout(("en", "title"), "en", "kk", unknown=True)
    row = {"en": "a", "title": "b", "n": "1"}
    results = [Translated("A", 0.2), Translated("B", 0.1)]
    assert layout.record(row, ["a", "b"], results, [None, None]) == {
        "en": "a", "title": "B", "n": "1", "kk": "A", "title_en": "b", "unknown": 0.2
    }  # fmt: skip
    without = Layout(("eng",), "en", "kk", originals=False, similarity=True)
    assert without.record({"eng": "a"}, ["a"], results[:1], [0.5]) == {"kk": "A", "similarity": 0.5}
    with pytest.raises(DataError, match="row 3: expected no column 'kk', which is written beside"):
        layout.texts({**row, "kk": "c"}, tmp_path / "t.tsv", 3)
