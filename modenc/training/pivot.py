"""Vectors of frozen languages, mostly the pivot: each list of sentences is encoded once and kept on disk."""

from __future__ import annotations

from pathlib import Path

from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.errors import HubError, RecipeError
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.settings import FRESH
from modenc.training.body_module import Vectors, cached_vectors, content_key, encode_texts, sentence_model
from modenc.training.processes import process_state
from modenc.training.stage import StageRun


def published_modules(run: StageRun, lang: str) -> LanguageLayout:
    """The modules of another language in the recipe's hub.

    Raises:
        HubError: it has none yet.
    """
    hub = Hub.open(run.plan.hub)
    if lang not in hub.languages():
        raise HubError(
            f"{run.plan.lang} needs the modules of {lang}, which the hub {run.plan.hub} does not have (it "
            f"has: {', '.join(hub.languages()) or 'nothing'}); train {lang} first: "
            f"modenc train RECIPE --lang {lang}"
        )
    return hub.layout(lang)


def adapter_of(run: StageRun, lang: str) -> Path:
    """The folder of the SE that stage 3 starts from: that of ``lang`` in the recipe's hub.

    Raises:
        HubError: the hub does not have the language.
        RecipeError: the language has no SE.
    """
    folder = published_modules(run, lang).se
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
        lang: the sentences' language; the pivot by default.
        align: whether with its alignment adapter.
    """

    def __init__(self, run: StageRun, lang: str | None = None, *, align: bool = False) -> None:
        self.run = run
        self.lang = lang or run.plan.pivot
        self.align = align
        self.layout = published_modules(run, self.lang)
        self.digest = Hub.open(run.plan.hub).card(self.lang).digest()

    def encode(self, texts: list[str], max_length: int) -> Vectors:
        """Unit-length vectors [texts, hidden]."""
        key = content_key(self.digest, str(self.align), str(max_length), *texts)

        def encoded() -> Vectors:
            base = self.run.base
            modules = read_modules(self.layout, base.hidden_size)
            body = compose(base.load_body(), modules, align=self.align)
            tokenizer = modules.tokenizer or base.load_tokenizer()
            return encode_texts(sentence_model(body, tokenizer, self.run.plan, max_length), texts)

        with process_state().main_process_first():
            return cached_vectors(self.run.caches / f"{self.lang}-{key}.npy", encoded)
