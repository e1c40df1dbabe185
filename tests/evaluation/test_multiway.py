"""Many languages at once: the same metrics as file by file, each text encoded once, by a tiny hub."""

import numpy as np
import pytest
import tiny_models
from languages import BaseSystem
from suite_parts import restricted
from tiny_recipe import write_table
from tiny_suites import columns, task

from modenc import ModularEncoder
from modenc.errors import DataError
from modenc.evaluation.runner import run_suite
from modenc.evaluation.sts import pair_cosines, spearman
from modenc.evaluation.suite import check_files, load_suite
from modenc.evaluation.systems import ModularSystem

LANGUAGES = ("en", "kk", "az")
COUNT = 24

SUITE = "".join(
    [
        task("all", "multiway_sts", "sts.{lang}.tsv", languages=["en", "kk"]),
        task("all", "multiway_sts", "other.{lang}.tsv", languages=["az"]),
        task(
            "one",
            "sts",
            "sts.{pivot}-{lang}.tsv",
            pairs=["en-kk", "kk-en", "en-az", "az-en", "kk-az", "az-kk"],
        ),
        task("parts", "multiway_bitext", "first.{lang}.tsv", languages=["en", "kk"]),
        task("parts", "multiway_bitext", "last.{lang}.tsv", languages=["en", "kk"]),
        task("whole", "bitext", columns("whole.tsv"), pairs=["en-kk"]),
    ]
)


def _pairs(lang):
    texts = tiny_models.sentences(lang)[: 2 * COUNT]
    return texts[:COUNT], texts[COUNT:]


@pytest.fixture
def data(tmp_path):
    gold = [number % 7 for number in range(COUNT)]
    columns = ("score", "sentence1", "sentence2")
    for left in LANGUAGES:
        for right in LANGUAGES:
            name = f"sts.{left}-{right}.tsv" if left != right else f"sts.{left}.tsv"
            name = "other.az.tsv" if left == right == "az" else name
            write_table(tmp_path / name, columns, zip(gold, _pairs(left)[0], _pairs(right)[1], strict=True))
    texts = {lang: list(enumerate(_pairs(lang)[0])) for lang in ("en", "kk")}
    for lang, numbered in texts.items():
        write_table(tmp_path / f"first.{lang}.tsv", ("id", "text"), numbered[:10])
        # In another order: ids say what belongs together.
        step = 1 if lang == "en" else -1
        write_table(tmp_path / f"last.{lang}.tsv", ("id", "text"), numbered[10:][::step])
    both = zip(_pairs("en")[0], _pairs("kk")[0], strict=True)
    write_table(tmp_path / "whole.tsv", ("en", "kk"), both)
    (tmp_path / "many.toml").write_text(SUITE, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    return ModularEncoder(str(tiny_hub.path))


@pytest.fixture
def counted(encoder, monkeypatch):
    """A system, and the texts that it has encoded, with their languages."""
    system, seen = ModularSystem(encoder, name="tiny"), []
    encode = system.encode

    def counting(texts, lang):
        seen.extend((lang, text) for text in texts)
        return encode(texts, lang)

    monkeypatch.setattr(system, "encode", counting)
    return system, seen


def test_all_pairs_are_what_each_files_set_is(counted, data):
    system, seen = counted
    outcome = run_suite(system, load_suite(data / "many.toml"), data, seed=3)
    values = {result.key: result for result in outcome.results}
    for left, right in (("en", "kk"), ("en", "az"), ("kk", "az")):
        ways = [values[f"one.spearman.{way}"].value for way in (f"{left}-{right}", f"{right}-{left}")]
        pair = values[f"all.spearman.{left}-{right}"]
        assert pair.value == pytest.approx(np.mean(ways))
        assert pair.low < pair.value < pair.high
    for lang in LANGUAGES:
        first, second = (system.encode(list(side), lang) for side in _pairs(lang))
        gold = [number % 7 for number in range(COUNT)]
        assert values[f"all.spearman.{lang}"].value == pytest.approx(spearman(first, second, gold))
    assert values["all.language_bias."].value == pytest.approx(values["one.language_bias."].value)
    assert values["all.language_bias."].n == 6 * COUNT
    for metric in ("xsim_error", "xsim_error_cosine"):
        one, many = (values[f"{name}.{metric}.en-kk"].value for name in ("whole", "parts"))
        assert many == pytest.approx(one)
    distinct = {(lang, text) for lang in LANGUAGES for side in _pairs(lang) for text in side}
    assert sorted(seen[: len(distinct)]) == sorted(distinct)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (slice(0, -1), r"found others in 'az' than in 'en' \(23 and 24 rows\)"),
        (slice(None, None, -1), "found others in 'az' than in 'en'"),
    ],
)
def test_rows_that_are_no_translations_are_refused(counted, data, lines, message):
    header, *rows = (data / "other.az.tsv").read_text(encoding="utf-8").splitlines()
    (data / "other.az.tsv").write_text("\n".join([header, *rows[lines]]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        run_suite(counted[0], load_suite(data / "many.toml"), data, seed=3)


def test_suites_of_fewer_languages(data):
    suite = load_suite(data / "many.toml")
    part, left_out = restricted(suite, ["en", "kk", "uz"])
    assert left_out == ["az"]
    assert [task.name for task in part.task] == ["all", "one", "parts", "parts", "whole"]
    assert part.task[1].pairs == ("en-kk", "kk-en")
    assert restricted(suite, LANGUAGES) == (suite, [])


@pytest.mark.parametrize("kind", ["multiway_sts", "multiway_bitext"])
def test_the_pivot_in_paths_is_each_language_itself(data, kind):
    text = task("own", kind, "{pivot}.{lang}.tsv", languages=["en", "kk"])
    (data / "own.toml").write_text(text, encoding="utf-8")
    suite = load_suite(data / "own.toml")
    with pytest.raises(DataError, match=r"(?s)2 missing:\n  en\.en\.tsv .*\n  kk\.kk\.tsv "):
        check_files(suite, data)


def test_an_id_has_one_text(counted, data):
    lines = (data / "first.kk.tsv").read_text(encoding="utf-8").splitlines()
    path = data / "last.kk.tsv"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + lines[1] + "\n", encoding="utf-8")
    run_suite(counted[0], load_suite(data / "many.toml"), data, seed=3)
    path.write_text(whole + "0\tanother text\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"last\.kk\.tsv: expected one text .* parts in 'kk', found '0' with"):
        run_suite(counted[0], load_suite(data / "many.toml"), data, seed=3)


def test_the_base_has_no_modules_in_it(encoder):
    base, texts = BaseSystem(encoder), _pairs("kk")[0]
    vectors = base.encode(texts, "kk")
    assert vectors == pytest.approx(encoder.encode(texts, lang="base"), abs=1e-5)
    assert pair_cosines(vectors, encoder.encode(texts, lang="kk")).max() < 0.999
    assert base.describe()["kind"] == "base"
