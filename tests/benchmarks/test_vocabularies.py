"""RESULTS.md's section on vocabularies: what is worked out from stored figures."""

import json

import pytest

BASE_PIECES = {"tokens": 20.0, "within": 84.0, "across": 70.0}


@pytest.fixture
def section(program, tmp_path):
    """The section of figures that are stored first."""
    vocabulary_section = program("vocabulary_tables").vocabulary_section

    def lines(**own):
        folder = tmp_path / "results" / "vocabularies"
        folder.mkdir(parents=True)
        for name, figures in own.items():
            method, lang = name.split("_")
            curve = figures.pop("curve", "sts")
            stored = {
                "base": {"tokens": 20.0, "within": 83.0, "across": 60.0},
                "base_pieces": BASE_PIECES,
                method: {"tokens": 16.0, "within": 84.0, "across": 70.0, **figures},
                "speed_ratio": [1.2, 1.1, 1.3],
                "sets": {"scored": {"rows_seen": 1600}, "parallel": {"rows_seen": 1600}},
                "dev_before": {curve: 60.0},
                "learned": [{"step": 0, curve: 60.0}, {"step": 100, curve: 83.5}],
            }
            (folder / f"{method}.{lang}.json").write_text(json.dumps(stored))
        (tmp_path / "vocabularies.md").write_text("What was done.\n")
        return vocabulary_section(tmp_path / "results")

    return lines


def test_a_vocabulary_ships_that_saves_and_loses_nothing(section):
    lines = section(
        extend_kk={},
        extend_ky={"within": 83.6},
        extend_ug={"across": 69.6},
        focus_kk={"tokens": 17.2},
        focus_ky={"within": 83.66, "curve": "teacher_cosine"},
    )
    compared = [line for line in lines if line.startswith("| kk, extend |")]
    assert (
        compared[0]
        == "| kk, extend | the pivot | 16.0 | 20.0 | 1.20 [1.10, 1.30] | 84.0 | 84.0 | 70.0 | 70.0 | yes |"
    )
    # 1,600 scored pairs and 1,600 translations.
    assert "| learning from the pivot: within, by sentences read | 0 | 4,800 |" in lines
    assert compared[1] == "| kk, extend | 60.0 | 83.5 |"
    (place,) = (
        n for n, line in enumerate(lines) if "mean cosine x 100, by sentences read | 0 | 4,800" in line
    )
    assert lines[place + 2 : place + 4] == ["| ky, focus | 60.0 | 83.5 |", ""]
    ships = [line.rstrip("| ").rsplit("| ", 1)[1] for line in lines if line.count("|") == 11][2:]
    assert ships == ["yes", "no", "no", "no", "yes"]


def test_nothing_stored_is_no_section(section):
    assert section() == []
