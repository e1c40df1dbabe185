"""A service's traffic: requests of ever new sizes to one process, and many clients of a server."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Row, median, resident_mb, seconds_of
from peers import HUB, PROMPT, gflop_of, stock, texts_of

from modenc import ModularEncoder

REQUESTS = 200
SIZES = (1, 1, 1, 2, 4, 8, 16, 32)
_LINES_A_TEXT = (1, 1, 1, 2, 3)
_LANGUAGES = ("en", "kk", "az", "ug", "uz", "ky")
_CLIENTS = (1, 8, 32)
_SECONDS, _START_SECONDS = 15.0, 300.0


def ours(data: Path, compute: str) -> Row:
    """Kazakh through its modules, in ``compute``."""
    encoder = ModularEncoder(HUB, compute=compute)
    return _served(data, lambda texts: encoder.encode(texts, lang="kk"))


def peer(data: Path, compute: str) -> Row:
    """Load the base with sentence-transformers, in ``compute``."""
    model = stock(model_kwargs={"dtype": torch.bfloat16} if compute == "bf16" else {})
    return _served(data, lambda texts: model.encode(texts, prompt=PROMPT))


def _served(data: Path, encode: Callable[[list[str]], object]) -> Row:
    rng, lines = random.Random(0), texts_of(data, "kk", 3000)
    requests = [
        [" ".join(rng.sample(lines, rng.choice(_LINES_A_TEXT))) for _ in range(rng.choice(SIZES))]
        for _ in range(REQUESTS)
    ]
    encode(requests[0])
    before = resident_mb()
    seconds = seconds_of(lambda: [encode(texts) for texts in requests[1:]])
    grown, texts = resident_mb() - before, [text for request in requests[1:] for text in request]
    return {"seconds": seconds, "MB": grown, "texts": len(texts), "gflop": gflop_of(texts)}


def servers(data: Path, turns: int) -> list[Row]:
    """Rows for each number of clients: ``modenc serve`` against LitServe, in turn."""
    texts = [text for lang in _LANGUAGES for text in texts_of(data, lang, 300)]
    ours_command = [sys.executable, "-m", "modenc.cli", "serve", "--hub", str(HUB), "--preload", "all"]
    peer_command = [sys.executable, str(Path(__file__).with_name("litserve_peer.py"))]
    rows = []
    with ExitStack() as stack:
        ports = [stack.enter_context(_started(command)) for command in (ours_command, peer_command)]
        for clients in _CLIENTS:
            for port in ports:
                _traffic(port, texts, clients, _SECONDS / 2)
            runs = [[_traffic(port, texts, clients, _SECONDS) for port in ports] for _ in range(turns)]
            rows.append(_row(clients, *zip(*runs, strict=True)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def _row(clients: int, own: Any, other: Any) -> Row:
    """Texts a second and, of requests of one text, milliseconds; each the median over turns."""
    ratios = [a["texts/s"] / b["texts/s"] for a, b in zip(own, other, strict=True)]
    row: Row = {"what": f"{clients} clients", "ratio": median(ratios)}
    row["spread"] = list(np.percentile(ratios, (25, 75)))
    for name in ("texts/s", "p50 ms", "p99 ms"):
        for who, side in (("ours", own), ("LitServe", other)):
            row[f"{who} {name}"] = median(run[name] for run in side)
    return row


@contextmanager
def _started(command: list[str]) -> Iterator[int]:
    """Start a server process on a free port, and wait until it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=log, stderr=log, start_new_session=True
        )
        try:
            end = time.monotonic() + _START_SECONDS
            while _ask(port, ["1"]) is None:
                assert process.poll() is None, f"{command} has ended"
                assert time.monotonic() < end, f"{command} serves nothing"
                time.sleep(0.5)
            yield port
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # LitServe's processes outlive their parent
            process.wait()


def _ask(port: int, texts: list[str], connection: http.client.HTTPConnection | None = None) -> float | None:
    """Seconds to the vectors of texts; None while the server does not answer."""
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    body = json.dumps({"model": HUB.name, "input": texts, "encoding_format": "base64"})
    start = time.perf_counter()
    try:
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    except ConnectionError:
        return None
    if response.status != 200:
        return None
    assert len(json.loads(answer)["data"]) == len(texts)
    return time.perf_counter() - start


def _traffic(port: int, texts: list[str], clients: int, seconds: float) -> Row:
    """Measure clients that each send the next request when the last one is answered."""
    done: list[tuple[int, float]] = []
    end = time.perf_counter() + seconds

    def client(seed: int) -> None:
        rng = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while time.perf_counter() < end:
            some = rng.sample(texts, rng.choice(SIZES))
            took = _ask(port, some, connection)
            assert took is not None, "a request failed"
            done.append((len(some), took))

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    seconds = seconds_of(lambda: [*(thread.start() for thread in threads), *(t.join() for t in threads)])
    single = [took for size, took in done if size == 1]
    p50, p99 = 1000 * np.percentile(single, (50, 99))
    return {"texts/s": sum(size for size, _ in done) / seconds, "p50 ms": float(p50), "p99 ms": float(p99)}
