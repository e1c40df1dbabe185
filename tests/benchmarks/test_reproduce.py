"""The tables of ``make reproduce``, from stored runs whose figures are known."""

import importlib
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from modenc.evaluation.results import Result, SystemResults, save_results

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def reproduce(program):
    return program("reproduce")


@pytest.fixture
def figures(reproduce):
    return importlib.import_module("run_results")


def _store(folder, name, seed, values, noise, system=None):
    rng = np.random.default_rng(seed)
    results, items = [], {}
    for (task, metric, languages), value in values.items():
        # Development sets are shorter.
        count = 20 if task == "kardes_dev" else 60
        result = Result(task, metric, languages, value, count, value - 1, value + 1)
        results.append(result)
        if metric == "spearman":
            gold = np.arange(count, dtype=float)
            items[result.key] = np.stack([gold + rng.normal(scale=noise, size=count), gold], axis=1)
    about = {
        "system": {"training_seconds": 7, **(system or {})},
        "versions": {"torch": "2.0"},
        "hardware": {"machine": "x", "processors": 2},
        "created": "2026-01-01",
    }
    run = SystemResults(name, "turkic", seed, 1.0, about, tuple(results), items)
    save_results(run, folder / name / f"seed-{seed}")


def _figures(within):
    return {
        ("kardes", "spearman", ("az",)): within,
        ("kardes", "spearman", ("kk",)): within + 2,
        ("kardes", "language_bias", ()): 4.0,
    }


def test_rows_average_sets_and_seeds_and_test_against_the_base(reproduce, tmp_path):
    _store(tmp_path, "base", 13, _figures(70.0), noise=40.0)
    cost = {"module_costs": {"se": {"bytes": 1_500_000.0, "seconds": 90.4}}}
    _store(tmp_path, "mod_m", 13, _figures(80.0), noise=1.0, system=cost)
    _store(tmp_path, "mod_m", 14, _figures(82.0), noise=1.0)
    _store(tmp_path, "full_m", 13, _figures(60.0), noise=40.0)
    lines = reproduce.tables(tmp_path).splitlines()
    base, full, modular = (
        next(line for line in lines if line.startswith(f"| {name} |")) for name in ("base", "full_m", "mod_m")
    )
    assert "| 71.0 (72.5) |" in base
    assert "| 2 | 82.0 ± 1.4 (82.1) |" in modular
    assert "| 4.0 ± 0.0 (2.8) |" in modular
    assert "| – (69.8) |" in modular
    assert float(modular.split("|")[-3]) < 0.01
    assert "| 61.0 (79.6) |" in full
    assert "| mod_m | se | 1.50 | 90 |" in lines
    assert "| full_m | whole model |  | 7 in all |" in lines
    assert "| mod_m |  | 80.0 [79.0, 81.0] | 82.0 [81.0, 83.0] |  |  |  |" in lines


def test_findings_compare_two_rows_here_and_in_the_paper(reproduce, tmp_path):
    _store(tmp_path, "base", 13, _figures(70.0), noise=40.0)
    _store(tmp_path, "full_m", 13, _figures(80.0), noise=1.0)
    _store(tmp_path, "full_c", 13, _figures(80.5), noise=1.0)
    lines = reproduce.tables(tmp_path).splitlines()
    own, lost, *_ = (line for line in lines if "| full_m − " in line)
    assert "| STS within | full_m − base | +7.1 | +10.0 | 0.00" in own
    assert own.endswith("| agrees |")
    assert "| full_m − full_c | +1.9 | -0.5 |" in lost
    assert lost.endswith("| does not agree, within chance |")
    assert any(line.endswith("|  |  | not measured |") for line in lines)


def test_findings_of_objectives_are_computed_too(reproduce, tmp_path):
    across = {("kardes", "spearman", ("en", "kk")): 60.0, ("kardes", "spearman", ("az", "kk")): 62.0}
    _store(tmp_path, "base", 13, {**_figures(70.0), **across}, noise=40.0)
    worse = {key: value - 6.0 for key, value in across.items()}
    _store(tmp_path, "mod_emma_x_no_kk", 13, {**_figures(70.0), **worse}, noise=40.0)
    _store(tmp_path, "mod_emma_x", 13, _figures(70.0), noise=40.0)
    mining = {("tatoeba", "mining_f1_cosine", ("en", lang)): 80.0 for lang in ("az", "kk", "ug", "uz")}
    for name, gain in (("mod_vmsst", 1.5), ("mod_contrastive", 0.0)):
        figures = {key: value + gain for key, value in mining.items()}
        _store(tmp_path, name, 14, {**_figures(70.0), **figures}, noise=40.0)
    lines = reproduce.tables(tmp_path).splitlines()
    found = {
        line.split(" | ")[2]: line for line in lines if "Kazakh across |" in line or "F1 cosine |" in line
    }
    # The deviation of a share of 80 % in 4 x 60, twice: 3.6; of a difference of 1.5 that is a p of 0.68.
    assert found["mod_vmsst − mod_contrastive"].endswith("| +13.5 | +1.5 | 0.677 | agrees, within chance |")
    assert found["mod_emma_x_no_kk − base"].endswith("|  | -6.0 | 1.000 | within chance |")
    assert found["mod_emma_x − mod_emma_x_no_kk"].endswith("|  |  |  | not measured |")


