"""``benchmarks/kept_results.py``: which stored results stay when some of a hub's languages change."""

from dataclasses import replace

import pytest
from tiny_suites import columns, task

from modenc.evaluation.results import Result, SystemResults
from modenc.evaluation.suite import load_suite

NOW = {"kind": "modular", "precision": "fp32", "modules": {"en": "1", "kk": "2"}, "dev_curves": {}}


@pytest.fixture(scope="module")
def kept_results(program):
    return program("kept_results")


def stored(about=NOW, results=(), items=None, skipped=()):
    return SystemResults("align", "two", 13, 1.0, {"system": about}, tuple(results), items or {}, skipped)


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        (NOW, set()),
        ({**NOW, "modules": {"en": "1", "kk": "3"}, "dev_curves": {"kk": {}}}, {"kk"}),
        ({**NOW, "modules": {"en": "1"}}, None),
        ({**NOW, "modules": {"en": "1", "kk": "2", "az": "4"}}, None),
        ({**NOW, "precision": "bf16"}, None),
        ({**NOW, "compute": ["fp32", "fp32"]}, set()),
        ({"kind": "sentence-transformers"}, None),
    ],
)
def test_only_changed_modules_keep_the_other_results(kept_results, before, changed):
    assert kept_results.changed_languages(stored(before), NOW) == changed


def test_results_without_some_files_are_measured_again(kept_results):
    assert kept_results.changed_languages(stored(skipped=("sts.kk.tsv",)), NOW) is None


def test_affected_tasks_are_those_with_a_changed_language(kept_results, tmp_path):
    tasks = [
        task("news", "sts", "sts.{lang}.tsv", languages=["en", "kk"]),
        task("news", "sts", "sts.{pivot}-{lang}.tsv", pairs=["en-az"]),
        task("talks", "sts", "talks.{lang}.tsv", languages=["az"]),
        task("bi", "bitext", columns("bitext.tsv"), pairs=["en-kk", "en-az", "az-kk"]),
    ]
    (tmp_path / "suite.toml").write_text("".join(tasks))
    suite = load_suite(tmp_path / "suite.toml")

    def found(changed):
        return [
            (each.name, *each.languages, *each.pairs) for each in kept_results.affected(suite, changed).task
        ]

    # Languages of one task are compared with one another; pairs of a bitext are not.
    assert found({"kk"}) == [("news", "en", "kk"), ("news", "en-az"), ("bi", "en-kk", "az-kk")]
    assert found({"ug"}) == found(set()) == []


def test_new_results_replace_stored_ones(kept_results):
    old = [Result("news", "spearman", (lang,), 1.0, 9) for lang in ("en", "kk")]
    new = replace(old[1], value=2.0)
    before = stored(results=old, items={old[0].key: [1], old[1].key: [1]})
    now = stored(results=[new], items={new.key: [2]}, skipped=["a file"])
    merged = kept_results.merged(before, now)
    assert merged.results == [old[0], new]
    assert merged.items == {old[0].key: [1], new.key: [2]}
    assert merged.skipped == ["a file"]
