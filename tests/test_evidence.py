import unicodedata

import pytest

from modenc.evidence import language_evidence
from modenc.langid import Py3LangidIdentifier

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
    "https://example.org/path?query=weather&lang=en#top {}",
    "{} www.example.co.uk/shop",
    "{} example.com",
    "{} report-of-the-weather.pdf",
    "{} first.last+tag@mail.example.org",
    '<div class="article-body"><p>{}</p></div>',
    '<a href="https://example.org/the-weather" title="read more about it">{}</a>&nbsp;<br/>',
    "<script>function weatherReport(today) {{ return today; }}</script>{}",
    "[url=https://example.org]{}[/url]",
    "[{}](https://example.org/the/weather)",
    "{} `for day in all_of_the_days: print(day)`",
    "```python\nfor day in days:\n    print(day)\n```\n{}",
    "print(the_weather_of(today)) {}",
    "/usr/local/share/weather/report {}",
    "{{user_name}} {{{{ the template }}}} %(count)s {}",
    "@weather_report {} #WeatherToday #sunny",
    "query: {}",
    "passage: {}",
    "2024-05-17 14:33:02 [12345] {} (x3)",
    '{{"title": "{}", "published_at": 20240517}}',
    "iPhone MediaMarkt {}",
    "\\section{{{}}} \\textbf{{bold}}",
    "{} data:image/png;base64,xdcUhPjPmS3b0eQRzCAS54yJxdcUhPjPmS3b0eQRzCAS54yJ",
    "xdcUhPjPmS3b0eQRzCAS54yJxdcUhPjPmS3b0eQRzCAS54yJxdcUhPjPmS/3b0eQRzCAS54yJ== {}",
    "RT @some_user: {}",
    "{} user@example.org:8080",
    "C:\\Users\\John\\report.docx {}",
    "INFO:root:main.py:33 - {}",
    "SELECT name FROM users WHERE id = 3; -- {}",
    "{} (Visual Studio Code)",
    "The Lord of the Rings: {}",
]


@pytest.fixture(scope="module")
def identifier():
    return Py3LangidIdentifier()


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("addition", ADDITIONS)
def test_additions_are_no_evidence(identifier, addition, code):
    text = addition.format(SENTENCES[code])
    assert identifier.match([text], list(SENTENCES))[0].language == code
    assert identifier.identify([text])[0].code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Купил iPhone 15 Pro Max в магазине MediaMarkt", "ru"),
        ("Смотрел вчера Harry Potter and the Philosopher's Stone", "ru"),
        ("iPhoneを買いました。", "ja"),
        ("新しいMacBook Airを買った。", "ja"),
        ("我用 Visual Studio Code 写 Python 程序", "zh"),
        ("Microsoft Office 365 프로그램을 설치했어요", "ko"),
        ("MediaMarkt дүкенінен Samsung Galaxy S24 Ultra сатып алдым", "kk"),
        ("The Russian word Здравствуйте means hello.", "en"),
        ("I went to 東京 and 大阪 with my parents last summer.", "en"),
        ("Wir haben gestern Толстой gelesen und darüber gesprochen.", "de"),
    ],
)
def test_a_name_in_another_script_does_not_outvote_a_sentence(identifier, text, code):
    assert identifier.match([text], list(SENTENCES))[0].language == code


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


@pytest.mark.parametrize(
    "text",
    ["", "  ", "123 - 45", "😀!", "\x00", "https://example.org/the/weather", "a@b.org", "<br>", "@me #fun"],
)
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