def test_a_columns_p_is_of_the_mean_over_its_sets(reproduce, figures):
    columns = importlib.import_module("variant_tables").COLUMNS
    rng = np.random.default_rng(0)
    gold = np.arange(80, dtype=float)
    # One system is better on one set and worse on the other, by as much.
    better, worse = (np.stack([gold + rng.normal(scale=s, size=80), gold], axis=1) for s in (20, 40))
    keys = columns["within"]
    runs = [
        SystemResults(name, "turkic", 13, 1.0, {}, (), dict(zip(keys, pair, strict=True)))
        for name, pair in (("a", (better, worse)), ("b", (worse, better)), ("c", (worse, worse)))
    ]
    assert figures.difference_p(runs[0], runs[1], keys) > 0.5
    assert figures.difference_p(runs[0], runs[2], keys) < 0.2
    assert np.isnan(figures.difference_p(runs[0], runs[2], columns["across"]))


def test_sets_of_other_lengths_are_resampled_each_for_itself(figures):
    rng = np.random.default_rng(0)

    def run(noise):
        sets = {f"t{n}.spearman.en": np.arange(n, dtype=float) for n in (80, 30)}
        noisy = {key: gold + rng.normal(scale=noise, size=len(gold)) for key, gold in sets.items()}
        items = {key: np.stack([noisy[key], gold], axis=1) for key, gold in sets.items()}
        return SystemResults("x", "captions", 13, 1.0, {}, (), items)

    good, bad = run(1.0), run(40.0)
    assert figures.difference_p(good, bad, list(good.items)) < 0.01
    assert figures.difference_p(good, good, list(good.items)) == 1.0


def test_objectives_stand_beside_joint_with_their_costs(reproduce, tmp_path):
    figures = {("tatoeba", "hubness", ("en", lang)): 1.5 for lang in ("az", "kk", "ug", "uz")}
    _store(tmp_path, "base", 14, _figures(70.0), noise=1.0)
    for seed, value in ((13, 70.0), (14, 90.0)):
        _store(tmp_path, "mod_mc_jt", seed, _figures(value), noise=1.0)
    costs = {"cla": {"bytes": 1.0, "seconds": 9.0, "seconds_a_step": 0.25}}
    system = {"module_costs": costs, "training_peak_bytes": 2_500_000_000}
    _store(tmp_path, "mod_emma_x", 13, {**_figures(80.0), **figures}, noise=1.0, system=system)
    _store(tmp_path, "full_musr", 13, _figures(80.0), noise=1.0, system={"seconds_a_step": 1.5})
    _store(tmp_path, "german_korean", 13, {("stsb", "spearman", ("de",)): 82.0}, noise=1.0)
    lines = reproduce.tables(tmp_path).splitlines()
    section = lines[lines.index("## The other papers' objectives") :]
    table = section[: section.index("## German and Korean")]
    assert any(line.startswith("| base | 1 | 71.0 |") for line in table)
    # Of joint, the seed that the objectives have.
    assert any(line.startswith("| mod_mc_jt | 1 | 71.0 |") for line in table)
    (modular,) = (line for line in table if line.startswith("| mod_emma_x | 1 |"))
    assert modular == "| mod_emma_x | 1 | 81.0 | – | – | – | – | 1.50 | – | – | – | – | 0.25 | 2.5 |"
    assert any(line.startswith("| full_musr | 1 | 81.0 |") and line.endswith("| 1.50 |  |") for line in table)
    assert "| mod_emma_x | 82.0 [81.0, 83.0] |  |  |" in table
    assert "| german_korean |  | 82.0 [81.0, 83.0] |  |  |  |  |  |  |" in section
    # They are in no table of the paper's variants.
    assert not any("mod_emma_x" in line for line in lines[: lines.index("## The other papers' objectives")])


def test_nothing_stored_is_said(reproduce, tmp_path):
    with pytest.raises(SystemExit, match="expected stored results, found none"):
        reproduce.tables(tmp_path)


