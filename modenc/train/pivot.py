"""The pivot's vectors: English is frozen, so each of its sentences is encoded once and kept on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.errors import HubError
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.train.body_module import encode_texts, sentence_model
from modenc.train.processes import process_state
from modenc.train.stage import StageRun

Vectors = npt.NDArray[np.float32]


def trained_before(run: StageRun, lang: str) -> LanguageLayout:
    """The modules of another language in the recipe's hub.

    Raises:
        HubError: it has none yet.
    """
    hub = Hub.open(run.plan.hub)
    if lang not in hub.languages():
        raise HubError(
            f"{run.plan.lang} needs the modules of {lang}, which the hub {run.plan.hub} does not hold (it "
            f"has: {', '.join(hub.languages()) or 'nothing'}); train {lang} first: "
            f"modenc train RECIPE --lang {lang}"
        )
    return hub.layout(lang)


class Pivot:
    """Encodes pivot sentences with the pivot's modules in the hub; results are cached by content."""

    def __init__(self, run: StageRun) -> None:
        self.run = run
        self.layout = trained_before(run, run.plan.pivot)
        self.identity = Hub.open(run.plan.hub).card(run.plan.pivot).digest()

    def encode(self, texts: list[str], max_length: int) -> Vectors:
        """Unit-length vectors [texts, hidden]."""
        key = hashlib.sha256("\x1f".join([self.identity, str(max_length), *texts]).encode()).hexdigest()[:24]
        path: Path = self.run.caches / f"pivot-{key}.npy"
        with process_state().main_process_first():
            if not path.is_file():
                modules = read_modules(self.layout)
                body = compose(self.run.base.load_body(), modules, align=False)
                tokenizer = modules.tokenizer or self.run.base.load_tokenizer()
                vectors = encode_texts(sentence_model(body, tokenizer, self.run.plan, max_length), texts)
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary = path.with_suffix(".tmp.npy")
                np.save(temporary, vectors)
                temporary.replace(path)
        cached: Vectors = np.load(path)
        return cached
