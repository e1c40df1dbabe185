from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_languages import INFO

from modenc.cli.main import main
from modenc.hub.store import Hub


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_ls(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    (hub.path / "az" / "card.json").write_text("{")
    code, out, _ = run(capsys, "ls", hub.path)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].endswith("base tiny/base (f00d), pivot en")
    assert [line.split()[0] for line in lines[1:]] == ["code", "en", "az", "kk"]
    assert "vocabulary LA SE  " in lines[2]
    assert "damaged: see modenc verify" in lines[3]
    assert "vocabulary LA SE CLA" in lines[4]
    assert "sts 76.2" in lines[4]
    assert lines[4].endswith("CC BY-SA 4.0")


def test_ls_of_an_empty_hub_and_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Hub.create(tmp_path / "hub", INFO)
    assert "no languages yet" in run(capsys, "ls", tmp_path / "hub")[1]
    code, _, err = run(capsys, "ls", tmp_path / "none")
    assert code == 2
    assert "modenc ls: " in err
    assert "expected a hub" in err


def test_show(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", hub.path, "kaz_Cyrl")
    assert code == 0
    for part in ("Kazakh (kk)", "tiny/base (f00d)", "sentence_encoding", "76.25", "pairs.tsv", "1000 rows"):
        assert part in out
    assert "English (en) (pivot)" in run(capsys, "show", hub.path, "en")[1]
    assert json.loads(run(capsys, "show", hub.path, "kk", "--json")[1])["lang"] == "kk"


def test_verify(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", hub.path)[:2] == (0, f"{hub.path}: all well (en, az, kk)\n")
    (hub.path / "kk" / "README.md").unlink()
    code, out, _ = run(capsys, "verify", hub.path)
    assert code == 1
    assert out.startswith("kk/README.md: expected by the card, not found\n")
    assert run(capsys, "verify", hub.path, "--lang", "aze")[:2] == (0, f"{hub.path}: all well (az)\n")
    assert run(capsys, "verify", hub.path, "--lang", "ky")[0] == 2


def test_rm(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "rm", hub.path, "kaz")
    assert code == 0
    assert out.startswith("removed Kazakh (kk): ")
    assert hub.languages() == ["en", "az"]
    code, _, err = run(capsys, "rm", hub.path, "en")
    assert code == 2
    assert "en is the pivot" in err
    assert "--force" in err
    assert run(capsys, "rm", hub.path, "en", "--force")[0] == 0
    assert hub.languages() == ["az"]


def test_install(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(hub.path / "kk", tmp_path / "download")
    code, out, _ = run(capsys, "install", tmp_path / "download", hub.path)
    assert code == 0
    assert out.startswith("installed Kazakh (kk) in ")
    assert hub.languages() == ["en", "az", "kk"]
    code, _, err = run(capsys, "install", tmp_path / "download", hub.path, "--lang", "az")
    assert code == 2
    assert "expected the modules of 'az', found those of 'kk'" in err
