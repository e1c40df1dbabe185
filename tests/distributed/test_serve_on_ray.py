"""The application for ``serve run``, on a cluster of two nodes, as OpenAI's client sees it."""

import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder

openai = pytest.importorskip("openai", reason="the client is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("ray.serve", reason="Ray Serve cannot be imported (the extras ray and serve)")
needs_program = pytest.mark.skipif(find_spec("watchfiles") is None, reason="watchfiles is not installed")

KEY = "a-key-that-nobody-guesses"
URL = "http://127.0.0.1:8000"
TEXTS = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:10]]


def test_options_are_those_of_the_command(tiny_hub, monkeypatch, capsys):
    from modenc.cli.serve_on_ray import app

    monkeypatch.setenv("MODENC_API_KEYS", KEY)
    for _ in range(2):  # Ray may build it twice in one process
        args, digests = app({"hub": tiny_hub.path, "batch-size": 30})._bound_deployment.init_args
        assert (args.hub, args.batch_size, len(digests)) == (str(tiny_hub.path), 30, 1)
    with pytest.raises(SystemExit):
        app({"hub": tiny_hub.path, "batchsize": 30})
    assert "unrecognized arguments: --batchsize" in capsys.readouterr().err


@needs_program
@pytest.mark.slow
@pytest.mark.cluster
def test_replicas_answer_as_one_server_does(head, add_node, tiny_hub):
    for _ in range(2):
        add_node()
    program = [sys.executable, "-c", "from ray.serve.scripts import cli; cli()"]  # serve
    words = [f"hub={tiny_hub.path}", "preload=all", "replicas=2"]
    command = [*program, "run", "--address", head.address, "modenc.cli.serve_on_ray:app", *words]
    process = subprocess.Popen(command, env=os.environ | {"MODENC_API_KEYS": KEY})
    try:
        end = time.monotonic() + 400
        while process.poll() is None and time.monotonic() < end:
            with suppress(OSError), urllib.request.urlopen(f"{URL}/health", timeout=60):
                break
            time.sleep(0.5)
        client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=8, timeout=60)
        name = Path(tiny_hub.path).name
        assert [model.id for model in client.models.list()] == [name]
        expected = ModularEncoder(tiny_hub.path).encode(TEXTS, normalize_embeddings=True)
        for _ in range(20):
            rows = client.embeddings.create(model=name, input=TEXTS).data
            np.testing.assert_allclose([row.embedding for row in rows], expected, atol=1e-5, rtol=0)
        with pytest.raises(openai.AuthenticationError, match="expected an API key"):
            openai.OpenAI(base_url=f"{URL}/v1", api_key="another", max_retries=0).models.list()
        with pytest.raises(openai.BadRequestError, match="at least 1 item"):
            client.embeddings.create(model=name, input=[])
    finally:
        process.terminate()
        process.wait(120)