def test_every_variant_has_its_recipe_and_its_row_of_the_paper(reproduce):
    paper = tomllib.loads((FOLDER / "paper.toml").read_text())
    rows = paper["rows"]
    names = {variant.name for variant in reproduce.VARIANTS if variant.group == "variants"}
    assert names - set(rows) - set(paper["all_pairs"]) == {"turkic"}
    assert set(rows) | set(paper["all_pairs"]) < names
    for finding in paper["findings"]:
        table = paper[finding.get("table", "rows")]
        assert finding["column"] in table[finding["high"]].keys() & table[finding["low"]].keys()
    root = FOLDER.parent
    assert all((root / variant.recipe).is_file() for variant in reproduce.VARIANTS if variant.recipe)
    columns = importlib.import_module("variant_tables").COLUMNS
    assert all(set(figures) == set(columns) for figures in rows.values())


def _captions(within, across=60.0):
    return {
        ("stsb", "spearman", ("en",)): within + 4,
        ("kardes", "spearman", ("kk",)): within,
        ("kardes_dev", "spearman", ("ky",)): within - 4,
        ("kardes", "spearman", ("en", "kk")): across,
        ("tatoeba", "xsim_error_cosine", ("en", "kk")): 20.0,
        ("tatoeba", "retrieval_accuracy", ("en", "kk")): 80.0,
        ("sib", "rsim", ("en", "kk")): 0.5,
    }


def _section(text, heading):
    lines = text.splitlines()
    rest = lines[lines.index(heading) + 1 :]
    return rest[: next(i for i, line in enumerate(rest) if line.startswith("## "))]


CAPTIONS = "## The paper's Table 2 with tens of thousands of paraphrases"
CAPTION_OBJECTIVES = "## The other papers' objectives with tens of thousands of translations"


def test_the_comparison_on_captions_stands_beside_the_small_one(reproduce, tmp_path):
    _store(tmp_path, "base", 13, _figures(70.0), noise=40.0)
    assert CAPTIONS not in reproduce.tables(tmp_path)
    _store(tmp_path, "full_m", 13, _figures(74.0), noise=1.0)
    _store(tmp_path, "captions_base", 13, _captions(70.0), noise=40.0)
    for seed, within in ((13, 80.0), (14, 82.0)):
        _store(tmp_path, "captions_full_m", seed, _captions(within), noise=1.0)
    _store(tmp_path, "captions_mod_m", 13, _captions(78.0), noise=1.0)
    text = reproduce.tables(tmp_path)
    assert CAPTION_OBJECTIVES not in text
    section = _section(text, CAPTIONS)
    assert (FOLDER / "captions.md").read_text().strip() in "\n".join(section)
    rows = {line.split(" | ")[0]: line for line in section if line.startswith("| captions_")}
    assert len(rows) == 3
    table = [line for line in section if line.startswith("| captions_full_m | 2 |")]
    assert table[0].startswith(
        "| captions_full_m | 2 | 81.0 ± 1.4 (79.6) | 60.0 ± 0.0 (60.2) | 20.0 ± 0.0 (7.8) |"
    )
    # Topics and zero-shot were not measured.
    assert "| – (85.5) | – (85.2) | 0.50 ± 0.00 (0.67) |" in table[0]
    assert float(table[0].split("|")[-3]) < 0.01
    findings = [line for line in section if "STS" in line and " − " in line]
    assert len(findings) == 2
    assert "| STS within | full_m − base | +7.1 | +4.0 | +11.0 | 0.00" in findings[0]
    assert findings[0].endswith("| agrees |")
    # Of the small comparison there is no mod_m, nor on captions full_c.
    # The difference is that of the means in the table, whatever seeds they have.
    assert "| STS within | mod_m − full_m | +2.5 |  | -3.0 |" in findings[1]
    sets = (
        "| captions_mod_m | 82.0 [81.0, 83.0] | 78.0 [77.0, 79.0] | 74.0 [73.0, 75.0] | 60.0 [59.0, 61.0] |"
    )
    assert any(line.startswith(sets) for line in section)
    assert "- captions_mod_m: trained in 7 s" in text


def test_objectives_on_captions_stand_beside_what_they_start_from(reproduce, tmp_path):
    _store(tmp_path, "base", 13, _figures(70.0), noise=1.0)
    _store(tmp_path, "captions_base", 13, _captions(70.0), noise=1.0)
    for name in ("captions_full_m", "captions_mod_mc_jt"):
        for seed, within in ((13, 80.0), (14, 90.0)):
            _store(tmp_path, name, seed, _captions(within), noise=1.0)
    costs = {"module_costs": {"cla": {"bytes": 1.0, "seconds": 9.0, "seconds_a_step": 0.25}}}
    system = {**costs, "training_peak_bytes": 2_500_000_000}
    _store(tmp_path, "captions_mod_musr", 13, _captions(81.0), noise=1.0, system=system)
    text = reproduce.tables(tmp_path)
    table = [line for line in _section(text, CAPTION_OBJECTIVES) if line.startswith("| ")]
    assert table[0] == "| variant | seeds | STS within | STS across | Tatoeba | RSIM | s a step | GB |"
    assert table[2:] == [
        "| captions_base | 1 | 70.0 | 60.0 | 80.0 | 0.50 |  |  |",
        # Of the seed that the objectives have.
        "| captions_mod_mc_jt | 1 | 80.0 | 60.0 | 80.0 | 0.50 |  |  |",
        "| captions_mod_musr | 1 | 81.0 | 60.0 | 80.0 | 0.50 | 0.25 | 2.5 |",
    ]
    assert "- captions_mod_musr: trained in 7 s" in text


