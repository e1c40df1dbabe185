"""The requests of docs/serving.md work."""

import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_requests_work(server, capsys):
    pytest.importorskip("openai", reason="the client is not installed")
    (code,) = blocks("python")
    for shown, here in (("http://127.0.0.1:8000", server.url), ("me5-small", "tiny"), ("256", "16")):
        code = code.replace(shown, here)
    exec(code.replace('"any"', '"first-key"'), {})
    assert capsys.readouterr().out.startswith("16 ['en', 'kk'] ")
    (curl,) = (block for block in blocks("bash") if block.startswith("curl"))
    words = shlex.split(curl)
    body = json.loads(words[words.index("-d") + 1]) | {"model": "tiny"}
    assert server.request(words[1].removeprefix("http://127.0.0.1:8000"), body, "first-key")[0] == 200
