"""``benchmarks/languages.py``: a tiny hub measured against its base, and the tables from what is stored."""

import importlib
import json
import re
import shutil
import sys

import pytest
import tiny_models
from tiny_languages import update_card
from tiny_suites import columns, task

pytestmark = pytest.mark.slow

COUNT = 30

SUITE = "".join(
    [
        task("stsb", "multiway_sts", "sts.{lang}.tsv", languages=["en", "az", "ug"]),
        task("kardes", "sts", "sts.{lang}.tsv", languages=["kk"]),
        task("kardes", "sts", "sts.{pivot}-{lang}.tsv", pairs=["en-kk"]),
        task("tatoeba", "bitext", columns("bitext.{lang}.tsv"), pairs=["en-az", "en-ug"]),
    ]
)


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
    (root / "tiny.toml").write_text(SUITE)
    return root


def _run(languages, data, hub, *words):
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["--data", str(data), "--suite", str(data / "tiny.toml"), "--hub", str(hub.path)]
        folders = ["--results", str(data / "results"), "--vectors", str(data / "vectors")]
        patch.setattr(sys, "argv", ["languages", *arguments, *folders, "--compute", "fp32", *words])
        languages.main()


@pytest.fixture(scope="module")
def results(languages, data, tiny_hub):
    _run(languages, data, tiny_hub)
    return data / "results"


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_languages_that_the_hub_lacks_are_left_out_and_named(languages, results):
    stored = languages.Stored.load(results)
    assert stored.base.keys("stsb", "spearman", 1, "ug")
    assert all(not system.keys("stsb", "spearman", 1, "ug") for system in stored.modules.values())
    assert stored.left_out() == ["ug"]
    assert stored.languages() == ["en", "az", "kk"]


def test_the_readme_table_compares_on_the_same_sets(languages, tables, results):
    stored = languages.Stored.load(results)
    lines = [_cells(line) for line in tables.readme_table(stored).splitlines() if line.startswith("|")]
    rows = {cells[0]: cells for cells in lines[2:]}
    assert list(rows) == ["en", "az", "kk", "mean"]
    az, kk = rows["az"], rows["kk"]
    base, ours = (system.value("stsb.spearman.en-az") for system in (stored.base, stored.modules["align"]))
    assert az[3] == f"{base:.1f} → {ours:.1f}"
    assert kk[1] == "Kardeş"
    assert kk[4] == "–"
    sizes = stored.modules["align"].run.about["system"]["bytes"]
    assert sizes["kk"] > sizes["az"] > sizes["en"] > 0
    # Not over Uyghur, which the hub lacks.
    assert rows["mean"][3] == az[3]


def test_exceptions_are_named_from_the_figures(languages, tables, results):
    stored = languages.Stored.load(results)
    base, modules = stored.base, stored.modules["align"]
    worse = modules.change(base, ["stsb.spearman.az"])
    keys = ["stsb.spearman.en", "stsb.spearman.az"]
    found = [(tables.short(key), modules.change(base, [key])) for key in keys]
    assert all((name in tables.named(found, 1)) == (figure.value < 0) for name, figure in found)
    assert tables.named([("az", worse)], -1 if worse.value < 0 else 1) == "none of 1"
    assert modules.change(modules, keys).value == 0
    assert not modules.change(modules, keys).sure


def test_the_section_has_all_systems_and_says_what_is_missing(tables, results, tmp_path):
    lines = tables.section(results)
    assert "Left out, since the hub has no modules for them: ug." in lines
    assert any(line.startswith("| STS-B across | 3 |") for line in lines)
    assert sum(line.startswith("| STS-B across | 1 |") for line in lines) == 2
    assert sum(line.startswith("- STS-B within: ") for line in lines) == 2
    assert tables.section(tmp_path) == []


def test_the_picture_is_the_same_each_time(languages, results, tmp_path):
    stored = languages.Stored.load(results)
    for name in ("one.png", "two.png"):
        languages.write_picture(stored, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    grid = importlib.import_module("language_picture").grid(stored.modules["align"], ["en", "az", "kk", "ug"])
    assert (grid == grid.T)[:2, :2].all()
    assert (grid[3] != grid[3]).all()


def test_what_is_stored_is_not_measured_again(languages, data, results, tiny_hub, monkeypatch):
    monkeypatch.setattr(languages, "run_suite", lambda *_, **__: pytest.fail("measured again"))
    _run(languages, data, tiny_hub)


def test_only_sets_of_changed_languages_are_measured(
    languages, data, results, tmp_path, hub_copy, monkeypatch
):
    """After one language is replaced, the results are those of a whole run."""
    copies = tmp_path / "data"
    shutil.copytree(data, copies)
    root, other = (hub_copy.layout(lang).root for lang in ("kk", "az"))
    shutil.copy(other / "cla" / "adapter.safetensors", root / "cla" / "adapter.safetensors")
    update_card(root)
    asked = []
    whole = languages.run_suite

    def noting(system, suite, *args, **options):
        asked.append(
            {f"{task.name} {code}" for task in suite.task for code in (*task.languages, *task.pairs)}
        )
        return whole(system, suite, *args, **options)

    monkeypatch.setattr(languages, "run_suite", noting)
    _run(languages, copies, hub_copy)
    assert asked == [{"kardes kk", "kardes en-kk"}] * 2
    kept = {
        name: languages.load_results(copies / "results" / "eighteen" / name) for name in languages.SYSTEMS
    }
    shutil.rmtree(copies / "results")
    _run(languages, copies, hub_copy)
    for name, results in kept.items():
        again = languages.load_results(copies / "results" / "eighteen" / name)
        assert results.results == again.results
        assert results.items.keys() == again.items.keys()


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


@pytest.mark.parametrize("key", ["precision", "suite_sha256"])
def test_figures_of_unlike_circumstances_are_not_compared(languages, results, tmp_path, key):
    shutil.copytree(results, tmp_path / "results")
    path = tmp_path / "results" / languages.FOLDER / "align" / "results.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["system"][key] = "other"
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"eighteen/align: expected the {key} of eighteen/base"):
        languages.Stored.load(tmp_path / "results")
