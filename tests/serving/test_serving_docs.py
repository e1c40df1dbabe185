"""docs/serving.md and deploy/ say what is there: requests, options, commands, files, limits."""

import json
import re
import shlex
from pathlib import Path

import pytest

from modenc.cli.main import parse

pytest.importorskip("fastapi", reason="the extra serve is not installed")

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


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


def test_the_dockerfile_starts_what_is_there():
    command = [word for name in ("ENTRYPOINT", "CMD") for word in json.loads(_last(name))]
    assert command[0] == "modenc"
    args = parse(command[1:])
    assert (args.host, args.port, args.preload) == ("0.0.0.0", 8000, "all")
    assert (ROOT / re.search(r"^ARG HUB=(\S+)", DOCKERFILE, re.MULTILINE)[1] / "hub.json").is_file()
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    for words in re.findall(r"^COPY (?!--|\$)(.+)$", DOCKERFILE, re.MULTILINE):
        for name in words.split()[:-1]:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name


def _last(name):
    return re.findall(rf"^ *{name} (\[.+\])$", DOCKERFILE, re.MULTILINE)[-1]
