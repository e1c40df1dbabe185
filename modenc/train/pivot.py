"""Vectors of languages that are frozen, the pivot first: each sentence is encoded once and kept on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.errors import HubError, RecipeError
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.settings import FRESH
from modenc.storage import whole_file
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


def adapter_of(run: StageRun, lang: str) -> Path:
    """The folder of the SE that stage 3 starts from, ``lang``'s in the recipe's hub.

    Raises:
        HubError: the hub has not the language.
        RecipeError: the language has no SE.
    """
    folder = trained_before(run, lang).se
    if not folder.is_dir():
        raise RecipeError(
            f"sentence_encoding.start: expected an adapter of {lang!r} in {folder}, found none; "
            f"start from another language, or {FRESH!r}"
        )
    return folder


class FrozenLanguage:
    """Encodes sentences with a language's modules in the hub; results are cached by content.

    Args:
        run: the stage that needs the vectors.
        lang: whose sentences; the pivot's by default.
        align: whether with its alignment adapter.
    """

    def __init__(self, run: StageRun, lang: str | None = None, *, align: bool = False) -> None:
        self.run = run
        self.lang = lang or run.plan.pivot
        self.align = align
        self.layout = trained_before(run, self.lang)
        self.identity = Hub.open(run.plan.hub).card(self.lang).digest()

    def encode(self, texts: list[str], max_length: int) -> Vectors:
        """Unit-length vectors [texts, hidden]."""
        content = [self.identity, str(self.align), str(max_length), *texts]
        key = hashlib.sha256("\x1f".join(content).encode()).hexdigest()[:24]
        path: Path = self.run.caches / f"{self.lang}-{key}.npy"
        with process_state().main_process_first():
            if not path.is_file():
                modules = read_modules(self.layout, self.run.base.hidden_size)
                body = compose(self.run.base.load_body(), modules, align=self.align)
                tokenizer = modules.tokenizer or self.run.base.load_tokenizer()
                vectors = encode_texts(sentence_model(body, tokenizer, self.run.plan, max_length), texts)
                path.parent.mkdir(parents=True, exist_ok=True)
                # Another language's training may be at the same.
                with whole_file(path) as temporary:
                    np.save(temporary, vectors)
        cached: Vectors = np.load(path)
        return cached
