from __future__ import annotations

import json
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
    assert [line.split()[0] for line in lines[1:]] == ["code", "en", "az", "kk", "scores:"]
    assert "vocabulary LA SE  " in lines[2]
    assert "damaged: see modenc hub check" in lines[3]
    assert "vocabulary LA SE CLA" in lines[4]
    assert lines[4].endswith("  70.0 → 76.2")
    assert lines[1].endswith("  similarity")
    assert lines[5].startswith("scores: bare base → modules")


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
    hub.publish(
        hub.version_folder("kk"), replace(card, data=data, licenses=[name for name in licenses if name])
    )
    _, out, _ = run(capsys, "hub", "list", "--hub", hub.path, "--json")
    assert [language["commercial_use"] for language in json.loads(out)["languages"]][-1] == expected
    lines = run(capsys, "hub", "list", "--hub", hub.path)[1].splitlines()
    assert lines[-2][lines[1].index("commercial use") :].split()[0] == expected


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
        ["stage", "method", "steps", "batch", "learning", "rate", "tokens", "strength"],
        ["vocabulary", "base"],
        ["sentence_encoding", "mnrl", "30", "8", "0.9"],
        ["similarity", "within", "the", "language", "(Spearman", "x", "100)", "200", "70.0", "76.2"],
        ["paraphrases", "1", "1,000"],
    ):
        assert words in lines
    assert "English (en), pivot" in run(capsys, "hub", "show", "--hub", hub.path, "--lang", "en")[1]
    assert (
        json.loads(run(capsys, "hub", "show", "--hub", hub.path, "--lang", "kk", "--json")[1])["lang"] == "kk"
    )


def test_check(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "hub", "check", "--hub", hub.path)[:2] == (
        0,
        "hub: no issues (en, az, kk)\n",
    )
    (hub.version_folder("kk") / "README.md").unlink()
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
    assert out.startswith("removed Kazakh (kk) from ")
    assert hub.languages() == ["en", "az"]


def test_install(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(hub.path / "kk", tmp_path / "download")
    code, out, _ = run(capsys, "hub", "install", tmp_path / "download", "--hub", hub.path)
    assert code == 0
    assert out.startswith("installed Kazakh (kk) in ")
    assert hub.languages() == ["en", "az", "kk"]
    code, _, err = run(capsys, "hub", "install", tmp_path / "download", "--hub", hub.path, "--lang", "az")
    assert code == 2
    assert "expected the modules of 'az', found those of 'kk'" in err


def test_list_as_json(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    (hub.path / "az" / "card.json").write_text("{")
    found = json.loads(run(capsys, "hub", "list", "--hub", hub.path, "--json")[1])
    assert (found["hub"], found["base"]["id"], found["pivot"]) == ("hub", "tiny/base", "en")
    en, az, kk = found["languages"]
    assert (kk["code"], kk["name"], kk["licenses"]) == ("kk", "Kazakh", ["CC BY-SA 4.0"])
    assert kk["modules"] == ["vocabulary", "LA", "SE", "CLA"]
    assert kk["bytes"] > 0
    assert "error" in az
    assert en["code"] == "en"


def test_several_languages_at_once(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Hub.create(tmp_path / "other", INFO)
    words = ("install", hub.path, "--hub", other.path, "--lang", "en", "--lang", "kk")
    assert run(capsys, "hub", *words)[0] == 0
    assert other.languages() == ["en", "kk"]
    # Nothing is removed where one of them is not there.
    words = ("remove", "--hub", other.path, "--lang", "kk")
    assert run(capsys, "hub", *words, "--lang", "az")[0] == 2
    assert other.languages() == ["en", "kk"]
    assert run(capsys, "hub", *words, "--lang", "en")[0] == 0
    assert other.languages() == []


def test_install_makes_a_hub_like_the_source(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("hub", "install", hub.path, "--hub", tmp_path / "new")
    code, _, err = run(capsys, *words, "--lang", "kk", "--lang", "ky")
    assert (code, "no modules for ky" in err) == (2, True)
    assert not (tmp_path / "new").exists()
    with pytest.warns(UserWarning, match=r"lacks English \(en\), the pivot .*; install it, too"):
        run(capsys, "hub", "install", hub.path, "--hub", tmp_path / "alone", "--lang", "kk")
    code, out, _ = run(capsys, *words, "--lang", "kaz_Cyrl", "--lang", "en")
    assert code == 0
    assert [line.partition(")")[0] for line in out.splitlines()] == [
        "installed Kazakh (kk",
        "installed English (en",
    ]
    made = Hub.open(tmp_path / "new")
    assert (made.info, made.languages()) == (hub.info, ["en", "kk"])
    assert run(capsys, "hub", "check", "--hub", made.path)[0] == 0
    assert run(capsys, *words)[0] == 0
    assert made.languages() == hub.languages()
    # Into itself, nothing is written anew.
    assert run(capsys, "hub", "install", hub.path, "--hub", hub.path)[0] == 2
    # Of a damaged source nothing is installed.
    (hub.version_folder("kk") / "README.md").write_text("changed")
    assert run(capsys, "hub", "install", hub.path, "--hub", tmp_path / "third")[0] == 2
    assert not (tmp_path / "third").exists()
    code, _, err = run(capsys, "hub", "install", hub.path / "az", "--hub", made.path, "--revision", "v1")
    assert (code, "only applies to hubs on Hugging Face" in err) == (2, True)
    # A language's folder does not say what a hub has to.
    code, _, err = run(capsys, "hub", "install", hub.path / "kk", "--hub", tmp_path / "other")
    assert (code, "expected a hub (a folder with hub.json), found no such folder" in err) == (2, True)
