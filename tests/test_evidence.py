import time
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
    "{} example.com",
    "{} first.last+tag@mail.example.org",
    '<div class="article-body"><p>{}</p></div>',
    "<script>function weatherReport(today) {{ return today; }}</script>{}",
    "[url=https://example.org]{}[/url]",
    "{} `for day in all_of_the_days: print(day)`",
    "```python\nfor day in days:\n    print(day)\n```\n{}",
    "print(the_weather_of(today)) {}",
    "/usr/local/share/weather/report {}",
    "{{user_name}} {{{{ the template }}}} %(count)s {}",
    "@weather_report {} #WeatherToday #sunny",
    "query: {}",
    "2024-05-17 14:33:02 [12345] {} (x3)",
    '{{"title": "{}", "published_at": 20240517}}',
    "iPhone MediaMarkt {}",
    "\\section{{{}}} \\textbf{{bold}}",
    "{} data:image/png;base64,xdcUhPjPmS3b0eQRzCAS54yJxdcUhPjPmS3b0eQRzCAS54yJ",
    "C:\\Users\\John\\report.docx {}",
    "{} (Visual Studio Code)",
    "The Lord of the Rings: {}",
    "title: {}\npublished: true\nauthor: null\ntags: news",
    'msgid "The weather will be nice today"\nmsgstr "{}"',
    ".btn {{ color: red; font-weight: bold; }} {}",
    "$ sudo apt-get update && sudo apt-get install -y nginx {}",
    '<img src="a.png" alt="the price a > b is better">{}',
    "v1.2.3-beta.1 (build: 4f5e6a7, branch: main) {}",
    "/* the weather of today */ {} <!-- the <b>weather</b> of today -->",
    "{{% if user.is_active %}}{}{{% endif %}}",
    "Instruct: Given a web search query, retrieve relevant passages\nQuery: {}",
    "为这个句子生成表示以用于检索相关文章：{}",
]
# Longer than what is kept of a text.
HEADS = [
    '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/main.css">'
    * 100,
    "<style>" + ".header-nav { margin: 0 auto; font-weight: bold; } " * 200 + "</style>",
    '<img src="data:image/png;base64,' + "xdcUhPjPmS3b0eQRzCAS54yJ" * 500 + '">',
    "https://www.example.com/news/today-weather-report " * 400,
    "<!-- " + "a comment on the weather of today " * 300 + "-->",
    "```python\n" + "for item in items:\n    print(item)\n" * 300 + "```",
    "Home | About Us | Products | Contact | My Account | Shopping Cart\n" * 150,
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


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("head", HEADS)
def test_words_after_a_long_head_are_read(identifier, head, code):
    assert identifier.match([f"{head} {SENTENCES[code]}"], list(SENTENCES))[0].language == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("python 설치 방법", "ko"),
        ("docker 사용법", "ko"),
        ("什么是machine learning？", "zh"),
        ("如何安装 python package", "zh"),
        ("git 教程", "zh"),
        ("dockerのinstall方法", "ja"),
        ("npm install が動かない", "ja"),
        ("Как установить python package через pip install?", "ru"),
        ("machine learning деген не?", "kk"),
        ("What does 你好 mean?", "en"),
        ("The phrase как дела means how are you", "en"),
        ("He said спасибо and left.", "en"),
        ("She plays Go (囲碁) every day.", "en"),
        ("Das Wort привет bedeutet hallo.", "de"),
    ],
)
def test_terms_in_latin_script_do_not_outvote_other_scripts_nor_quotes_outvote_latin(identifier, text, code):
    assert identifier.match([text], list(SENTENCES))[0].language == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Azərbaycan Prezidenti Yeni Fərman İmzaladı", "az"),
        ("CUMHURBAŞKANI YENİ KARARNAMEYİ İMZALADI", "tr"),
        ("O'zbekiston Respublikasi Prezidenti Yangi Farmonni Imzoladi", "uz"),
        ("Der Bundeskanzler Besucht Heute Die Stadt Köln", "de"),
    ],
)
def test_a_title_is_no_name(identifier, text, code):
    assert language_evidence(text).words == text
    assert identifier.match([text], [*SENTENCES, "az", "uz"])[0].language == code


def test_a_name_before_chinese_without_a_blank_leaves_the_chinese():
    assert language_evidence("我用Visual Studio Code写程序").script == "Hani"
    assert "写程序" in language_evidence("我用 Visual Studio Code写程序").words


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


NO_WORDS = ["", "123 - 45", "😀!", "\x00", "https://example.org/the/weather", "a@b.org", "<br>", "@me #fun"]
NO_WORDS += ["query: ", "пример.рф", "main.cpp", "__init__", "@你好", "550e8400-e29b-41d4-a716-446655440000"]
NO_WORDS += ["v1.2.3", "--verbose", "$ ls", "x = y + z", "2024-01-01T12:00:00Z", "10 km/h"]


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
    '<a "',
    "<a '",
    "<style",
    "<!-- ",
    " /* ",
    "```",
    "~~~ ```",
    "{a:",
    "{{",
    "[a=",
    "](",
    "f(",
    "&",
    "a = ",
]
UNITS += ["a=a+", "a.", "a:", "a-", "a_", "a@", "a1.", "/a", "./", "aA", "#a", "--", 'msgid "', '"a":', "a: "]
UNITS += ["sudo ", "git ", "if a.", "for a in ", "Instruct: ", "A ", "A A of ", "A | "]


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
