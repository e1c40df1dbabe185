"""Measurements in a new process, for ``performance.py``: ``python performance_processes.py NAME PATH``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import service
import torch
from measure import Row, Watch, resident_mb, seconds_of
from peers import lines, stock
from transformers import PreTrainedTokenizerFast

from modenc import ModularEncoder
from modenc.base_model import resolve_base


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


def focus_files(data: Path, folder: Path) -> None:
    """Write what FOCUS starts from: a tokenizer of 50,000 tokens, and fastText vectors of them."""
    import fasttext

    from modenc.training.tokenizers import train_like

    texts = [line for path in sorted((data / "mono").glob("*.txt.gz")) for line in lines(path)]
    target = train_like(resolve_base("me5-small").load_tokenizer(), texts, 50_000)
    target.save_pretrained(folder / "tokenizer")
    tokens = folder / "tokens.txt"
    with tokens.open("w") as file:
        file.writelines(" ".join(target.tokenize(text)) + "\n" for text in texts)
    options = {"model": "cbow", "dim": 300, "minCount": 2, "bucket": 200_000, "thread": 10, "epoch": 1}
    fasttext.train_unsupervised(str(tokens), verbose=0, **options).save_model(str(folder / "model.bin"))


def _focus(folder: Path, quick: bool) -> Row:
    import deepfocus.focus as deep

    from modenc.training.focus import quick_steps

    base = resolve_base("me5-small")
    vectors = base.load_body().get_input_embeddings().weight.detach().clone()
    timed: Row = {}
    seen: list[Any] = []
    with quick_steps() if quick else nullcontext():
        step = deep.focus_additional_token_initialization

        def watched(shared: Any, new: Any, embeddings: torch.Tensor, **other: Any) -> torch.Tensor:
            start = time.perf_counter()
            with Watch() as memory:
                result = step(shared, new, embeddings, **other)
            seconds = time.perf_counter() - start
            timed.update(new=len(new), shared=len(shared), mixing=seconds, mixing_MB=memory.added)
            seen[:] = shared, new
            return result

        deep.focus_additional_token_initialization = watched
        with Watch() as memory:
            start = time.perf_counter()
            found = deep.FOCUS(
                PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer"),
                base.load_tokenizer(),
                vectors,
                fasttext_model_path=str(folder / "model.bin"),
                verbosity="silent",
            )
            seconds = time.perf_counter() - start
        shared, new = seen
        some = [dict(islice(new.items(), size)) for size in (1000, 5000, len(new)) if quick]
        timed["growth"] = [
            (len(part), seconds_of(lambda part=part: step(shared, part, found.clone()))) for part in some
        ]
    np.save(folder / ("quick.npy" if quick else "slow.npy"), found.numpy())
    return {**timed, "seconds": seconds, "MB": memory.added}


IN_PROCESS: dict[str, Callable[[Path], Row]] = {
    "open_hub": _open_hub,
    "resident": _resident,
    "full_model": _full_model,
    **{f"service_{kind}": partial(service.ours, compute=kind) for kind in ("fp32", "bf16")},
    **{f"service_peer_{kind}": partial(service.peer, compute=kind) for kind in ("fp32", "bf16")},
    "focus_quick": lambda folder: _focus(folder, quick=True),
    "focus_slow": lambda folder: _focus(folder, quick=False),
}

if __name__ == "__main__":
    print(json.dumps(IN_PROCESS[sys.argv[1]](Path(sys.argv[2]))))
