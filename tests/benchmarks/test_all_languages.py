"""``benchmarks/languages.py``: a tiny hub measured against its base, and the tables from what is stored."""

import importlib
import json
import re
import shutil
import sys

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
        folders = ["--results", str(data / "results"), "--vectors", str(data / "vectors")]
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


@pytest.fixture(scope="module")
def classified(languages, data, results, tiny_hub):
    """Results of a suite that has SIB, too."""
    sib = data / "sib"
    sib.mkdir()
    shutil.copytree(data, sib, dirs_exist_ok=True, ignore=shutil.ignore_patterns("sib", "results", "both"))
    for lang in ("en", "az", "kk"):
        texts = tiny_models.sentences(lang)[:COUNT]
        rows = [f"{text}\t{number}\t{number % 3}" for number, text in enumerate(texts)]
        (sib / f"sib.{lang}.tsv").write_text("\n".join(["text\tid\tlabel", *rows]) + "\n")
    parts = {part: "sib.{lang}.tsv" for part in ("train", "dev")}
    tasks = [
        task("sib", "multiway_bitext", "sib.{lang}.tsv", languages=["en", "az", "kk"]),
        task("sib", "classification", "sib.{lang}.tsv", languages=["en", "kk"], **parts),
    ]
    (sib / "eighteen.toml").write_text("".join([*SUITES["eighteen"], *tasks]))
    _run(languages, sib, tiny_hub)
    return sib / "results"


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
    lines = tables.section(stored)
    assert "Left out, since the hub has no modules for them: ug." in lines
    assert any(line.startswith("| STS-B across | 3 |") for line in lines)
    assert sum(line.startswith("| STS-B across | 1 |") for line in lines) == 2


def test_readme_table_compares_on_the_same_sets(languages, tables, results):
    stored = languages.Stored.load(results)
    headings, rows = _rows(tables.readme_table(stored))
    assert headings == ["", "similarity within", "similarity across", "missed, Tatoeba, %", "MB"]
    assert list(rows) == ["English (en)", "Azerbaijani (az)", "Kazakh (kk)", "mean"]
    base, ours = (system.value("stsb.spearman.en-az") for system in (stored.base, stored.modules["align"]))
    assert rows["Azerbaijani (az)"]["similarity across"] == f"{base:.1f} → {ours:.1f}"
    assert rows["Kazakh (kk)"]["similarity within"] != "–"
    assert rows["Kazakh (kk)"]["missed, Tatoeba, %"] == "–"
    # Not over Uyghur, which the hub lacks, nor over Kazakh, whose test set is another.
    assert rows["mean"]["similarity across"] == rows["Azerbaijani (az)"]["similarity across"]


def test_search_column_prefers_questions_and_its_means_are_in_the_section(languages, tables, searched):
    stored = languages.Stored.load(searched)
    headings, rows = _rows(tables.readme_table(stored))
    assert headings[3] == "search"
    keys = ["documentation.ndcg_at_10.az", "questions.ndcg_at_10.kk"]
    systems = (stored.base, stored.modules["align"])
    for name, part in (("Azerbaijani (az)", keys[:1]), ("Kazakh (kk)", keys[1:]), ("mean", keys)):
        base, ours = (system.mean(part).value for system in systems)
        assert rows[name]["search"] == f"{base:.1f} → {ours:.1f}"
    assert rows["English (en)"]["search"] == "–"
    lines = tables.section(stored)
    assert any(line.startswith("| Search within, nDCG@10 | 3 |") for line in lines)
    assert any(line.startswith("| Search across, nDCG@10 | 2 |") for line in lines)


def test_topics_and_translations_of_sib_have_columns(languages, tables, classified):
    stored = languages.Stored.load(classified)
    _, rows = _rows(tables.readme_table(stored))
    base, ours = (system.value("sib.accuracy.kk") for system in (stored.base, stored.modules["align"]))
    assert rows["Kazakh (kk)"]["topics, %"] == f"{base:.1f} → {ours:.1f}"
    assert rows["Azerbaijani (az)"]["topics, %"] == "–"
    pairs = [f"sib.xsim_error_cosine.{pair}" for pair in ("en-az", "az-kk")]
    base, ours = (system.mean(pairs).value for system in (stored.base, stored.modules["align"]))
    assert rows["Azerbaijani (az)"]["missed, SIB, %"] == f"{base:.1f} → {ours:.1f}"


