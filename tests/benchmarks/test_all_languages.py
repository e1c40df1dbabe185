"""``benchmarks/languages.py``: a tiny hub measured against its base, and the tables from what is stored."""

import importlib
import json
import shutil
import sys
from dataclasses import replace

import pytest
import tiny_models
from tiny_suites import columns, task

pytestmark = pytest.mark.slow

COUNT = 30
SUITES = {
    "eighteen": [
        task("stsb", "multiway_sts", "sts.{lang}.tsv", languages=["en", "az", "ug"]),
        task("kardes", "sts", "sts.{lang}.tsv", languages=["kk"]),
        task("kardes", "sts", "sts.{pivot}-{lang}.tsv", pairs=["en-kk"]),
        task("tatoeba", "bitext", columns("bitext.{lang}.tsv"), pairs=["en-az", "en-ug"]),
    ],
    "search_dev": [
        task("documentation", "search", "search.{lang}.tsv", languages=["az", "kk", "ug"]),
        task("questions", "search", "questions.{lang}.tsv", languages=["kk"]),
    ],
}


@pytest.fixture(scope="module")
def languages(program):
    return program("languages")


@pytest.fixture(scope="module")
def tables(languages):
    return importlib.import_module("language_tables")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    texts = {lang: tiny_models.sentences(lang)[: 2 * COUNT] for lang in ("en", "kk", "az", "ug")}
    for left, right in (*((lang, lang) for lang in texts), ("en", "kk")):
        both = zip(texts[left][:COUNT], texts[right][COUNT:], strict=True)
        rows = [f"{number % 5}\t{a}\t{b}" for number, (a, b) in enumerate(both)]
        name = left if left == right else f"{left}-{right}"
        (root / f"sts.{name}.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *rows]) + "\n")
    for lang in ("az", "ug"):
        rows = ["\t".join(pair) for pair in zip(texts["en"][:COUNT], texts[lang][:COUNT], strict=True)]
        (root / f"bitext.{lang}.tsv").write_text("\n".join([f"en\t{lang}", *rows]) + "\n")
    for lang in ("az", "kk", "ug"):
        both = zip(texts[lang][:COUNT], texts[lang][COUNT:], strict=True)
        rows = [f"{query}\t{passage}\t{number}" for number, (query, passage) in enumerate(both)]
        (root / f"search.{lang}.tsv").write_text("\n".join(["query\tpassage\tgroup", *rows]) + "\n")
        (root / f"questions.{lang}.tsv").write_text("\n".join(["query\tpassage\tgroup", *rows[:9]]) + "\n")
    for name, tasks in SUITES.items():
        (root / f"{name}.toml").write_text("".join(tasks))
    return root


def _run(languages, data, hub, *words, suite="eighteen"):
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["--data", str(data), "--suite", str(data / f"{suite}.toml"), "--hub", str(hub.path)]
        folders = ["--results", str(data / "results")]
        patch.setattr(sys, "argv", ["languages", *arguments, *folders, *words])
        languages.main()


@pytest.fixture(scope="module")
def results(languages, data, tiny_hub):
    _run(languages, data, tiny_hub)
    return data / "results"


@pytest.fixture(scope="module")
def searched(languages, data, results, tiny_hub):
    """Results of both suites."""
    shutil.copytree(results, data / "both" / "results")
    _run(languages, data, tiny_hub, "--results", str(data / "both" / "results"), suite="search_dev")
    return data / "both" / "results"


def _rows(table):
    lines = [line for line in table.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[0], {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}


def test_languages_that_the_hub_lacks_are_left_out_of_stored_means_and_named(languages, tables, results):
    stored = languages.Stored.load(results)
    assert stored.base.keys("stsb", "spearman", 1, "ug")
    assert all(not system.keys("stsb", "spearman", 1, "ug") for system in stored.modules.values())
    assert stored.left_out() == ["ug"]
    assert stored.languages() == ["en", "az", "kk"]
    lines = tables.section(stored, languages.PAPER)
    assert "Left out, since the hub has no modules for them: ug." in lines
    assert any(line.startswith("| STS-B across | 3 |") for line in lines)
    assert sum(line.startswith("| STS-B across | 1 |") for line in lines) == 2


def test_readme_table_compares_on_the_same_sets(languages, tables, results):
    stored = languages.Stored.load(results)
    headings, rows = _rows(tables.readme_table(stored))
    assert headings == ["", "similarity within", "similarity across", "missed, Tatoeba, %", "MB"]
    assert list(rows) == ["English (en)", "Azerbaijani (az)", "Kazakh (kk)"]
    base, ours = (system.value("stsb.spearman.en-az") for system in (stored.base, stored.modules["align"]))
    assert rows["Azerbaijani (az)"]["similarity across"] == f"{base:.1f} → {ours:.1f}"
    assert rows["Kazakh (kk)"]["similarity within"] != "–"
    assert rows["Kazakh (kk)"]["missed, Tatoeba, %"] == "–"
    # Not over Uyghur, which the hub lacks, nor over Kazakh, whose test set is another.
    _, means = _rows(tables.summary_table(stored))
    assert list(means["similarity across"].values())[1:] == ["1", f"{base:.1f}", f"{ours:.1f}"]


def test_questions_titles_and_their_pool_are_in_the_tables(languages, tables, searched):
    stored = languages.Stored.load(searched)
    headings, rows = _rows(tables.readme_table(stored))
    questions, titles = "questions, `align=False`", "titles, `align=False`"
    assert headings[3:6] == [questions, titles, "titles across"]
    _, means = _rows(tables.summary_table(stored))
    systems = (stored.base, stored.modules["no_align"])
    for name, column, key in (
        ("Azerbaijani (az)", titles, "documentation.ndcg_at_10.az"),
        ("Kazakh (kk)", questions, "questions.ndcg_at_10.kk"),
    ):
        base, ours = (f"{system.mean([key]).value:.1f}" for system in systems)
        assert rows[name][column] == f"{base} → {ours}"
    found = stored.shared("documentation", "ndcg_at_10", 1)
    base, ours = (f"{system.mean(found).value:.1f}" for system in systems)
    assert list(means[titles].values())[1:] == [str(len(found)), base, ours]
    # The hub lacks one of the pool's languages, so that its pool is another.
    assert not any("pool" in name for name in means)
    pool = next(result for result in stored.base.run.results if result.metric == "pool_accuracy_at_1")
    for system in stored.modules.values():
        system.run = replace(system.run, results=(*system.run.results, pool))
    _, means = _rows(tables.summary_table(stored))
    row = means[f"titles, one pool of {len(pool.languages)} languages, `align=False`"]
    assert list(row.values())[1:] == ["1", *[f"{pool.value:.1f}"] * 2]
    assert rows["English (en)"][questions] == "–"
    lines = tables.section(stored, languages.PAPER)
    assert any(line.startswith("| Search within, nDCG@10 | 3 |") for line in lines)
    assert any(line.startswith("| Search across, nDCG@10 | 2 |") for line in lines)


def test_what_is_stored_is_not_measured_again(languages, data, results, tiny_hub, monkeypatch):
    monkeypatch.setattr(languages, "run_suite", lambda *_, **__: pytest.fail("measured again"))
    _run(languages, data, tiny_hub)


@pytest.mark.parametrize(
    ("place", "key", "other"),
    [
        ("eighteen/align", "precision", "eighteen/base"),
        ("search_dev/align", "suite_sha256", "search_dev/base"),
        ("search_dev/align", "modules", "eighteen/align"),
    ],
)
def test_figures_of_unlike_circumstances_are_not_compared(languages, searched, tmp_path, place, key, other):
    shutil.copytree(searched, tmp_path / "results")
    path = tmp_path / "results" / place / "results.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["system"][key] = "other"
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"{place}: expected the {key} of {other}"):
        languages.Stored.load(tmp_path / "results")


def test_a_language_trained_again_needs_only_the_suites_that_measure_it(languages, searched, tmp_path):
    shutil.copytree(searched, tmp_path / "results")
    # The suite of search has no English; figures of Kazakh's other modules are not comparable.
    path = tmp_path / "results" / "search_dev" / "align" / "results.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    before = languages.Stored.load(tmp_path / "results").modules["align"].run.about["system"]
    stored["system"]["modules"]["en"] = stored["system"]["bytes"]["en"] = "older"
    path.write_text(json.dumps(stored), encoding="utf-8")
    after = languages.Stored.load(tmp_path / "results").modules["align"].run.about["system"]
    assert (after["modules"], after["bytes"]) == (before["modules"], before["bytes"])
    stored["system"]["modules"]["kk"] = "older"
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(SystemExit, match="search_dev/align: expected the modules of eighteen/align"):
        languages.Stored.load(tmp_path / "results")
