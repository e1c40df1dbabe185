"""What tests have huggingface_hub's client do, in a process whose Hugging Face is ``hub_server``.

The client reads HF_ENDPOINT when it is imported, so it runs in a process of its own; encoders stay open there
between calls. No module of the test is imported before the call, so that imports see that process's settings.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
import urllib.request
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

_SERVER = Path(__file__).with_name("hub_server.py")
opened: dict[str, Any] = {}
"""In the client's process: what is open."""


@dataclass
class Server:
    """The double of Hugging Face, a process of its own."""

    url: str

    def _ask(self, path: str, content: object = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=30) as answer:
            return json.load(answer)

    def fetched(self) -> list[str]:
        """The files that were downloaded since the last :meth:`forget`, sorted."""
        wanted = "GET /", "/resolve/", "?of="
        log = [line for line in self.log() if line.startswith(wanted[0])]
        plain = [line.split(wanted[1])[1].partition("/")[2] for line in log if wanted[1] in line]
        return sorted([*plain, *(line.split(wanted[2])[1] for line in log if wanted[2] in line)])

    def log(self) -> list[str]:
        return list(self._ask("/_log")["log"])

    def commits(self, repo: str) -> list[str]:
        return list(self._ask("/_log")["commits"].get(repo, []))

    def forget(self) -> None:
        self._ask("/_forget", {})

    def fail(self, path: str = "", how: str = "") -> None:
        """Have all paths with ``path`` in them go wrong: ``cut``, ``hang`` or a status; none without it."""
        self._ask("/_faults", {path: how} if path else {})

    def change(self, repo: str, path: str, content: bytes | None) -> None:
        """Change the newest commit of a repository as none should ever be."""
        self._ask(f"/_rewrite/{repo}", {path: None if content is None else b64encode(content).decode()})


@contextmanager
def running_server() -> Iterator[Server]:
    with subprocess.Popen([sys.executable, str(_SERVER)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        finally:
            process.kill()


@contextmanager
def running_client(server: Server, home: Path) -> Iterator[ProcessPoolExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(server, home).items():
            patch.setenv(name, value)
        pool = ProcessPoolExecutor(1, get_context("spawn"))
        pool.submit(os.getpid).result()
    with pool:
        yield pool


def environment(server: Server, home: Path, **more: str) -> dict[str, str]:
    """Of processes that speak with the double; the user's token and cache are not theirs."""
    names = {"HF_ENDPOINT": server.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_TOKEN": ""}
    return {**names, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "OMP_NUM_THREADS": "1", **more}


def command(
    *words: object, kill_when: Callable[[], bool] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """``modenc`` as a user runs it; killed once ``kill_when`` says so."""
    call = [sys.executable, "-m", "modenc.cli", *map(str, words)]
    with subprocess.Popen(
        call, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while kill_when is not None and process.poll() is None:
            if kill_when():
                process.kill()
            time.sleep(0.05)
        out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(call, process.returncode, out, err)


# In the client's process.


def call(cache: str, function: str, *args: Any, **options: Any) -> Any:
    os.environ["MODENC_CACHE"] = cache
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return globals()[function](*args, **options)


def push(hub: str, repo: str, **options: Any) -> str:
    from modenc.hub.push import push_hub
    from modenc.hub.store import Hub

    return push_hub(Hub.open(hub), repo, **options)


def push_warns(hub: str, repo: str, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        push(hub, repo, **options)
    return [str(warning.message) for warning in caught]


def pull(repo: str, output: str, **options: Any) -> list[str]:
    from modenc.hub.remote import pull_hub

    return pull_hub(repo, output, **options).languages()


def open_encoder(repo: str, key: str = "encoder", **options: Any) -> list[str]:
    from modenc import ModularEncoder

    opened[key] = ModularEncoder(repo, **options)
    return list(opened[key].languages)


def open_sentence_transformer(repo: str, key: str = "encoder", **options: Any) -> None:
    from sentence_transformers import SentenceTransformer

    opened[key] = SentenceTransformer(repo, **options)


def encode(texts: Any, key: str = "encoder", **options: Any) -> Any:
    return opened[key].encode(texts, **options)


def open_and_encode(repo: str, texts: Any, lang: str, **options: Any) -> Any:
    open_encoder(repo, **options)
    return encode(texts, lang=lang)


def facts(key: str = "encoder") -> tuple[str, str]:
    """Where the open encoder's hub lies, and its commit."""
    return str(opened[key].hub.path), opened[key].hub.commit


def name_of_system(key: str = "encoder") -> str:
    from modenc.evaluation.systems import ModularSystem

    return ModularSystem(opened[key]).name


def export(repo: str, lang: str, output: str) -> str:
    import modenc

    return str(modenc.export(repo, lang, output))


def fingerprint(lang: str, key: str = "encoder") -> str:
    return str(opened[key].hub.card(lang).fingerprint())


def push_encoder(repo: str, key: str = "encoder", **options: Any) -> str:
    return str(opened[key].push_to_hub(repo, **options))


def change_hub() -> None:
    opened["encoder"].hub.remove("az")


def pickled() -> bytes:
    return pickle.dumps(opened["encoder"].hub)


def upload(folder: str, repo: str, token: str, into: str = ".") -> None:
    """Any folder, as other programs upload it."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    api.create_repo(repo, exist_ok=True)
    api.upload_folder(repo_id=repo, folder_path=folder, path_in_repo=into)
