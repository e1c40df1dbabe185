"""Operators' routes, keys, and the end of a server, over plain HTTP."""

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_models import sentences

from modenc.cli.main import main

pytest.importorskip("fastapi", reason="the extra serve is not installed")


def ask(texts, **fields):
    return {"model": "tiny", "input": texts, **fields}


def refused(server, body, path="/v1/embeddings", key="first-key"):
    status, _, answer = server.request(path, body, key)
    return status, json.loads(answer)["error"]


@pytest.mark.slow
def test_unknown_paths_and_methods(server):
    status, error = refused(server, ask("a"), "/embeddings")
    assert status == 404
    assert "no such path: '/embeddings'; the base URL of OpenAI's clients ends in /v1" in error["message"]
    assert refused(server, None)[0] == 405


@pytest.mark.slow
def test_operators_routes_ask_for_no_key(server):
    for path in ("/health", "/metrics", "/"):
        assert server.request(path)[0] == 200, path
    for path in ("/v1/models", "/v1/embeddings", "/api/similarities", "/v1/nothing"):
        for key in ("", "wrong", "first-key,second-key"):
            status, error = refused(server, None, path, key)
            assert (status, error["type"], error["code"]) == (401, "authentication_error", "invalid_api_key")
    assert server.request("/v1/embeddings", ask("Good morning"), "first-key")[0] == 200
    page = server.request("/metrics")[2]
    assert "modenc_request_seconds_bucket" in page
    assert "process_resident_memory_bytes" in page
    assert server.metric('modenc_texts_total{language="en"}') >= 1
    assert server.metric('modenc_requests_total{route="/v1/embeddings",status="200"}') >= 1


@pytest.mark.slow
def test_sigterm_ends_a_server_after_it_has_answered(own_server):
    with ThreadPoolExecutor(3) as threads:
        texts = sentences("az") * 5
        answers = [threads.submit(own_server.request, "/v1/embeddings", ask(texts)) for _ in range(3)]
        while not own_server.metric("modenc_batch_texts_count"):
            time.sleep(0.01)
        own_server.process.send_signal(signal.SIGTERM)
        assert [answer.result()[0] for answer in answers] == [200] * 3
    assert own_server.process.wait(60) == 0
    assert "Traceback" not in own_server.log.read_text()


def test_what_cannot_be_served_is_said_before_anything_is_loaded(tiny_hub, tmp_path, capsys):
    for words, message in (
        (["--hub", str(tmp_path / "none")], "expected a hub's folder, found no such folder"),
        (["--hub", str(tiny_hub.path), "--host", "192.0.2.1"], "Cannot assign requested address"),
    ):
        assert main(["serve", *words]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_hub_that_cannot_be_opened_ends_the_server(hub_copy):
    from tiny_languages import edit_json

    edit_json(hub_copy.path / "hub.json", base_fingerprint="0" * 64)
    command = [sys.executable, "-m", "modenc.cli", "serve", "--hub", str(hub_copy.path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "expected the weights that the modules" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
