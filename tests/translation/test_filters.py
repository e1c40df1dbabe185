import pytest

from modenc.cli.translate import TranslationJob
from modenc.errors import DataError
from modenc.translation import Translation
from modenc.translation.pair_filter import FilterSettings, PairFilter, first_reason

EN = "The teacher reads a new book in the library every morning."
KK = "Мұғалім күн сайын таңертең кітапханада жаңа кітапты оқиды."


@pytest.mark.parametrize(
    ("text", "result", "reason"),
    [
        (EN, Translation(KK), ""),
        ("", Translation(""), ""),
        ("24/7", Translation("24/7"), ""),
        (EN, Translation("", failed=True), "failed"),
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
    assert PairFilter(FilterSettings(), "en", "kk").check([text], [result]) == [reason]


def test_a_target_with_a_script_is_expected_in_that_script():
    arabic = Translation("اي كيتاب نيو باگوس بت، لون جي باجا ليوة")
    for target, reason in (("ace_Arab", ""), ("ace", "wrong_script"), ("ace_Latn", "wrong_script")):
        pair_filter = PairFilter(FilterSettings(max_length_ratio=9), "en", target)
        assert pair_filter.check([EN], [arabic]) == [reason]


def test_settings_can_let_pass():
    settings = FilterSettings(max_unknown=1, max_length_ratio=100, check_language=False)
    results = [Translation(KK * 5, unknown=1), Translation("Учитель читает книгу.")]
    assert PairFilter(settings, "en", "kk").check([EN, EN], results) == ["", ""]


def test_the_first_reason_of_a_row_counts():
    assert first_reason(["", ""]) == ""
    assert first_reason(["copy", "", "failed", "length"]) == "failed"


def test_columns_called_by_the_language_keep_their_text(tmp_path):
    job = TranslationJob("en", "kk", ("en", "title"))
    assert (job.places("en"), job.places("title")) == (("en", "kk"), ("title_en", "title"))
    source = tmp_path / "t.tsv"
    for taken in ("kk", "title_en"):
        source.write_text(f"en\ttitle\t{taken}\na\tb\tc\n")
        with pytest.raises(
            DataError, match=f"row 1: expected no column '{taken}', which is an output column"
        ):
            job.count(str(source))


def test_rows_have_the_columns_of_the_first_one(tmp_path):
    source = tmp_path / "t.jsonl"
    source.write_text('{"text": "a", "n": 1}\n{"n": 2, "text": "b"}\n')
    assert TranslationJob("en", "kk").count(str(source)) == 2
    source.write_text('{"text": "a"}\n{"text": "b", "n": 1}\n')
    with pytest.raises(
        DataError, match="row 2: expected the columns of row 1, found a difference in n; give"
    ):
        TranslationJob("en", "kk").count(str(source))
