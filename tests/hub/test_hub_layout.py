from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_languages import HIDDEN, write_modules

from modenc.errors import HubError
from modenc.hub.layout import parts_in
from modenc.hub.reading import read_parts


def test_parts_are_listed_in_order(tmp_path: Path) -> None:
    write_modules(tmp_path / "kk")
    folder = tmp_path / "kk"
    assert parts_in(folder) == ("tokenizer", "embeddings", "la", "se", "cla")
    for part in ("la", "cla", "tokenizer"):
        shutil.rmtree(folder / part)
    (folder / "embeddings.safetensors").unlink()
    assert parts_in(folder) == ("se",)
    assert parts_in(tmp_path / "nothing") == ()


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
        read_parts(tmp_path, HIDDEN)
