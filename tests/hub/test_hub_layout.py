from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_languages import HIDDEN, write_modules

from modenc.errors import HubError
from modenc.hub.layout import LanguageLayout
from modenc.hub.reading import read_parts


def test_present_lists_parts_in_order(tmp_path: Path) -> None:
    write_modules(tmp_path / "kk")
    layout = LanguageLayout(tmp_path / "kk")
    assert layout.present() == ("tokenizer", "embeddings", "la", "se", "cla")
    for folder in (layout.la, layout.cla, layout.tokenizer):
        shutil.rmtree(folder)
    layout.embeddings.unlink()
    assert layout.present() == ("se",)
    assert LanguageLayout(tmp_path / "nothing").present() == ()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("se/adapter_model.safetensors", "se/adapter_model.safetensors: expected a readable file"),
        ("tokenizer/tokenizer.json", "tokenizer/tokenizer.json: expected a readable file"),
        ("embeddings.safetensors", "expected tokenizer and embeddings together"),
    ],
)
def test_half_a_part_is_an_error(tmp_path: Path, file: str, message: str) -> None:
    write_modules(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(HubError, match=message):
        read_parts(LanguageLayout(tmp_path), HIDDEN)
