from pathlib import Path

import pytest

from modenc.cli.main import main, parse
from modenc.recipe.settings import STAGES
from modenc.training import pipeline


@pytest.mark.parametrize(
    "words",
    [
        ["r.toml", "a.b=1", "c=x", "--lang", "kk", "--lang", "uz", "--force"],
        ["r.toml", "--lang", "kk", "--lang", "uz", "a.b=1", "--force", "c=x"],
        ["--lang", "kk", "r.toml", "--force", "--lang", "uz", "a.b=1", "c=x"],
    ],
)
def test_overrides_may_stand_anywhere_behind_the_recipe(words):
    args = parse(["train", *words])
    assert (args.recipe, args.lang, args.force) == ("r.toml", ["kk", "uz"], True)
    assert args.overrides == ["a.b=1", "c=x"]


def test_other_words_are_still_refused(capsys):
    with pytest.raises(SystemExit):
        parse(["train", "r.toml", "--lnag=kk"])
    assert "--lnag=kk" in capsys.readouterr().err


def test_arguments_reach_the_pipeline(monkeypatch, capsys, tmp_path):
    calls = []

    def train(recipe, **options):
        calls.append((recipe.name, recipe.hub, options))
        return {"kk": Path("hub/kk")}

    monkeypatch.setattr(pipeline, "train", train)
    (tmp_path / "mine.toml").write_text("[languages.en]\n[languages.kk]\n")
    objectives = [f"{name}.objective=none" for name in STAGES[1:]]
    words = ["train", str(tmp_path / "mine.toml"), "--lang", "kaz_Cyrl", "--force"]
    assert main([*words, f"hub.path={tmp_path}/hub", "vocabulary.method=base", *objectives]) == 0
    options = {"languages": ["kaz_Cyrl"], "force": True}
    assert calls == [("mine", tmp_path / "hub", options)]
    assert capsys.readouterr().out == "kk\thub/kk\n"


def test_faults_end_with_code_2(capsys):
    assert main(["train", "no_such_recipe.toml"]) == 2
    assert "no_such_recipe.toml" in capsys.readouterr().err
