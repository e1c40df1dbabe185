"""Measurements in a new process, for ``performance.py``: ``python performance_processes.py NAME PATH``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import service
import torch
from measure import Row, resident_mb
from peers import stock

from modenc import ModularEncoder


def _open_hub(path: Path) -> Row:
    before, start = resident_mb(), time.perf_counter()
    encoder = ModularEncoder(path)
    assert len(encoder.languages) > 1
    return {"seconds": time.perf_counter() - start, "MB": resident_mb() - before}


def _resident(path: Path) -> Row:
    before = resident_mb()
    encoder = ModularEncoder(path)
    codes = encoder.languages[1:24]
    encoder.encode(["Бала кітап оқып отыр."] * 23, lang=codes)
    _touch(encoder[0].auto_model)
    return {"MB": resident_mb() - before}


def _full_model(_path: Path) -> Row:
    before = resident_mb()
    model = stock()
    model.encode(["Бала кітап оқып отыр."])
    _touch(model[0].auto_model)
    return {"MB": resident_mb() - before}


def _touch(body: torch.nn.Module) -> None:
    """Bring every page in, as a corpus would."""
    for parameter in body.parameters():
        parameter.sum()


IN_PROCESS: dict[str, Callable[[Path], Row]] = {
    "open_hub": _open_hub,
    "resident": _resident,
    "full_model": _full_model,
    **{f"service_{kind}": partial(service.ours, compute=kind) for kind in ("fp32", "bf16")},
    **{f"service_peer_{kind}": partial(service.peer, compute=kind) for kind in ("fp32", "bf16")},
}

if __name__ == "__main__":
    print(json.dumps(IN_PROCESS[sys.argv[1]](Path(sys.argv[2]))))