def test_peers_are_beside_base_and_modules_on_the_same_languages(languages, tables, results, tmp_path):
    stored = languages.Stored.load(results)
    assert tables.peer_table(stored, tmp_path / "peers.toml") == ""
    (tmp_path / "peers.toml").write_text(
        """
source = "made up"
read = "today"
note = "nothing"
base = { parameters = 118, without_embeddings = 21 }
[[model]]
name = "large"
parameters = 560
without_embeddings = 304
stsb = { en = 87.3, az = 70.0, de = 84.3 }
[[model]]
name = "small"
parameters = 20
without_embeddings = 10
stsb = { az = 60.0 }
"""
    )
    headings, rows = _rows(tables.peer_table(stored, tmp_path / "peers.toml"))
    assert headings == ["similarity within", "parameters", "en", "az", "mean"]  # the hub has no German
    base, ours, large, small = rows.values()
    assert (base["parameters"], large["parameters"]) == ("118 (21)", "560 (304)")
    assert ours["az"] == f"{stored.modules['align'].value('stsb.spearman.az'):.1f}"
    assert (small["en"], small["mean"]) == ("–", "60.0")
    assert all(row["mean"] == row["az"] for row in rows.values())


def test_worse_languages_are_named_from_the_figures(languages, tables, results):
    stored = languages.Stored.load(results)
    base, modules = stored.base, stored.modules["align"]
    worse = modules.change(base, ["stsb.spearman.az"])
    keys = ["stsb.spearman.en", "stsb.spearman.az"]
    found = [(tables.short(key), modules.change(base, [key])) for key in keys]
    assert all((name in tables.named(found, 1)) == (figure.value < 0) for name, figure in found)
    assert tables.named([("az", worse)], -1 if worse.value < 0 else 1) == "none of 1"
    assert modules.change(modules, keys).value == 0
    assert not modules.change(modules, keys).sure


def test_write_pages_gives_the_same_pages_and_picture_each_time(languages, searched, monkeypatch, capsys):
    root = searched.parent
    (root / "docs").mkdir()
    for name in ("README.md", "RESULTS.md"):
        (root / name).write_text(f"before\n{languages.BEGIN}\nold\n{languages.END}\nafter\n")
    monkeypatch.setattr(languages, "ROOT", root)
    monkeypatch.setattr(languages, "RESULTS", searched)
    monkeypatch.setattr(sys, "argv", ["languages"])
    written = []
    for _ in range(2):
        languages.main()
        written.append(
            [(root / name).read_bytes() for name in ("README.md", "RESULTS.md", "docs/languages.png")]
        )
    assert written[0] == written[1]
    assert all(page.startswith(b"before\n") and page.endswith(b"\nafter\n") for page in written[0][:2])
    assert b"\nold\n" not in written[0][0] + written[0][1]


def test_write_table_names_a_page_without_a_place_for_it(tables, tmp_path):
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit, match=r"page\.md: expected a page, found none to read"):
        tables.write_table(page, "| |", "<begin>", "<end>")
    page.write_text("<begin>")
    with pytest.raises(SystemExit, match=r"expected the lines '<begin>' and '<end>'"):
        tables.write_table(page, "| |", "<begin>", "<end>")


def test_what_is_stored_is_not_measured_again(languages, data, results, tiny_hub, monkeypatch):
    monkeypatch.setattr(languages, "run_suite", lambda *_, **__: pytest.fail("measured again"))
    _run(languages, data, tiny_hub)


def test_missing_files_are_named(languages, data, tiny_hub, tmp_path, capsys):
    shutil.copytree(data, tmp_path / "data")
    for name in ("sts.ug.tsv", "bitext.az.tsv"):
        (tmp_path / "data" / name).unlink()
    with pytest.raises(SystemExit, match="2"):
        _run(languages, tmp_path / "data", tiny_hub)
    assert re.search(r"found 2 missing:\n  sts.ug.tsv .*\n  bitext.az.tsv", capsys.readouterr().err)


@pytest.mark.parametrize(("option", "value"), [("--suite", "eighten"), ("--hub", "nowhere")])
def test_what_cannot_be_used_is_one_line(languages, data, tiny_hub, capsys, option, value):
    with pytest.raises(SystemExit, match="2"):
        _run(languages, data, tiny_hub, option, value)
    error = capsys.readouterr().err
    assert value in error
    assert "Traceback" not in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [["--suite", "small"], ["--hub", "mine"], ["--compute", "bf16"]])
def test_a_trial_does_not_replace_published_figures(languages, monkeypatch, capsys, words):
    monkeypatch.setattr(languages, "measure", lambda _: pytest.fail("measured"))
    monkeypatch.setattr(languages, "write_pages", lambda _: pytest.fail("written"))
    monkeypatch.setattr(sys, "argv", ["languages", "--data", "data", *words])
    with pytest.raises(SystemExit, match="2"):
        languages.main()
    assert f"expected --results DIR with {words[0]}" in capsys.readouterr().err


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
