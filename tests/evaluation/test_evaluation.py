"""``evaluate``: the function behind the command, for hubs, models and what else has vectors."""

import pytest
from sentence_transformers import SentenceTransformer
from tiny_suites import task

from modenc.encoder import ModularEncoder
from modenc.evaluation.evaluate import evaluate
from modenc.evaluation.results import load_results
from modenc.evaluation.systems import ModularSystem

SUITE = task("sts", "sts", "sts.{lang}.tsv", languages=["kk"])


@pytest.fixture
def files(tmp_path):
    """A suite of one test set, and the folder that it is in."""
    (tmp_path / "suite.toml").write_text(SUITE)
    rows = ["sentence1\tsentence2\tscore", "Бала оқиды\tБала кітап оқиды\t4", "Қар жауды\tБала оқиды\t1"]
    rows += ["Кітап қалың\tҚалың кітап\t5", "Су суық\tМұғалім келді\t0", "Ол келді\tОл кетті\t2"]
    (tmp_path / "sts.kk.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_a_hub_and_models_side_by_side(files, tiny_hub, tiny_bert):
    encoder = ModularEncoder(tiny_hub.path)
    systems = [tiny_hub.path, ModularSystem(encoder, align=False), str(tiny_bert)]
    measured = evaluate(systems, files / "suite.toml", files, output=files / "out")
    assert [results.name for results in measured] == ["tiny-modular", "tiny-modular-not-aligned", "tiny_bert"]
    for results in measured:
        assert results.find("sts.spearman.kk").n == 5
        assert load_results(files / "out" / results.name).results == results.results
    assert (files / "out" / "tables.md").read_text().startswith("# Suite suite\n")


def test_one_system_is_enough_and_nothing_is_written(files, tiny_bert):
    (results,) = evaluate(SentenceTransformer(str(tiny_bert)), files / "suite.toml", files)
    assert -100 <= results.find("sts.spearman.kk").value <= 100
    assert {path.name for path in files.iterdir()} == {"suite.toml", "sts.kk.tsv"}
