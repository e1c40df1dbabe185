"""``modenc serve --on ray``: OpenAI's client, replicas on several nodes, and one of them lost midway."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.cli.main import main

openai = pytest.importorskip("openai", reason="the client is not installed")
pytest.importorskip("ray", reason="ray is not installed (the extra ray)")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

needs_serve = pytest.mark.skipif(
    find_spec("grpc_reflection") is None, reason="Ray Serve needs grpcio-reflection, which is not installed"
)
KEY = "a-key-that-nobody-guesses"
TEXTS = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:100]]


def until(what, seconds=480):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)
    return found


class Service:
    """The command in a process of its own."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def logged(self, pattern):
        def found():
            assert self.process.poll() is None, self.log.read_text()
            return re.search(pattern, self.log.read_text())

        return until(found)

    def ready(self):
        self.url = self.logged(r"ready at (http://\S+)")[1]
        return self

    def client(self, key=KEY, retries=8):
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=retries, timeout=60)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def serve(head, tiny_hub, tmp_path):
    """Starts the command; what still runs is killed at the end."""

    @contextmanager
    def started(*options, hub=tiny_hub.path, keys=KEY):
        log = tmp_path / "serve.log"
        command = [sys.executable, "-m", "modenc.cli", "serve", "--hub", str(hub), "--port", "0"]
        command += ["--on", "ray", "--address", head.address, *options]
        with log.open("w") as stream:
            process = subprocess.Popen(
                command, stdout=stream, stderr=stream, env=os.environ | {"MODENC_API_KEYS": keys}
            )
        try:
            yield Service(process, log)
        finally:
            # Replicas outlive a command that is killed.
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()

    return started


def vectors(client, texts):
    answer = client.embeddings.create(model="tiny", input=texts)
    return np.array([row.embedding for row in answer.data], dtype=np.float32)


def replicas_counted(service):
    """Replica → texts that it has encoded, of ``/metrics``."""
    page = service.get("/metrics")[1]
    found = re.findall(r'^modenc_batch_texts_sum{replica="(\w+)"} (\S+)', page, re.MULTILINE)
    return {name: float(number) for name, number in found}


def logs(head):
    """All that Ray has written on all nodes."""
    folder = Path(head.head_node.get_session_dir_path()) / "logs"
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


@needs_serve
@pytest.mark.slow
@pytest.mark.cluster
def test_every_request_is_answered_while_a_node_is_lost(head, add_node, lose_node, serve, tiny_hub):
    nodes = [add_node(), add_node()]
    right = ModularEncoder(tiny_hub.path).encode(TEXTS, normalize_embeddings=True)
    rng = np.random.default_rng(0)
    asked = [rng.integers(len(TEXTS), size=rng.integers(1, 40)) for _ in range(300)]
    answered = []

    with serve("--preload", "all") as service:
        client = service.ready().client()

        def ask(number):
            if number == len(asked) // 3:
                before.update(replicas_counted(service))
                lose_node(nodes[0])
            found = vectors(client, [TEXTS[row] for row in asked[number]])
            np.testing.assert_allclose(found, right[asked[number]], atol=1e-5, rtol=0)
            answered.append(number)

        before = {}
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(ask, range(len(asked))))
        assert sorted(answered) == list(range(len(asked)))
        assert len(before) == 2
        assert all(number > 100 for number in before.values()), "both replicas answer"
        service.logged("1 of 2 replicas are ready")
        add_node()
        service.logged("2 of 2 replicas are ready")
        assert len(until(lambda: len(found := replicas_counted(service)) == 2 and found)) == 2
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(240) == 0


@needs_serve
@pytest.mark.slow
@pytest.mark.cluster
def test_it_answers_as_one_server_does_and_ends_when_told_to(head, add_node, serve):
    """One replica, which gathers eight texts or waits for twenty seconds."""
    add_node()
    limits = ["--max-texts", "8", "--max-waiting", "8", "--max-body", "3000"]
    with serve(*limits, "--batch-size", "8", "--window", "20000") as service:
        client = service.ready().client(retries=0)
        assert [service.get(path)[0] for path in ("/health", "/ready", "/", "/metrics")] == [200] * 4
        assert service.get("/v1/models")[0] == 401
        with pytest.raises(openai.AuthenticationError, match=r"Bearer KEY'\), found another"):
            service.client("another").models.list()
        assert [model.id for model in client.models.list()] == ["tiny"]
        with pytest.raises(openai.BadRequestError, match="expected 1 to 8 texts, found 9"):
            vectors(client, TEXTS[:9])
        with pytest.raises(openai.APIStatusError, match="expected at most 3000 bytes") as refused:
            vectors(client, ["a" * 4000])
        assert refused.value.status_code == 413
        with pytest.raises(openai.APITimeoutError):
            vectors(client.with_options(timeout=1), TEXTS[:1])
        until(lambda: '"/v1/embeddings",status="499"' in service.get("/metrics")[1], 30)
        with ThreadPoolExecutor(2) as threads:
            waiting = threads.submit(vectors, client, TEXTS[:5])
            until(lambda: re.search(r"^modenc_texts_waiting{.*} 6", service.get("/metrics")[1], re.MULTILINE))
            with pytest.raises(openai.RateLimitError, match="too many texts are waiting") as refused:
                vectors(client, TEXTS[:4])
            assert int(refused.value.response.headers["retry-after"]) >= 1
            assert not waiting.done()
            service.process.send_signal(signal.SIGTERM)
            assert len(waiting.result()) == 5
        assert service.process.wait(240) == 0
        with pytest.raises(openai.APIConnectionError):
            client.models.list()
    assert KEY not in logs(head)


@needs_serve
@pytest.mark.slow
@pytest.mark.cluster
def test_what_cannot_be_served_is_said(head, add_node, serve, hub_copy):
    add_node()

    def refused(*options, hub=hub_copy.path):
        with serve(*options, hub=hub) as service:
            assert service.process.wait(300) == 2
            return service.log.read_text().splitlines()[-1]

    message = "--replicas: expected at most 1, for which the cluster has room (cores of each: 1), found 2"
    assert message in refused("--replicas", "2")
    message = refused("--preload", "qqq")
    assert "expected a language code" in message, message
    with serve(hub=hub_copy.path) as service:
        service.ready()
        message = "expected Ray Serve at --host 127.0.0.1, --port 0 of the head node, found it elsewhere"
        assert message in refused()
        port = service.url.rpartition(":")[2]
        assert 'Prefix / is being used by application "hub"' in refused("--name", "other", "--port", port)
        assert service.get("/ready")[0] == 200
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(240) == 0


@pytest.mark.slow
def test_a_missing_ray_serve_is_named(tiny_hub):
    code = "import sys; sys.modules['grpc_reflection'] = None; from modenc.cli.main import main; "
    command = [
        sys.executable,
        "-c",
        f"{code}sys.exit(main())",
        "serve",
        "--hub",
        str(tiny_hub.path),
        "--on",
        "ray",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert '(missing: grpc_reflection); run: pip install "modenc[ray,serve]"' in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replicas", "2"], "--replicas: expected --on ray with it, found none; add --on ray"),
        (["--address", "10.0.0.1:6379"], "expected --on ray with it"),
    ],
)
def test_options_of_clusters_alone_are_refused(tiny_hub, capsys, words, message):
    assert main(["serve", "--hub", str(tiny_hub.path), *words]) == 2
    assert message in capsys.readouterr().err
