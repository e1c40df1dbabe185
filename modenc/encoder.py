"""``ModularEncoder``: a ``SentenceTransformer`` that knows the language of every text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from modenc.composition.routing import Routing, RoutingSettings
from modenc.composition.settings import (
    ComputeSettings,
    NotTrained,
    prompt_text,
    refuse_in_call,
    refuse_in_push,
    refuse_training,
    refuse_without_effect,
    whole,
)
from modenc.composition.st_module import ModularTransformer
from modenc.errors import TextsCutWarning
from modenc.hub.layout import HubInfo
from modenc.hub.push import push_hub
from modenc.hub.reader import LanguageGoneError
from modenc.hub.remote import open_hub
from modenc.hub.st_files import PROMPT_NAMES
from modenc.hub.store import Hub
from modenc.langid import LanguageIdentifier
from modenc.languages import BASE, listed_codes, normalize_code
from modenc.texts import TaggedText, as_texts, reusable_codes
from modenc.user_warnings import warn_user

# Busy threads meet four replacements in one call where a language is replaced twice a second.
_TRIES = 10


class ModularEncoder(NotTrained, SentenceTransformer):  # type: ignore[misc]
    """Sentence vectors from the modules of each text's own language.

    Args:
        hub: a hub's folder, the id of one on Hugging Face (``organization/name``), or an open hub.
        base: where the base is found, if not under the name in the hub; its weights must be the same.
        fallback: for a language without modules: ``base`` (the base alone), ``error``, or a code. ``None``:
            the pivot's modules where they are a sentence-encoding adapter alone, else the base.
        min_confidence: texts that :meth:`identify` gives a smaller ``share`` (0 to 1) go to the fallback.
        identifier: a fastText file (GlotLID), an object with ``identify``, or ``None`` for py3langid.
        compute: what to compute in: ``fp32``, ``bf16`` (vectors differ in the third digit), ``int8`` (by
            OpenVINO, on CPUs; in the second), or ``auto``: bf16 where the device has it in hardware.
        max_memory: bytes, or a text such as ``2GB``, that languages may take beside the base; the least
            recently used make room. ``None``: no limit.
        verify: what is checked before a language is used: ``full``, or ``sizes``, all but the checksums.
        device: where to compute, as in ``SentenceTransformer``.
        revision: for a hub on Hugging Face, a commit, branch or tag (``None``: the main branch). The encoder
            stays at the commit that it names now; languages are fetched into the cache on their first use.
        **options: of ``SentenceTransformer``: ``prompts``, ``default_prompt_name``, ``truncate_dim``,
            ``similarity_fn_name``; ``token`` and ``local_files_only`` for a hub on Hugging Face. Others
            would change nothing and are refused.

    Raises:
        HubError: ``hub`` is no hub, or cannot be fetched.
        BaseModelError: the base is not found, or is another one.
        LanguageError: the fallback is no language of the hub.
        OptionError: another setting has none of the values named here.

    Examples:
        >>> from modenc import ModularEncoder
        >>> encoder = ModularEncoder("adapters_hub/me5-small")
        >>> vectors = encoder.encode(["Good morning", "Қайырлы таң"])
        >>> similarities = encoder.similarity(vectors, vectors)
    """

    _counts_cuts = True

    def __init__(
        self,
        hub: str | Path | Hub,
        *,
        base: str | None = None,
        fallback: str | None = None,
        min_confidence: float = 0.0,
        identifier: LanguageIdentifier | str | Path | None = None,
        compute: str = "fp32",
        max_memory: int | str | None = None,
        verify: str = "full",
        device: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> None:
        """Open a hub; the arguments and errors are those of the class."""
        refuse_without_effect(options)
        for name in ("modules", "model_name_or_path"):
            options.pop(name, None)
        access = {name: options.pop(name) for name in ("token", "local_files_only") if name in options}
        opened = open_hub(hub, revision=revision, **access)
        info = opened.info
        routing = RoutingSettings(fallback, min_confidence, identifier)
        computing = ComputeSettings(compute, max_memory, verify)
        transformer = ModularTransformer(opened, base, routing, computing)
        prompts = {name: info.prompt for name in PROMPT_NAMES} | dict(options.pop("prompts", None) or {})
        options.setdefault("similarity_fn_name", "cosine")
        modules = [transformer, Pooling(info.hidden_size, info.pooling)]
        super().__init__(modules=modules, device=device, prompts=prompts, **options)
        if info.prompt and "default_prompt_name" not in options:
            # Given to super().__init__, it would be logged as a warning.
            self.default_prompt_name: str | None = "default"
        self.register_forward_pre_hook(refuse_training)
        self.eval()

    @property
    def hub(self) -> Hub:
        """The hub."""
        return self._transformer.hub

    @property
    def languages(self) -> list[str]:
        """Codes of the hub's languages, the pivot first; in memory or not."""
        return self.hub.languages()

    @property
    def max_characters(self) -> int:
        """Where texts are cut before they are tokenized."""
        return self._transformer.max_characters

    @property
    def loaded(self) -> list[str]:
        """Codes of the languages in memory."""
        return self._transformer.cache.loaded()

    @property
    def memory(self) -> int:
        """Bytes that the languages in memory take, the base's own weights not counted."""
        return self._transformer.cache.nbytes

    def reset(self) -> None:
        """Compute the next batch, to the last digit, as if none had been run; languages stay in memory."""
        self._transformer.cache.reset()

    def load(self, codes: str | Iterable[str]) -> None:
        """Read languages now instead of on first use.

        Raises:
            LanguageError: a code is unknown or its language has no modules.
            HubError: its modules are damaged or made for another base.
        """
        for code in listed_codes(codes):
            self._transformer.cache.load(self._transformer.router.require(code))

    def unload(self, codes: str | Iterable[str]) -> None:
        """Free the memory that languages take; they load again on their next use.

        Raises:
            LanguageError: a code is unknown.
        """
        for code in listed_codes(codes):
            self._transformer.cache.unload(normalize_code(code))

    def identify(self, texts: Any) -> list[Routing]:
        """The language of each text among all that the identifier knows, and whose modules it goes to.

        Returns:
            For each text ``code`` and ``confidence`` (0 to 1) of its language, ``modules``, the hub's
            language or the fallback that :meth:`encode` gives it to, and ``share`` (0 to 1), what decided it.

        Raises:
            TextError: something is not a text.
            LanguageError: the hub has no languages, or the identifier knows none of them.
        """
        return self._transformer.router.identify(as_texts(texts, self.max_characters)[0])

    def route(self, texts: Any, lang: str | Sequence[str | None] | None = None) -> list[TaggedText]:
        """The texts, each with the language whose modules :meth:`encode` gives it to.

        Args:
            texts: a text or several, as for :meth:`encode`.
            lang: as for :meth:`encode`.

        Returns:
            Strings whose ``lang`` is a code, or ``base``; :meth:`encode` takes them as they are.

        Raises:
            TextError: something is not a text.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.

        Examples:
            >>> encoder = ModularEncoder("adapters_hub/me5-small")
            >>> [text.lang for text in encoder.route(["Good morning", "Қайырлы таң"])]
            ['en', 'kk']
        """
        found, single = as_texts(texts, self.max_characters)
        return self._transformer.router.route(found, reusable_codes(lang, single=single))

    def encode(
        self,
        inputs: Any = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        *args: Any,
        lang: str | Sequence[str | None] | None = None,
        align: bool = True,
        **options: Any,
    ) -> Any:
        """Turn texts of any mixture of languages into vectors.

        Args:
            inputs: a text, or a list, tuple, array, Series or column of texts.
            prompt_name: as in ``SentenceTransformer.encode``.
            prompt: likewise.
            batch_size: likewise.
            *args: see ``options``.
            lang: the language of all texts, or a list with that of each; ``None`` identifies it. Codes such
                as ``kk``, ``kaz``, ``kaz_Cyrl`` and ``kk-KZ`` mean the same; ``base`` means the base alone.
            align: apply the cross-lingual alignment; ``False`` gives the purely monolingual encoders.
            **options: everything that ``SentenceTransformer.encode`` takes, with the same meaning; but
                ``processing_kwargs`` and ``task``, which would change nothing, are refused.

        Warns:
            TextsCutWarning: texts have more tokens than ``max_seq_length``; once a call, with their number.

        Returns:
            float32 array [texts, hidden], or [hidden] for a single text, unless ``options`` ask otherwise.

        Raises:
            TextError: something is not a text; the message says where and what.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.
            HubError: a language's modules are damaged or made for another base.
            OptionError: ``batch_size`` or a prompt is none, or an option would change nothing.
        """
        refuse_in_call(options)
        # ``sentences``: the name before sentence-transformers 5.4.
        texts, single = as_texts(options.pop("sentences", inputs), self.max_characters)
        codes = reusable_codes(lang, single=single)
        tagged = self._transformer.router.route(texts, codes)
        if not tagged:  # shaped as the vectors of a text are
            device = options.get("device")
            options |= {"pool": None, "device": None if isinstance(device, list) else device}
            given = (prompt_name, prompt, batch_size)
            return self.encode([""], *given, *args, lang=BASE, align=align, **options)[:0]
        # Here, as is the loading below: sentence-transformers 5 waits for ever for a process of a pool that
        # an error has ended.
        prompt = prompt_text(self._resolve_prompt(prompt, prompt_name))
        batch_size = whole(batch_size, "batch_size")
        module = self._transformer
        in_pool = options.get("pool") is not None or isinstance(options.get("device"), list)
        for tries_left in reversed(range(_TRIES)):
            try:
                if in_pool:
                    for code in {text.lang for text in tagged} - {BASE}:
                        module.cache.load(code)
                else:
                    module.prepare(tagged, prompt, batch_size)
                vectors = super().encode(
                    tagged[0] if single else tagged, None, prompt, batch_size, *args, align=align, **options
                )
                break
            except LanguageGoneError:  # vectors are of one state of each language
                if not tries_left:
                    raise
                tagged = module.router.route(texts, codes)
        if self._counts_cuts:
            with suppress(LanguageGoneError):  # by now; the vectors are there
                cut = module.count_cut(tagged, prompt)
                if cut:
                    limits = (module.max_seq_length, module.most_positions)
                    warn_user(TextsCutWarning(cut, len(tagged), *limits))
        return vectors

    @staticmethod
    def _multi_process_worker(device: str, model: ModularEncoder, *queues: Any) -> None:
        """What a process of a pool does; the one that has the pool says how many texts were cut."""
        model._counts_cuts = False
        SentenceTransformer._multi_process_worker(device, model, *queues)

    def _inference(self, inputs: list[TaggedText], **options: Any) -> Any:
        """What the processes of a pool call of sentence-transformers 6, and :meth:`encode` after its own."""
        infer = super()._inference  # type: ignore[misc]
        if all(text.tokens is not None for text in inputs):
            return infer(inputs, **options)
        for tries_left in reversed(range(_TRIES)):
            try:
                self._transformer.prepare(inputs, options.get("prompt") or "", options["batch_size"])
                return infer(inputs, **options)
            except LanguageGoneError:
                if not tries_left:
                    raise
                inputs = self._transformer.router.route(inputs)

    def save(self, path: str | Path, *_: Any, **__: Any) -> None:
        """Copy the hub with all its languages, to be opened with the same ``max_seq_length`` and prompt.

        Other options of ``SentenceTransformer.save`` change nothing. A hub has one prompt; if there are
        others, a warning says so.

        Raises:
            HubError: ``path`` is another kind of hub, or has other files in it; nothing there is changed.
            StorageError: the disk is full or read-only; a new folder is no hub before all is in it.
        """
        self.hub.copy(path, self._info())

    def push_to_hub(
        self,
        repo_id: str,
        *,
        languages: str | Iterable[str] | None = None,
        private: bool | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        token: bool | str | None = None,
        **options: Any,
    ) -> str:
        """Upload the hub to Hugging Face in one commit; returns its address. See :func:`push_hub`.

        Args:
            repo_id: ``organization/name``; made where there is none. Its other languages stay there.
            languages: codes; ``None``: all of the hub.
            private: whether a new repository is private.
            revision: branch; ``None``: the main branch.
            commit_message: of the commit.
            token: as in huggingface_hub.
            **options: others of its options; most are refused.

        Raises:
            HubError: the hub is damaged, or the repository may not be written or is no hub of this kind.
        """
        refuse_in_push(options)
        given: dict[str, Any] = {"private": private, "revision": revision, "token": token}
        given |= {"languages": languages, "info": self._info(), "message": commit_message}
        return push_hub(self.hub, repo_id, **given)

    def _info(self) -> HubInfo:
        """What ``hub.json`` says of the hub as it is used here."""
        given = prompt_text(self._resolve_prompt(None, None))
        if set(self.prompts.values()) - {given}:
            warn_user(f"a hub has one prompt: only {given!r} is saved; give prompts= when you open it")
        return replace(self.hub.info, prompt=given, max_length=self._transformer.max_seq_length)

    @staticmethod
    def _input_length(sample: Any) -> int:
        """What sentence-transformers sorts texts by before it cuts them into batches."""
        order = sample.order if isinstance(sample, TaggedText) else None
        return int(SentenceTransformer._input_length(sample)) if order is None else order

    @property
    def _transformer(self) -> ModularTransformer:
        return self[0]  # type: ignore[no-any-return]
