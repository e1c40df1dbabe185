from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_languages import write_modules

from modenc.errors import HubError
from modenc.hub.layout import LanguageLayout


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
        ("se/adapter_model.safetensors", r"se: expected adapter_config.json and adapter_model.safetensors, "
         r"adapter_model.safetensors not found; install"),
        ("cla/adapter_config.json", "adapter_config.json not found"),
        ("tokenizer/tokenizer.json", "expected tokenizer.json, tokenizer.json not found"),
        ("embeddings.safetensors", "expected tokenizer and embeddings together, found only the tokenizer; "
         "restore embeddings.safetensors"),
    ],
)  # fmt: skip
def test_half_a_part_is_an_error(tmp_path: Path, file: str, message: str) -> None:
    write_modules(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(HubError, match=message):
        LanguageLayout(tmp_path).present()


def test_embeddings_without_a_tokenizer_are_an_error(tmp_path: Path) -> None:
    write_modules(tmp_path)
    shutil.rmtree(tmp_path / "tokenizer")
    with pytest.raises(HubError, match=r"found only the embeddings; restore tokenizer/tokenizer\.json"):
        LanguageLayout(tmp_path).present()
