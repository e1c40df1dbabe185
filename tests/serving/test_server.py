"""Limits, overload, operators' routes, and the end of a server, over plain HTTP."""

import http.client
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from tiny_models import sentences

from modenc.cli.main import main

pytest.importorskip("fastapi", reason="the extra serve is not installed")

REFUSED = 'modenc_requests_total{route="/v1/embeddings",status="429"}'


def ask(texts, **fields):
    return {"model": "tiny", "input": texts, **fields}


def refused(server, body, path="/v1/embeddings"):
    status, headers, answer = server.request(path, body)
    return status, json.loads(answer)["error"], headers


def until_waiting(server):
    """Until three texts are in the queue, where they stay until another comes."""
    end = time.monotonic() + 50
    while server.metric("modenc_texts_waiting") != 3:
        assert time.monotonic() < end, "they do not wait"
        time.sleep(0.05)


def send_fourth(server):
    """Complete the batch of those that wait."""
    assert server.request("/v1/embeddings", ask("a"))[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"input": "a", ', 400, "body: expected JSON, found at character 15: "),
        (b"[" * 1900, 400, "body: expected JSON in UTF-8"),
        ([], 400, "body: expected a JSON object"),
        (ask(["a"] * 5), 400, "input: expected 1 to 4 texts, found 5; send several requests"),
        (ask(["a", "b" * 51]), 400, "input.1: expected at most 50 characters, found 51; split the text"),
        (ask(["a" * 3000]), 413, "expected at most 2000 bytes in a request, found more"),
    ],
)
def test_bad_bodies_are_refused_in_openais_format(small_server, body, status, message):
    found, error, _ = refused(small_server, body)
    assert (found, error["type"]) == (status, "invalid_request_error")
    assert message in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}


@pytest.mark.slow
def test_a_body_of_unknown_length_is_counted_as_it_comes(small_server):
    connection = http.client.HTTPConnection(urlsplit(small_server.url).netloc, timeout=60)
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    body = (b" " * 500 for _ in range(9))
    with suppress(BrokenPipeError, ConnectionResetError):  # the answer comes before all of it is sent
        connection.request("POST", "/v1/embeddings", body, headers, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["type"]) == (413, "invalid_request_error")


@pytest.mark.slow
def test_head_is_answered_as_get_without_a_body(server):
    """Over one connection, which a body would put out of step."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    for path in ("/health", "/ready", "/metrics", "/", "/v1/models", "/v1/models/tiny", "/openapi.json"):
        for key, status in (("first-key", 200), ("wrong", 401 if path.startswith("/v1") else 200)):
            connection.request("HEAD", path, headers={"Authorization": f"Bearer {key}"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b""), path
            assert int(answer.headers["content-length"]) > 0
    connection.request("HEAD", "/v1/embeddings", headers={"Authorization": "Bearer first-key"})
    assert connection.getresponse().status == 405


@pytest.mark.slow
def test_a_server_that_starts_is_healthy_and_not_ready(small_server):
    assert small_server.at_first == {"/health": 200, "/ready": 503, "/v1/models": 503}


@pytest.mark.slow
def test_unknown_paths_and_methods(small_server):
    status, error, _ = refused(small_server, ask("a"), "/embeddings")
    assert status == 404
    assert "path: expected /v1/embeddings, " in error["message"]
    assert "found '/embeddings'; the base URL of OpenAI's clients ends in /v1" in error["message"]
    status, error, _ = refused(small_server, None)
    assert (status, error["message"]) == (405, "method: expected POST, found GET")


@pytest.mark.slow
def test_with_a_full_queue_requests_are_told_when_to_come_again(small_server):
    """Three of four places are taken while a batch waits for more."""
    before = small_server.metric(REFUSED)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(small_server.request, "/v1/embeddings", ask(sentences("en")[:3]))
        until_waiting(small_server)
        status, error, headers = refused(small_server, ask(["a", "b"]))
        assert (status, error["type"], error["code"]) == (429, "rate_limit_error", "rate_limit_exceeded")
        assert "too many texts are waiting" in error["message"]
        assert headers["retry-after"] == "1"
        send_fourth(small_server)
        assert first.result()[0] == 200
    assert small_server.metric(REFUSED) == before + 1


@pytest.mark.slow
def test_texts_of_clients_that_left_are_not_encoded(small_server):
    before = small_server.metric("modenc_batch_texts_sum")
    connection = http.client.HTTPConnection(urlsplit(small_server.url).netloc)
    connection.request("POST", "/v1/embeddings", json.dumps(ask("a")), {"Content-Type": "application/json"})
    connection.close()
    end = time.monotonic() + 60
    left = 'modenc_requests_total{route="/v1/embeddings",status="499"}'
    while small_server.metric(left) < 1 and time.monotonic() < end:
        time.sleep(0.2)
    assert small_server.metric(left) == 1
    assert small_server.request("/v1/embeddings", ask(sentences("kk")[:3]))[0] == 200
    assert small_server.metric("modenc_batch_texts_sum") == before + 3


@pytest.mark.slow
def test_operators_routes_ask_for_no_key(server):
    for path in ("/health", "/ready", "/metrics", "/"):
        assert server.request(path)[0] == 200, path
    for path in ("/v1/models", "/v1/embeddings", "/api/similarities", "/v1/nothing"):
        status, error, headers = refused(server, None, path)
        assert (status, error["type"], error["code"]) == (401, "authentication_error", "invalid_api_key")
        assert headers["www-authenticate"] == "Bearer"
    server.request("/v1/embeddings", ask("Good morning"), "first-key")
    page = server.request("/metrics")[2]
    assert "modenc_request_seconds_bucket" in page
    assert "process_resident_memory_bytes" in page
    assert server.metric('modenc_texts_total{language="en"}') >= 1


@pytest.mark.slow
def test_sigterm_ends_a_server_after_it_has_answered(small_server):
    """The last test of this server: three requests wait for their batch when the signal comes."""
    with ThreadPoolExecutor(3) as threads:
        texts = sentences("az")[:3]
        answers = [threads.submit(small_server.request, "/v1/embeddings", ask(text)) for text in texts]
        until_waiting(small_server)
        small_server.process.send_signal(signal.SIGTERM)
        assert [answer.result()[0] for answer in answers] == [200] * 3
    assert small_server.process.wait(60) == 0
    assert "Traceback" not in small_server.log.read_text()


def test_what_cannot_be_served_is_said_before_anything_is_loaded(tiny_hub, tmp_path, capsys, monkeypatch):
    hub = ["serve", "--hub", str(tiny_hub.path)]
    for words, message in (
        (["serve", "--hub", str(tmp_path / "none")], "expected a hub's folder, found no such folder"),
        (
            [*hub, "--max-texts", "9", "--max-waiting", "8"],
            "expected at least --max-texts (9), found 8",
        ),
        ([*hub, "--host", "192.0.2.1"], "Cannot assign requested address"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setenv("MODENC_API_KEYS", "ключ")
    assert main(hub) == 2
    assert "MODENC_API_KEYS: expected printable ASCII keys" in capsys.readouterr().err


@pytest.mark.slow
def test_a_hub_that_cannot_be_opened_ends_the_server(hub_copy):
    from tiny_languages import edit_json

    edit_json(hub_copy.path / "hub.json", base_fingerprint="0" * 64)
    command = [sys.executable, "-m", "modenc.cli", "serve", "--hub", str(hub_copy.path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "expected the weights that the modules" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
