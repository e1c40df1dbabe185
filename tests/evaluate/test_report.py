"""The pictures that are made of what results carry beside their figures."""

from modenc.evaluate.report import write_report
from modenc.evaluate.results import SystemResults


def test_dev_curves_become_a_picture_a_stage(tmp_path):
    curves = {
        "kk": {"sentence_encoding": [[0, 70.0], [30, 78.5]], "alignment": [[0, 60.0], [30, 61.0]]},
        "az": {"alignment": [[0, 55.0], [30, 58.0]]},
    }
    about = {
        "system": {"dev_curves": curves},
        "versions": {"torch": "2"},
        "hardware": {"processors": 1, "machine": "x"},
        "created": "2026-01-01",
    }
    write_report([SystemResults("hub", "suite", 1, 1.0, about, (), {})], tmp_path)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        "training-sentence_encoding-hub.png",
        "training-alignment-hub.png",
    }
