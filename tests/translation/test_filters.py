import pytest

from modenc.translation import PairFilter, Translation

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
    assert PairFilter("en", "kk").check([text], [result]) == [reason]


def test_a_target_with_a_script_is_expected_in_that_script():
    arabic = Translation("اي كيتاب نيو باگوس بت، لون جي باجا ليوة")
    for target, reason in (("ace_Arab", ""), ("ace", "wrong_script"), ("ace_Latn", "wrong_script")):
        assert PairFilter("en", target).check([EN], [arabic]) == [reason]


def test_settings_can_let_pass():
    pair_filter = PairFilter("en", "kk", max_unknown=1, check_language=False)
    results = [Translation(KK, unknown=1), Translation("Учитель читает книгу.")]
    assert pair_filter.check([EN, EN], results) == ["", ""]