@pytest.fixture
def called(reproduce, tmp_path, monkeypatch):
    """The words of every call of modenc; trainings and evaluations only leave their files."""
    calls = []

    def call(verb, *words):
        calls.append((verb, *words))
        if verb == "train":
            (work,) = (Path(word.split("=", 1)[1]) for word in words if word.startswith("run.work_dir="))
            work.mkdir(parents=True, exist_ok=True)
            (work / "stages").touch()
            tiny = work.with_name("hub")
            tiny.mkdir(exist_ok=True)
        else:
            _store(tmp_path / "evaluated", "x", 13, _figures(75.0), noise=1.0)
            output = Path(words[words.index("-o") + 1])
            output.mkdir(parents=True, exist_ok=True)
            (tmp_path / "evaluated" / "x" / "seed-13").replace(output / "x")
        return 5_000_000

    monkeypatch.setattr(reproduce, "call", call)
    monkeypatch.setattr(reproduce, "costs", lambda hub: {})
    return calls


def _run(reproduce, monkeypatch, tmp_path, *words):
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "out" / "results")]
    monkeypatch.setattr(sys, "argv", ["reproduce", "--data", "D", *folders, *words])
    reproduce.main()
    return (tmp_path / "out" / "RESULTS.md").read_text()


def test_runs_share_stages_are_stored_and_not_made_again(reproduce, called, tmp_path, monkeypatch):
    text = _run(reproduce, monkeypatch, tmp_path, "--only", "mod_m", "--only", "mod_mc_jt", "--only", "base")
    assert [words[0] for words in called] == ["eval", "train", "eval", "train", "eval"]
    assert called[0][1:3] == ("--model", "me5-small")
    assert "run.seed=13" in called[1]
    assert all(f"| {name} |" in text for name in ("base", "mod_m", "mod_mc_jt"))
    shared = tmp_path / "runs" / "mod_mc_jt" / "seed-13"
    assert (shared / "work" / "stages").is_file()
    assert not shared.with_name("seed-13.part").exists()
    called.clear()
    assert _run(reproduce, monkeypatch, tmp_path, "--only", "mod_m") == text
    assert called == []


def test_objectives_on_captions_start_from_modules_of_their_seed(reproduce, called, tmp_path, monkeypatch):
    words = ["--only", "base", "--only", "captions_mod_m", "--only", "captions_mod_musr", "--seed", "14"]
    _run(reproduce, monkeypatch, tmp_path, *words)
    assert [words[0] for words in called] == ["eval", "train", "eval", "train", "eval"]
    assert {words[words.index("--suite") + 1] for words in called if words[0] == "eval"} == {
        "turkic",
        "captions",
    }
    trained = [words for words in called if words[0] == "train"]
    assert [Path(words[1]).relative_to(FOLDER.parent).as_posix() for words in trained] == [
        "recipes/captions/mod_m.toml",
        "recipes/captions/mod_musr.toml",
    ]
    assert all("run.seed=14" in words for words in trained)
    assert (tmp_path / "runs" / "captions_mod_musr" / "seed-14" / "work" / "stages").is_file()


def test_a_group_of_variants_is_all_of_a_table(reproduce):
    names = {}
    for variant in reproduce.VARIANTS:
        names.setdefault(variant.group, set()).add(variant.name)
        assert not variant.like or variant.like in {other.name for other in reproduce.VARIANTS}
    assert set(reproduce.GROUPS) == set(names)
    prefix = importlib.import_module("caption_tables").PREFIX
    assert {name.removeprefix(prefix) for name in names["captions"]} <= names["variants"]
    assert {name.removeprefix(prefix) for name in names["captions_objectives"]} <= names["objectives"]
    folder = FOLDER.parent / "recipes" / "captions"
    recipes = {prefix + path.stem for path in folder.glob("[a-z]*.toml")}
    assert recipes | {"captions_base"} == names["captions"] | names["captions_objectives"]


def test_trials_do_not_count_as_runs(reproduce, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reproduce", "--data", "D", "alignment.scale=7"])
    with pytest.raises(SystemExit):
        reproduce.main()
    assert "give them --runs and --results of their own" in capsys.readouterr().err
