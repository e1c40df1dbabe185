from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_languages import INFO

from modenc.cli.main import main
from modenc.hub.store import Hub


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    (hub.path / "az" / "card.json").write_text("{")
    code, out, _ = run(capsys, "hub", "list", "--hub", hub.path)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "hub: base tiny/base (f00d), pivot en"
    assert [line.split()[0] for line in lines[1:]] == ["code", "en", "az", "kk"]
    assert "vocabulary LA SE  " in lines[2]
    assert "damaged: see modenc hub check" in lines[3]
    assert "vocabulary LA SE CLA" in lines[4]
    assert "sts 76.2" in lines[4]


@pytest.mark.parametrize(
    ("licenses", "expected"),
    [
        (["CC0-1.0", "CC-BY-2.0-FR", "cc by-sa 4.0", "MIT", "MPL-2.0", "Apache 2.0"], "yes"),
        (["MIT", "CC-BY-NC-4.0"], "no"),
        (["CC-BY-2.0-FR and WMT (research)"], "no"),
        (["mixed: MIT, GPL-3.0"], "unknown"),
        (["MIT", "none stated"], "unknown"),
        ([], "unknown"),
    ],
)
def test_list_says_whether_a_language_may_be_used_commercially(
    hub: Hub, capsys: pytest.CaptureFixture[str], licenses: list[str], expected: str
) -> None:
    card = hub.card("kk")
    data = [{"role": "parallel", "source": "t.tsv", "license": name, "rows": 1} for name in licenses]
    with hub.staging("kk") as staging:
        shutil.copytree(hub.layout("kk").root, staging, dirs_exist_ok=True)
        hub.publish(staging, replace(card, data=data, licenses=[name for name in licenses if name]))
    _, out, _ = run(capsys, "hub", "list", "--hub", hub.path, "--json")
    assert [language["commercial_use"] for language in json.loads(out)["languages"]][-1] == expected
    lines = run(capsys, "hub", "list", "--hub", hub.path)[1].splitlines()
    assert lines[-1][lines[1].index("commercial use") :].split()[0] == expected


def test_list_of_an_empty_hub_and_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Hub.create(tmp_path / "hub", INFO)
    assert "no languages yet" in run(capsys, "hub", "list", "--hub", tmp_path / "hub")[1]
    code, _, err = run(capsys, "hub", "list", "--hub", tmp_path / "none")
    assert code == 2
    assert "modenc hub list: " in err
    assert "expected a hub" in err


def test_show(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "hub", "show", "--hub", hub.path, "--lang", "kaz_Cyrl")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    for words in (
        ["language", "Kazakh", "(kk)"],
        ["base", "tiny/base"],
        ["commercial", "use", "yes"],
        ["stage", "method", "steps", "seconds", "settings"],
        ["sentence_encoding", "mnrl"],
        ["sts", "76.25"],
        ["paraphrases", "pairs.tsv", "1000", "CC", "BY-SA", "4.0"],
    ):
        assert words in lines
    assert "English (en), pivot" in run(capsys, "hub", "show", "--hub", hub.path, "--lang", "en")[1]
    assert (
        json.loads(run(capsys, "hub", "show", "--hub", hub.path, "--lang", "kk", "--json")[1])["lang"] == "kk"
    )


