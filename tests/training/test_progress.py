"""Output of a training: readable log lines, and progress bars on terminals alone."""

import logging
import sys
import warnings
from types import SimpleNamespace

import pytest

from modenc.cli.main import main
from modenc.training.body_module import on_terminal


@pytest.mark.parametrize("there", [True, False])
def test_bars_are_for_terminals(monkeypatch, there):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: there))
    assert on_terminal() == there
    monkeypatch.setattr(sys, "stderr", None)
    assert not on_terminal()


def test_a_log_of_a_training_is_for_people(tiny_recipe, tiny_bert, caplog, capfd):
    path = tiny_recipe("said", tiny_bert)
    words = ["vocabulary.method=extend", "vocabulary.new_pieces=40", "vocabulary.fasttext_dim=16"]
    with caplog.at_level("INFO"):
        assert main(["train", str(path), "--lang", "en", *words]) == 0
    said = caplog.text + capfd.readouterr().err
    assert "  dev at step 2: sts " in said
    for noise in ("{'", "[RANK", "pin_memory", "it/s", "%|", "warnings.warn", "\r"):
        assert noise not in said


def test_warnings_on_the_command_line_show_no_python(capsys):
    before = warnings.formatwarning
    try:
        assert main(["recipe", "list"]) == 0
        assert warnings.formatwarning("so it is", UserWarning, "a.py", 3) == "warning: so it is"
    finally:
        warnings.formatwarning = before
        logging.captureWarnings(False)
