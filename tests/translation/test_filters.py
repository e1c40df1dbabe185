import numpy as np
import pytest

from modenc.errors import DataError
from modenc.translation.output_columns import OutputColumns
from modenc.translation.pair_filter import REASONS, FilterSettings, PairFilter, first_reason, make_similarity
from modenc.translation.steps import Translation
from modenc.translation.translate_file import Summary

EN = "The teacher reads a new book in the library every morning."
KK = "Мұғалім күн сайын таңертең кітапханада жаңа кітапты оқиды."


@pytest.mark.parametrize(
    ("text", "result", "reason"),
    [
        (EN, Translation(KK), ""),
        ("", Translation(""), ""),
        ("24/7", Translation("24/7"), ""),
        (EN, Translation("", failed="crashed"), "crashed"),
        (EN, Translation("", failed="timed_out"), "timed_out"),
        (EN, Translation(""), "empty"),
        (EN, Translation(KK, unknown=0.3), "unknown_words"),
        (EN, Translation(KK, unknown=0.25), ""),
        (EN, Translation(EN.upper().replace(".", "!")), "copy"),
        (EN, Translation(KK * 5), "length"),
        (KK * 5, Translation(EN), "length"),
        ("Иә", Translation("Иә, әрине, келемін"), ""),
        (EN, Translation("Muǵalim kún saıyn kitaphanada jańa kitap oqıdy."), "wrong_script"),
        (EN, Translation("Учитель каждое утро читает новую книгу в школьной библиотеке."), "wrong_language"),
    ],
)
def test_each_reason(text, result, reason):
    reasons, cosines = PairFilter(FilterSettings(), "en", "kk").check([(text, result)])
    assert reasons == [reason]
    assert cosines == [None]


def test_a_target_with_a_script_is_expected_in_that_script():
    arabic = Translation("اي كيتاب نيو باگوس بت، لون جي باجا ليوة")
    for target, reason in (("ace_Arab", ""), ("ace", "wrong_script"), ("ace_Latn", "wrong_script")):
        assert PairFilter(FilterSettings(max_length_ratio=9), "en", target).check([(EN, arabic)])[0] == [
            reason
        ]


def test_settings_can_let_pass():
    settings = FilterSettings(max_unknown=1, max_length_ratio=100, check_language=False)
    pairs = [(EN, Translation(KK * 5, unknown=1)), (EN, Translation("Учитель читает книгу."))]
    assert PairFilter(settings, "en", "kk").check(pairs)[0] == ["", ""]


def test_vectors_are_made_of_what_passed_all_else():
    seen = []

    def cosines(texts, translations):
        seen.extend(zip(texts, translations, strict=True))
        return np.array([0.5, 0.99994], dtype=np.float32)[: len(texts)]

    pairs = [
        (EN, Translation(KK)),
        (EN, Translation("")),
        ("", Translation("")),
        ("Hello!", Translation("Сәлем!")),
    ]
    pair_filter = PairFilter(FilterSettings(min_similarity=0.7), "en", "kk", cosines)
    assert pair_filter.check(pairs) == (["dissimilar", "empty", "", ""], [0.5, None, None, 0.9999])
    assert seen == [(EN, KK), ("Hello!", "Сәлем!")]


def test_cosines_are_of_each_sides_own_language():
    def encode(texts, lang):
        return np.array([[3, 4] if lang == "en" else [len(text), 0] for text in texts], dtype=np.float32)

    cosines = make_similarity(encode, "en", "kk")
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
    layout = OutputColumns(("en", "title"), "en", "kk", unknown=True)
    row = {"en": "a", "title": "b", "n": "1"}
    results = [Translation("A", 0.2), Translation("B", 0.1)]
    assert layout.output_row(row, ["a", "b"], results, [None, None]) == {
        "en": "a", "title": "B", "n": "1", "kk": "A", "title_en": "b", "unknown": 0.2
    }  # fmt: skip
    without = OutputColumns(("eng",), "en", "kk", originals=False, similarity=True)
    assert without.output_row({"eng": "a"}, ["a"], results[:1], [0.5]) == {"kk": "A", "similarity": 0.5}
    with pytest.raises(DataError, match="row 3: expected no column 'kk', which is an output column"):
        layout.texts({**row, "kk": "c"}, tmp_path / "t.tsv", 3)
    for code in ("en", "eng_Latn", "en-US"):
        assert OutputColumns((code,), "en", "kk").output_column(code) == "kk"
    # "text" and "first" would pass for a script and a variant of BCP 47.
    names = ("en_text", "en_first", "en_second", "en_title")
    layout = OutputColumns(names, "en", "kk")
    assert [layout.output_column(name) for name in names] == list(names)
    with pytest.raises(DataError, match="found 'en' and 'eng'; the translations of both would go into 'kk'"):
        OutputColumns(("en", "eng"), "en", "kk")
