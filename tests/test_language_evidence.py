import time
import unicodedata

import pytest

from modenc.langid import Py3LangidIdentifier, language_evidence

SENTENCES = {
    "kk": "Бүгін ауа райы жақсы болады.",
    "ru": "Сегодня будет хорошая погода.",
    "ja": "今日は天気がいいです。",
    "zh": "今天天气很好，我们去公园吧。",
    "ko": "오늘은 날씨가 좋습니다.",
    "ug": "بۈگۈن ھاۋا ناھايىتى ياخشى بولىدۇ.",
    "tr": "Bugün hava çok güzel olacak.",
    "de": "Heute wird das Wetter schön.",
    "en": "The weather will be nice today.",
}
ADDITIONS = [
    "{} https://www.example.com/news/today-weather-report",
    "{} example.com/the/weather/report.html",
    "{} first.last+tag@mail.example.org",
    '<div class="article-body"><p>{}</p></div>&nbsp;<!-- the weather of today -->',
    "<script>function weatherReport(today) {{ return today; }}</script>{}",
    "{} `for day in all_of_the_days: print(day)`",
    "```python\nfor day in days:\n    print(day)\n```\n{}",
    "@weather_report {} #WeatherToday #sunny",
    "2024-05-17 14:33:02 [12345] {} (x3)",
    "passage: {}",
]
# Longer than what is kept of a text.
HEADS = [
    '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/main.css">'
    * 100,
    "<style>" + ".header-nav { margin: 0 auto; font-weight: bold; } " * 200 + "</style>",
    "https://www.example.com/news/today-weather-report " * 400,
    "```python\n" + "for item in items:\n    print(item)\n" * 300 + "```",
]


@pytest.fixture(scope="module")
def identifier():
    return Py3LangidIdentifier()


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("addition", ADDITIONS)
def test_additions_are_no_evidence(identifier, addition, code):
    text = addition.format(SENTENCES[code])
    assert identifier.match([text], list(SENTENCES))[0].modules == code
    assert identifier.identify([text])[0].code == code


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("head", HEADS)
def test_words_after_a_long_head_are_read(identifier, head, code):
    assert identifier.match([f"{head} {SENTENCES[code]}"], list(SENTENCES))[0].modules == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("什么是machine learning？", "zh"),
        ("npm install が動かない", "ja"),
        ("Как установить python package через pip install?", "ru"),
        ("MediaMarkt дүкенінен Samsung Galaxy S24 Ultra сатып алдым", "kk"),
        ("He said спасибо and left.", "en"),
        ("Das Wort привет bedeutet hallo.", "de"),
    ],
)
def test_names_and_terms_in_another_script_do_not_outvote_a_sentence(identifier, text, code):
    assert identifier.match([text], list(SENTENCES))[0].modules == code


@pytest.mark.parametrize(
    "text",
    [
        "Ｍｏｒｇｅｎ ｗｉｒｄ ｄａｓ Ｗｅｔｔｅｒ ｓｃｈöｎｅｒ．",
        "ﺑﯜﮔﯜﻥ ﮬﺎﯞﺍ ﻧﺎﮬﺎﻳﯩﺘﻰ ﻳﺎﺧﺸﻰ",
        "ｶﾞｯｺｳﾆ ｲｷﾏｼﾀ",
        "𝓗𝓮𝓵𝓵𝓸, 𝓱𝓸𝔀 𝓪𝓻𝓮 𝔂𝓸𝓾 𝓽𝓸𝓭𝓪𝔂?",
    ],
)
def test_compatibility_characters_are_read_as_tokenizers_read_them(identifier, text):
    folded = unicodedata.normalize("NFKC", text)
    assert folded != text
    assert identifier.identify([text]) == identifier.identify([folded])
    assert identifier.match([text], ["de", "ug"]) == identifier.match([folded], ["de", "ug"])


NO_WORDS = ["", "123 - 45", "😀!", "\x00", "https://example.org/the/weather", "a@b.org", "<br>", "@me #fun"]


@pytest.mark.parametrize("text", NO_WORDS)
def test_without_words_there_is_no_evidence(text):
    assert language_evidence(text) == ("", None)


@pytest.mark.parametrize(
    "text",
    [
        "O`zbekiston go`zal yurt.",
        "Er ging nach Hause. Sie blieb.",
        "Mr. Smith, e.g. and so on; a < b and c > d",
        "либо да/нет/не знаю",
        "Das Haus der Familie",
        "1.5 Litr su iç",
    ],
)
def test_words_stay(text):
    words = language_evidence(text).words
    assert sum(map(str.isalpha, words)) >= 0.8 * sum(map(str.isalpha, text))


UNITS = [
    "<a '",
    "<style",
    "<!-- ",
    "```",
    "~~~ ```",
    "` ",
    "&",
    "a.",
    "a-",
    "a@",
    "a.@",
    "a://",
    "#a",
    "1 ",
    "A ",
]


@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_a_texts_length_alone(unit):
    def seconds(length):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            language_evidence(unit * (length // len(unit)))
            times.append(time.perf_counter() - start)
        return min(times)

    # Ten times the length takes a hundred times as long in quadratic time.
    assert seconds(50_000) < 40 * seconds(5_000) + 0.01


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Қайырлы таң", "Cyrl"), ("خەيرلىك ئەتىگەن", "Arab"), ("Sabahınız xeyir", "Latn"), ("ok", "Latn"),
        ("한국어", "Hang"), ("你好", "Hani"), ("ひらがな", "Hira"), ("ሰላም", "Ethi"), ("नमस्ते", "Deva"),
        ("сөз word сөздер", "Cyrl"), ("ok, қала", "Cyrl"), ("日本語のテキスト", "Kana"), ("ʻ’ 1", None),
    ],
)  # fmt: skip
def test_script(text, script):
    assert language_evidence(text).script == script
