"""Plots of the dev curves that results carry."""

import numpy as np
from matplotlib.image import imread

from modenc.evaluation import report
from modenc.evaluation.results import SystemResults


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
    systems = [SystemResults("hub", "suite", 1, 1.0, about, (), {})]
    drawn = {
        name: {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
        for name, figure in report._figures(systems)
    }
    assert drawn == {
        "training-sentence_encoding-hub": {"kk": [[0, 70.0], [30, 78.5]]},
        "training-alignment-hub": {"kk": [[0, 60.0], [30, 61.0]], "az": [[0, 55.0], [30, 58.0]]},
    }
    report.write_report(systems, tmp_path)
    pictures = {path.stem: imread(path) for path in (tmp_path / "plots").iterdir()}
    assert pictures.keys() == drawn.keys()
    for picture in pictures.values():
        assert len(np.unique(picture[..., :3].reshape(-1, 3), axis=0)) > 2, "not even a line on its ground"