def test_show_prints_the_settings_that_matter(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    lora, optimizer = {"rank": 8, "alpha": 16}, {"steps": 0, "batch_size": 32, "learning_rate": 0.0005}
    common = {"max_length": 48, "lora": lora, "optimizer": optimizer}
    stages = {
        "vocabulary": {"settings": {"method": "extend", "size": 300, "new_pieces": 20, "storage": "int8"}},
        "language_adaptation": {"settings": {"objective": "none", **common}, "metrics": {"threads": 1}},
        "sentence_encoding": {
            "settings": {"objective": "none", "start": "en", "scored_steps": 9, **common},
            "metrics": {"steps": 9, "seconds": 3.6, "dev": [{"step": 0, "sts": 84.7}]},
        },
        "alignment": {"imported from": "https://example.org/cla", "base": "tiny/base"},
    }
    with hub.staging("kk") as staging:
        shutil.copytree(hub.layout("kk").root, staging, dirs_exist_ok=True)
        hub.publish(staging, replace(hub.card("kk"), stages=stages))
    out = run(capsys, "hub", "show", "--hub", hub.path, "--lang", "kk")[1]
    _, *rows = out.partition("\nstages\n")[2].partition("\n\n")[0].splitlines()
    trained = "rank 8, learning_rate 0.0005, batch_size 32"
    assert [re.split("  +", row.strip()) for row in rows] == [
        ["vocabulary", "extend", "size 300, new_pieces 20, storage int8"],
        ["language_adaptation", "none"],
        ["sentence_encoding", "scored pairs from en", "9", "4", trained],
        ["alignment", "imported", "from https://example.org/cla"],
    ]
    assert "{" not in out


def test_check(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "hub", "check", "--hub", hub.path)[:2] == (
        0,
        "hub: no issues (en, az, kk)\n",
    )
    (hub.layout("kk").root / "README.md").unlink()
    code, out, _ = run(capsys, "hub", "check", "--hub", hub.path)
    assert code == 1
    assert out.startswith("kk/README.md: expected by the card, not found\n")
    assert run(capsys, "hub", "check", "--hub", hub.path, "--lang", "aze")[:2] == (
        0,
        "hub: no issues (az)\n",
    )
    assert run(capsys, "hub", "check", "--hub", hub.path, "--lang", "ky")[0] == 2


def test_remove(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "hub", "remove", "--hub", hub.path, "--lang", "kaz")
    assert code == 0
    assert out.startswith("removed Kazakh (kk): ")
    assert hub.languages() == ["en", "az"]
    code, _, err = run(capsys, "hub", "remove", "--hub", hub.path, "--lang", "en")
    assert code == 2
    assert "en is the pivot" in err
    assert "--force" in err
    assert run(capsys, "hub", "remove", "--hub", hub.path, "--lang", "en", "--force")[0] == 0
    assert hub.languages() == ["az"]


def test_install(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(hub.path / "kk", tmp_path / "download")
    code, out, _ = run(capsys, "hub", "install", tmp_path / "download", "--hub", hub.path)
    assert code == 0
    assert out.startswith("installed Kazakh (kk) in ")
    assert hub.languages() == ["en", "az", "kk"]
    code, _, err = run(capsys, "hub", "install", tmp_path / "download", "--hub", hub.path, "--lang", "az")
    assert code == 2
    assert "expected the modules of 'az', found those of 'kk'" in err


def test_lists_and_checks_as_json(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    (hub.path / "az" / "card.json").write_text("{")
    found = json.loads(run(capsys, "hub", "list", "--hub", hub.path, "--json")[1])
    assert (found["hub"], found["base"]["id"], found["pivot"]) == ("hub", "tiny/base", "en")
    en, az, kk = found["languages"]
    assert (kk["code"], kk["name"], kk["licenses"]) == ("kk", "Kazakh", ["CC BY-SA 4.0"])
    assert kk["modules"] == ["vocabulary", "LA", "SE", "CLA"]
    assert kk["bytes"] > 0
    assert "error" in az
    assert en["code"] == "en"
    code, out, _ = run(capsys, "hub", "check", "--hub", hub.path, "--json")
    (issue,) = json.loads(out)["issues"]
    assert (code, issue["lang"], issue["file"]) == (1, "az", "card.json")
    code, out, _ = run(capsys, "hub", "check", "--hub", hub.path, "--lang", "kk", "--lang", "en", "--json")
    assert (code, json.loads(out)["issues"]) == (0, [])


def test_several_languages_at_once(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Hub.create(tmp_path / "other", INFO)
    words = ("install", hub.path, "--hub", other.path, "--lang", "en", "--lang", "kk")
    assert run(capsys, "hub", *words)[0] == 0
    assert other.languages() == ["en", "kk"]
    # Nothing is removed where one of them may not be.
    words = ("remove", "--hub", other.path, "--lang", "kk", "--lang", "en")
    assert run(capsys, "hub", *words)[0] == 2
    assert other.languages() == ["en", "kk"]
    assert run(capsys, "hub", *words, "--force")[0] == 0
    assert other.languages() == []


def test_install_makes_a_hub_like_the_source(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("hub", "install", hub.path, "--hub", tmp_path / "new")
    for langs, message in (((), "say which of its languages"), (("kk", "ky"), "no modules for ky")):
        code, _, err = run(capsys, *words, *(word for lang in langs for word in ("--lang", lang)))
        assert (code, message in err) == (2, True)
        assert not (tmp_path / "new").exists()
    code, out, _ = run(capsys, *words, "--lang", "kaz_Cyrl", "--lang", "en")
    assert code == 0
    assert [line.partition(")")[0] for line in out.splitlines()] == [
        "installed Kazakh (kk",
        "installed English (en",
    ]
    made = Hub.open(tmp_path / "new")
    assert (made.info, made.languages()) == (hub.info, ["en", "kk"])
    assert run(capsys, "hub", "check", "--hub", made.path)[0] == 0
    # A language's folder does not say what a hub has to.
    code, _, err = run(capsys, "hub", "install", hub.path / "kk", "--hub", tmp_path / "other")
    assert (code, "expected a hub (a folder with hub.json), found no such folder" in err) == (2, True)
