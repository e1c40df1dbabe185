"""Servers as users start them, on the tiny hub, and clients as users have them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

KEYS = "first-key,second-key"
_SECONDS = 120.0


class Server:
    """``modenc serve`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self.url = _until(lambda: re.search(r"http://\S+", log.read_text()), self)[0]

    def request(self, path: str, body: object = None, key: str = "") -> tuple[int, dict, str]:
        """Status, headers and body of the answer; ``body`` is sent as JSON, or as it is if it is bytes."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def metric(self, name: str) -> float:
        """The value of a counter, with its labels in ``name``."""
        page = self.request("/metrics")[2]
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0


def _until(what, server):
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if found := what():
                return found
        except (URLError, OSError):
            pass
        time.sleep(0.1)
    raise AssertionError(server.log.read_text())


@contextmanager
def started(hub: Path, folder: Path, *options: str, **environment: str) -> Iterator[Server]:
    log = folder / "serve.log"
    command = [sys.executable, "-m", "modenc.cli", "serve", "--hub", str(hub), "--port", "0", *options]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stderr=stream, text=True, env={**os.environ, **environment})
    try:
        yield Server(process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def server(tiny_hub, tmp_path_factory) -> Iterator[Server]:
    """One with keys."""
    folder = tmp_path_factory.mktemp("server")
    with started(tiny_hub.path, folder, "--preload", "all", MODENC_API_KEYS=KEYS) as found:
        yield found


@pytest.fixture
def own_server(tiny_hub, tmp_path) -> Iterator[Server]:
    """One that a test may end."""
    with started(tiny_hub.path, tmp_path) as found:
        yield found
