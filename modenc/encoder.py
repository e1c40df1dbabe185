"""``ModularEncoder``: a ``SentenceTransformer`` that encodes each text with the modules of its language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from modenc.composition.options import (
    ComputeSettings,
    NoTrainingMixin,
    call_options,
    check_device,
    positive_int,
    prompt_text,
    refuse_in_push,
    refuse_training,
    reject_unsupported,
)
from modenc.composition.routing import Routing, RoutingSettings, with_retries
from modenc.composition.st_module import ModularTransformer
from modenc.errors import TextsCutWarning
from modenc.hub.layout import PROMPT_NAMES, HubInfo
from modenc.hub.push import push_hub
from modenc.hub.remote import open_hub
from modenc.hub.store import Hub, LanguageGoneError
from modenc.langid import LanguageIdentifier
from modenc.languages import BASE, listed_codes, normalize_code
from modenc.texts import TaggedText, as_code_list, as_texts
from modenc.user_warnings import warn_user


class ModularEncoder(NoTrainingMixin, SentenceTransformer):  # type: ignore[misc]
    """Encoder of sentences with the modules of each text's own language.

    Args:
        hub: a hub's folder, the id of one on Hugging Face (``organization/name``), or an open hub.
        base: folder or id of the base, if it is not found under the name in the hub; the weights must match.
        fallback: modules for a language that has none: ``base`` (no modules), ``error``, or a code. ``None``:
            the pivot's if they are only a sentence-encoding adapter, or else ``base``.
        min_confidence: texts whose ``share`` (0 to 1) in :meth:`identify` is smaller go to the fallback.
        identifier: a fastText file (GlotLID), an object with ``identify``, or ``None`` for py3langid.
        compute: precision: ``fp32``, ``bf16`` (vectors differ in the third digit), or ``auto``: bf16 if the
            device has it in hardware.
        max_memory: bytes, or a text such as ``2GB``, that languages may take in addition to the base; the
            least recently used are freed. ``None``: no limit.
        verify: checks before a language is used: ``full``, or ``sizes`` (all but the checksums).
        device: device to compute on, as in ``SentenceTransformer``.
        revision: commit, branch or tag of a hub on Hugging Face (``None``: the main branch). The encoder
            stays at its present commit; languages are fetched into the cache on their first use.
        **options: options of ``SentenceTransformer``: ``prompts``, ``default_prompt_name``, ``truncate_dim``,
            ``similarity_fn_name``; ``token`` and ``local_files_only`` for a hub on Hugging Face. Other
            options would have no effect and are refused.

    Raises:
        HubError: ``hub`` is no hub, or cannot be fetched.
        BaseModelError: the base is not found, or its weights are not those of the hub's base.
        LanguageError: the fallback is no language of the hub.
        OptionError: another argument has an invalid value.

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
        options = reject_unsupported(options)
        check_device(device)
        access = {name: options.pop(name) for name in ("token", "local_files_only") if name in options}
        opened = open_hub(hub, revision=revision, **access)
        info = opened.info
        routing = RoutingSettings(fallback, min_confidence, identifier)
        transformer = ModularTransformer(opened, base, routing, ComputeSettings(compute, max_memory, verify))
        prompts = {name: info.prompt for name in PROMPT_NAMES} | dict(options.pop("prompts", None) or {})
        options.setdefault("similarity_fn_name", "cosine")
        modules = [transformer, Pooling(info.hidden_size, info.pooling)]
        super().__init__(modules=modules, device=device, prompts=prompts, **options)
        if info.prompt and "default_prompt_name" not in options:
            # If it were given to super().__init__, sentence-transformers would log a warning.
            self.default_prompt_name: str | None = "default"
        self.register_forward_pre_hook(refuse_training)
        self.eval()

    @property
    def hub(self) -> Hub:
        """Hub that the encoder was opened with."""
        return self._transformer.hub

    @property
    def languages(self) -> list[str]:
        """Codes of all languages of the hub, the pivot first."""
        return self.hub.languages()

    @property
    def max_characters(self) -> int:
        """Characters at which texts are cut before they are tokenized."""
        return self._transformer.max_characters

    @property
    def loaded(self) -> list[str]:
        """Codes of the languages in memory."""
        return self._transformer.cache.loaded()

    @property
    def memory(self) -> int:
        """Bytes of the languages in memory, without the base's own weights."""
        return self._transformer.cache.nbytes

    def load(self, codes: str | Iterable[str]) -> None:
        """Read languages now instead of on first use.

        Raises:
            LanguageError: a code is unknown or its language has no modules.
            HubError: its modules are damaged or made for another base.
        """
        for code in listed_codes(codes):
            self._transformer.cache.load(self._transformer.router.require(code))

    def unload(self, codes: str | Iterable[str]) -> None:
        """Free the memory of languages; they are loaded again on their next use.

        Raises:
            LanguageError: a code is unknown.
        """
        for code in listed_codes(codes):
            self._transformer.cache.unload(normalize_code(code))

    @property
    def similarity(self) -> Any:
        """Function of two sets of vectors that computes all similarities: float32 [left, right]."""
        return self._in_float32(super().similarity)

    @property
    def similarity_pairwise(self) -> Any:
        """Function of two sets of vectors that computes similarities row by row: float32 [rows]."""
        return self._in_float32(super().similarity_pairwise)

    def _in_float32(self, function: Any) -> Any:
        """Let a function compute as :meth:`encode` does, whatever ``torch.autocast`` says."""
        for device in {"cpu", self.device.type}:
            function = torch.autocast(device, enabled=False)(function)
        return function

    def identify(self, texts: Any) -> list[Routing]:
        """Identify the language of each text among all that the identifier knows, and choose its modules.

        Returns:
            For each text ``code`` and ``confidence`` (0 to 1) of its language; ``modules``, the code of the
            language or fallback that :meth:`encode` uses, None where ``fallback="error"`` refuses the text;
            ``share`` (0 to 1), bounded by ``min_confidence``.

        Raises:
            TextError: something is not a text.
            LanguageError: the hub has no languages, or the identifier knows none of them.
        """
        return self._transformer.router.identify(as_texts(texts, self.max_characters)[0])

    def route(
        self, texts: Any, lang: str | Sequence[str | None] | None = None, *, first: int = 0
    ) -> list[TaggedText]:
        """Tag each text with the language whose modules :meth:`encode` uses for it.

        Args:
            texts: a text or several, as for :meth:`encode`.
            lang: as for :meth:`encode`.
            first: number of the first text in messages, if these are a part of more.

        Returns:
            Strings whose ``lang`` is a code, or ``base``; :meth:`encode` accepts them.

        Raises:
            TextError: something is not a text.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.

        Examples:
            >>> encoder = ModularEncoder("adapters_hub/me5-small")
            >>> [text.lang for text in encoder.route(["Good morning", "Қайырлы таң"])]
            ['en', 'kk']
        """
        found, single = as_texts(texts, self.max_characters)
        return self._transformer.router.route(found, as_code_list(lang, single=single), first=first)

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
        """Turn texts of any mixture of languages into embeddings.

        Args:
            inputs: a text, or a list, tuple, array, Series or column of texts.
            prompt_name: as in ``SentenceTransformer.encode``.
            prompt: as in ``SentenceTransformer.encode``.
            batch_size: as in ``SentenceTransformer.encode``.
            *args: positional ``options``.
            lang: language of all texts, or a list with the language of each; ``None``, ``und`` or blank:
                that which :meth:`route` tagged the text with, or else it is identified. Codes such as ``kk``,
                ``kaz``, ``kaz_Cyrl`` and ``kk-KZ`` mean the same; ``base`` means no modules.
            align: apply the cross-lingual alignment; ``False`` gives the monolingual encoders.
            **options: all options of ``SentenceTransformer.encode``, except ``processing_kwargs`` and
                ``task``, which would have no effect and are refused.

        Warns:
            TextsCutWarning: texts have more tokens than ``max_seq_length``; once a call, with their number.

        Returns:
            float32 array [texts, hidden], or [hidden] for a single text, unless ``options`` choose another.

        Raises:
            TextError: something is not a text; the message says where and what.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.
            HubError: a language's modules are damaged or made for another base.
            OptionError: ``batch_size`` or a prompt is invalid, or an option would have no effect.
        """
        options = call_options(args, options)
        # ``sentences`` was the name before sentence-transformers 5.4.
        texts, single = as_texts(options.pop("sentences", inputs), self.max_characters)
        codes = as_code_list(lang, single=single)
        route = self._transformer.router.route
        if not (tagged := route(texts, codes)):
            return self._no_vectors(prompt_name, prompt, batch_size, align=align, **options)
        prefix = prompt_text(self._resolve_prompt(prompt, prompt_name))
        size = positive_int(batch_size, "batch_size")
        encode, transformer = super().encode, self._transformer
        in_pool = options.get("pool") is not None or isinstance(options.get("device"), list)

        def vectors_of(tagged: list[TaggedText]) -> Any:
            if in_pool:
                # Here first: sentence-transformers 5 waits forever for a process that an error has ended.
                for code in {text.lang for text in tagged} - {BASE}:
                    transformer.cache.load(code)
            else:
                transformer.tokenize_and_order(tagged, prefix, size)
            return encode(tagged[0] if single else tagged, None, prefix, size, align=align, **options)

        vectors, tagged = with_retries(vectors_of, tagged, lambda _: route(texts, codes))
        self._warn_of_cuts(tagged, prefix)
        return vectors

    def _no_vectors(self, *args: Any, **options: Any) -> Any:
        """Return the result for no texts, in the shape and type of one with texts."""
        device = options.get("device")
        options |= {"pool": None, "device": None if isinstance(device, list) else device}
        return self.encode([""], *args, lang=BASE, **options)[:0]

    def _warn_of_cuts(self, tagged: list[TaggedText], prompt: str) -> None:
        """Warn if texts were cut, but not in a process of a pool."""
        module = self._transformer
        if self._counts_cuts:
            with suppress(LanguageGoneError):  # gone after the vectors were computed
                if cut := module.count_cut(tagged, prompt):
                    warn_user(TextsCutWarning(cut, len(tagged), module.max_seq_length, module.most_positions))

    @staticmethod
    def _multi_process_worker(device: str, model: ModularEncoder, *queues: Any) -> None:
        """Run a process of a pool, which does not warn of cut texts; the main process does."""
        model._counts_cuts = False
        SentenceTransformer._multi_process_worker(device, model, *queues)

    def _inference(self, inputs: list[TaggedText], **options: Any) -> Any:
        """Tokenize texts that are not yet; sentence-transformers 6 alone calls this, in pools as well."""
        infer = super()._inference  # type: ignore[misc]
        if all(text.tokens is not None for text in inputs):
            return infer(inputs, **options)

        def vectors_of(inputs: list[TaggedText]) -> Any:
            self._transformer.tokenize_and_order(inputs, options.get("prompt") or "", options["batch_size"])
            return infer(inputs, **options)

        return with_retries(vectors_of, inputs, self._transformer.router.route)[0]

    def save(self, path: str | Path, *_: Any, **__: Any) -> None:
        """Copy the hub with all its languages, to be opened with the same ``max_seq_length`` and prompt.

        Other options of ``SentenceTransformer.save`` have no effect. A hub has one prompt; if there are more,
        a warning names the one that is saved.

        Raises:
            HubError: ``path`` is another kind of hub, or has other files in it; nothing there is changed.
            StorageError: the disk is full or read-only; an incomplete new folder cannot be opened as a hub.
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
        """Upload the hub to Hugging Face in one commit; returns its URL. See :func:`push_hub`.

        Args:
            repo_id: ``organization/name``; made if there is none. Other languages in it stay there.
            languages: codes; ``None``: all of the hub.
            private: whether a new repository is private.
            revision: branch; ``None``: the main branch.
            commit_message: message of the commit.
            token: as in huggingface_hub.
            **options: other options of ``SentenceTransformer.push_to_hub``; most are refused.

        Raises:
            HubError: the hub is damaged, or the repository is not writable or another kind of hub.
        """
        refuse_in_push(options)
        given: dict[str, Any] = {"private": private, "revision": revision, "token": token}
        given |= {"languages": languages, "info": self._info(), "message": commit_message}
        return push_hub(self.hub, repo_id, **given)

    def _info(self) -> HubInfo:
        """Return the content of ``hub.json`` with the encoder's prompt and ``max_seq_length``."""
        given = prompt_text(self._resolve_prompt(None, None))
        if set(self.prompts.values()) - {given}:
            warn_user(f"a hub has one prompt: only {given!r} is saved; give prompts= when you open it")
        return replace(self.hub.info, prompt=given, max_length=self._transformer.max_seq_length)

    @staticmethod
    def _input_length(sample: Any) -> int:
        """Return the key by which sentence-transformers sorts texts before it makes batches."""
        order = sample.order if isinstance(sample, TaggedText) else None
        return int(SentenceTransformer._input_length(sample)) if order is None else order

    @property
    def _transformer(self) -> ModularTransformer:
        return self[0]  # type: ignore[no-any-return]
