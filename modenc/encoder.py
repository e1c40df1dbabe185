"""``ModularEncoder``: a ``SentenceTransformer`` that encodes each text with the modules of its language."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from modenc.composition.st_module import ModularTransformer
from modenc.errors import OptionError, TextsCutWarning
from modenc.hub.layout import PROMPT_NAMES, HubInfo
from modenc.hub.push import push_hub
from modenc.hub.remote import open_hub
from modenc.hub.store import Hub
from modenc.langid import Identification, LanguageIdentifier
from modenc.languages import BASE, listed_codes
from modenc.texts import TaggedText, as_texts

_ACCESS = ("token", "local_files_only")
# Options of SentenceTransformer that have an effect here.
_OPTIONS = ("prompts", "default_prompt_name", "truncate_dim", "similarity_fn_name")


class ModularEncoder(SentenceTransformer):  # type: ignore[misc]
    """Encoder of sentences with the modules of each text's own language.

    Args:
        hub: a hub's folder, the id of one on Hugging Face (``organization/name``), or an open hub.
        base: folder or id of the base, if it is not found under the name in the hub; the weights must match.
        fallback: modules for a language that has none: ``base`` (no modules), ``error``, or a code. ``None``:
            the pivot's if they are only a sentence-encoding adapter, or else ``base``.
        min_confidence: texts that are identified with less confidence (0 to 1) go to the fallback.
        identifier: a fastText file (GlotLID), or ``None`` for py3langid.
        compute: precision: ``fp32``, ``bf16`` (vectors differ in the third digit), or ``auto``: bf16 if the
            device has it in hardware.
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

    def __init__(
        self,
        hub: str | Path | Hub,
        *,
        base: str | None = None,
        fallback: str | None = None,
        min_confidence: float = 0.0,
        identifier: LanguageIdentifier | str | Path | None = None,
        compute: str = "fp32",
        device: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> None:
        """Open a hub; the arguments and errors are those of the class."""
        access = {name: options.pop(name) for name in _ACCESS if name in options}
        if others := sorted(options.keys() - set(_OPTIONS)):
            raise OptionError(
                f"{', '.join(others)}: would have no effect; give arguments of ModularEncoder, or these of "
                f"SentenceTransformer: {', '.join((*_OPTIONS, *_ACCESS))}"
            )
        _check_device(device)
        opened = open_hub(hub, revision=revision, **access)
        info = opened.info
        transformer = ModularTransformer(
            opened,
            base,
            compute=compute,
            fallback=fallback,
            min_confidence=min_confidence,
            identifier=identifier,
        )
        prompts = {name: info.prompt for name in PROMPT_NAMES} | dict(options.pop("prompts", None) or {})
        options.setdefault("similarity_fn_name", "cosine")
        modules = [transformer, Pooling(info.hidden_size, info.pooling)]
        super().__init__(modules=modules, device=device, prompts=prompts, **options)
        if info.prompt and "default_prompt_name" not in options:
            # If it were given to super().__init__, sentence-transformers would log a warning.
            self.default_prompt_name: str | None = "default"
        self.eval()

    @property
    def hub(self) -> Hub:
        """Hub that the encoder was opened with."""
        return self._transformer.hub

    @property
    def languages(self) -> list[str]:
        """Codes of all languages of the hub, the pivot first; also lists them again for :meth:`encode`."""
        return self._transformer.router.languages()

    @property
    def max_characters(self) -> int:
        """Characters at which texts are cut before they are tokenized."""
        return self._transformer.max_characters

    @property
    def loaded(self) -> list[str]:
        """Codes of the languages in memory."""
        return self._transformer.cache.loaded()

    def load(self, codes: str | Iterable[str]) -> None:
        """Read languages now instead of on first use.

        Raises:
            LanguageError: a code is unknown or its language has no modules.
            HubError: its modules are damaged or made for another base.
        """
        self._transformer.cache.load(map(self._transformer.router.require, listed_codes(codes)))

    def identify(self, texts: Any) -> list[Identification]:
        """Identify the language of each text among all that the identifier knows, and choose its modules.

        Returns:
            For each text ``code`` and ``confidence`` (0 to 1) of its language; ``modules``, the code of the
            language or fallback that :meth:`encode` uses, None where ``fallback="error"`` refuses the text.

        Raises:
            TextError: something is not a text.
            LanguageError: the hub has no languages, or the identifier knows none of them.
        """
        return self._transformer.router.identify(as_texts(texts, self.max_characters)[0])

    def route(self, texts: Any, lang: str | Sequence[str | None] | None = None) -> list[TaggedText]:
        """Tag each text with the language whose modules :meth:`encode` uses for it.

        Args:
            texts: a text or several, as for :meth:`encode`.
            lang: as for :meth:`encode`.

        Returns:
            Strings whose ``lang`` is a code, or ``base``; :meth:`encode` accepts them, and leaves its tokens
            on them: two threads must not encode the same ones with different prompts at once.

        Raises:
            TextError: something is not a text.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.

        Examples:
            >>> encoder = ModularEncoder("adapters_hub/me5-small")
            >>> [text.lang for text in encoder.route(["Good morning", "Қайырлы таң"])]
            ['en', 'kk']
        """
        return self._transformer.router.route(as_texts(texts, self.max_characters)[0], lang)

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
            **options: options of ``SentenceTransformer.encode``; ``processing_kwargs`` and ``task`` have no
                effect, since each language has its own tokenizer.

        Warns:
            TextsCutWarning: texts have more tokens than ``max_seq_length``; once a call, with their number.
                In a pool, each process says so of its own texts.

        Returns:
            float32 array [texts, hidden], or [hidden] for a single text, unless ``options`` choose another.

        Raises:
            TextError: something is not a text; the message says where and what.
            LanguageError: a code is unknown, or its language has no modules and ``fallback="error"``.
            HubError: a language's modules are damaged or made for another base, or were removed.
            OptionError: ``batch_size`` is less than 1.
        """
        # ``sentences`` was the name before sentence-transformers 5.4.
        texts, single = as_texts(options.pop("sentences", inputs), self.max_characters)
        transformer = self._transformer
        tagged = transformer.router.route(texts, lang)
        if not tagged:  # the shape and type are those of a result with texts
            empty = self.encode(
                [""], prompt_name, prompt, batch_size, *args, lang=BASE, align=align, **options
            )
            return empty[:0]
        if batch_size < 1:
            raise OptionError(f"batch_size: expected 1 or more, found {batch_size!r:.60}")
        prefix = self._resolve_prompt(prompt, prompt_name) or ""
        if options.get("pool") is not None or isinstance(options.get("device"), list):
            # A pool's processes read languages of their own, but errors come from here: sentence-transformers
            # 5 waits forever for a process that an error has ended.
            transformer.cache.load(text.lang for text in tagged)
        else:
            transformer.tokenize_and_order(tagged, prefix, batch_size)
        given = tagged[0] if single else tagged
        vectors = super().encode(given, None, prefix, batch_size, *args, align=align, **options)
        if cut := sum(text.cut for text in tagged):
            limits = transformer.max_seq_length, transformer.most_positions
            warnings.warn(TextsCutWarning(cut, len(tagged), *limits), stacklevel=2)
        return vectors

    def save(self, path: str | Path, *_: Any, **__: Any) -> None:
        """Copy the hub with all its languages, to be opened with the same ``max_seq_length`` and prompt.

        Other options of ``SentenceTransformer.save`` have no effect. A hub has one prompt; if there are more,
        a warning names the one that is saved.

        Raises:
            HubError: ``path`` is another kind of hub, or has other files in it; nothing there is changed.
            StorageError: the disk is full or read-only; an incomplete new folder cannot be opened as a hub.
        """
        self.hub.copy(path, self._info())

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the hub to Hugging Face in one commit; returns its URL.

        Args:
            repo_id: ``organization/name``; made if there is none. Other languages in it stay there.
            **options: options of :func:`push_hub`.

        Raises:
            HubError: the hub is damaged, or the repository is not writable or another kind of hub.
        """
        return push_hub(self.hub, repo_id, info=self._info(), **options)

    def _info(self) -> HubInfo:
        """Return the content of ``hub.json`` with the encoder's prompt and ``max_seq_length``."""
        given = self._resolve_prompt(None, None) or ""
        if set(self.prompts.values()) - {given}:
            message = f"a hub has one prompt: only {given!r} is saved; give prompts= when you open it"
            warnings.warn(message, stacklevel=3)
        return replace(self.hub.info, prompt=given, max_length=self._transformer.max_seq_length)

    @staticmethod
    def _input_length(sample: Any) -> int:
        """Return the key by which sentence-transformers sorts texts before it makes batches."""
        if isinstance(sample, TaggedText):
            return sample.order
        return int(SentenceTransformer._input_length(sample))

    @property
    def _transformer(self) -> ModularTransformer:
        return self[0]  # type: ignore[no-any-return]


def _check_device(device: str | torch.device | None) -> None:
    """Raise OptionError if PyTorch cannot compute on a device; ``None`` is the best one there is."""
    try:
        torch.empty(0, device=device)
    # A PyTorch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OptionError(
            f"device: expected one that PyTorch has here, such as 'cpu', found {device!r:.60} ({reason:.200})"
        ) from error
