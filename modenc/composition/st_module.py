"""The module through which sentence-transformers runs a hub: texts in, token vectors out.

Each row goes through its language's own tokenizer; then all rows of a batch run together, without their
padding, so that neither neighbours nor their padding touch a result.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from threading import Lock
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules.input_module import InputModule
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel, resolve_base
from modenc.composition.language_cache import LanguageCache
from modenc.composition.routing import LanguageRouter, RoutingSettings
from modenc.composition.settings import ComputeSettings, prompt_text, whole
from modenc.composition.st_options import refuse_without_effect
from modenc.errors import BaseModelError, HubError, LanguageError
from modenc.hub.checks.tokenizer import TokenizerPanic, panics_caught
from modenc.hub.layout import HUB_FILE
from modenc.hub.remote import hub_folder
from modenc.hub.store import Hub
from modenc.texts import TaggedText, Tokens, as_texts, clean
from modenc.threads import waiting

# No tokenizer makes fewer tokens of real text, so nothing that counts is cut.
_CHARACTERS_PER_TOKEN = 64
# Nor more, of any text that is not about tokenizers.
_TOKENS_PER_CHARACTER = 4
# More than any text has tokens.
_FAR = 1 << 20
# The library keeps all tokens of the texts it is given at once, also those that it cuts off.
_CHARACTERS_AT_A_TIME, _CHARACTERS_PER_TEXT = 1 << 17, 50
_CUT = {"stride": 0, "strategy": "longest_first", "direction": "right"}
_truncation_lock = Lock()
_NO_TOKENS = Tokens("", 0, "", array("i"))
# Options that a hub has no use for, but that loading is given.
_HEARD = ("backend", "processor_kwargs", "tokenizer_kwargs", "config_kwargs")


class ModularTransformer(InputModule):  # type: ignore[misc]
    """All languages of a hub as the first module of a ``SentenceTransformer``.

    Args:
        hub: the hub folder.
        base: where the base is found, if not under the name in the hub.
        choice: how languages are chosen.
        compute: how vectors are computed.

    Raises:
        BaseModelError: the base cannot be loaded, or is not the one the modules were trained on.
    """

    forward_kwargs = {"lang", "align"}  # noqa: RUF012
    config_keys = ["max_seq_length"]  # noqa: RUF012
    save_in_root = True

    def __init__(
        self,
        hub: Hub,
        base: str | None = None,
        choice: RoutingSettings | None = None,
        compute: ComputeSettings | None = None,
    ) -> None:
        super().__init__()
        self.hub = hub
        self.router = LanguageRouter(hub, choice or RoutingSettings())
        found = resolve_base(base or hub.info.base_id)
        self.auto_model = matching_body(found, hub)
        self.cache = LanguageCache(hub, found, self.auto_model, compute or ComputeSettings())
        self._max_seq_length = min(hub.info.max_length, most_positions(self.auto_model))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> ModularTransformer:
        """Called by ``SentenceTransformer(hub)``.

        ``model_kwargs`` may hold ``base`` and the fields of :class:`RoutingSettings` and
        :class:`ComputeSettings`.

        Raises:
            HubError: the folder is no hub, a hub elsewhere is not pinned to a commit, or ``model_kwargs``
                holds something else.
            OptionError: another backend than torch, or settings of a tokenizer or configuration.
        """
        settings = dict(options.get("model_kwargs") or {})
        base = settings.pop("base", None)
        choice, compute = (
            [field.name for field in fields(kind)] for kind in (RoutingSettings, ComputeSettings)
        )
        if unknown := sorted(set(settings) - {*choice, *compute}):
            expected = ", ".join(["base", *choice, *compute])
            raise HubError(f"model_kwargs: expected {expected}, found {', '.join(unknown)}")
        refuse_without_effect({name: options[name] for name in _HEARD if name in options})
        where = {key: options[key] for key in ("token", "revision", "local_files_only") if key in options}
        folder = hub_folder(model_name_or_path, **where, subfolder=subfolder)
        return cls(
            Hub.open(folder),
            base,
            RoutingSettings(**{name: settings[name] for name in choice if name in settings}),
            ComputeSettings(**{name: settings[name] for name in compute if name in settings}),
        )

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Copy the hub with all its languages to ``output_path``."""
        self.hub.copy(output_path, self.hub.info)

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's tokenizer; languages may have their own."""
        return self.cache.base_tokenizer()

    @property
    def max_seq_length(self) -> int:
        """Tokens at which texts are cut.

        Raises:
            OptionError: set to more than the base has positions for, or to less than 1.
        """
        return self._max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        limit = most_positions(self.auto_model)
        self._max_seq_length = whole(value, "max_seq_length (the base's positions)", limit)

    @property
    def most_positions(self) -> int:
        """To how much :attr:`max_seq_length` can be raised."""
        return most_positions(self.auto_model)

    @property
    def max_characters(self) -> int:
        """Characters at which texts are cut before they are tokenized."""
        return self._max_seq_length * _CHARACTERS_PER_TOKEN

    def get_embedding_dimension(self) -> int:
        """Width of the token vectors."""
        return int(self.auto_model.config.hidden_size)

    def tag(self, texts: Sequence[str], lang: str | Sequence[str | None] | None) -> list[TaggedText]:
        """Choose each text's language: see :meth:`LanguageRouter.route`."""
        return [
            TaggedText(text, code) for text, code in zip(texts, self.router.route(texts, lang), strict=True)
        ]

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, lang: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Tokenize texts, each with its language's tokenizer.

        Args:
            inputs: texts; a :class:`~modenc.texts.TaggedText` states its language, others are identified.
            prompt: put before every text after identification.
            lang: one code for all.

        Returns:
            ``input_ids`` and ``attention_mask`` [batch, length] in int64; lists of each row's ``language``
            and of the ``digest`` of its modules.

        Raises:
            TextError: an input is not a text.
            LanguageError: ``lang`` is not one known code.
        """
        if not (lang is None or isinstance(lang, str)):
            raise LanguageError(
                "lang: expected one code; sentence-transformers sorts the texts, so a list of codes cannot "
                "follow them. Use modenc.ModularEncoder, or give modenc.texts.TaggedText(text, code)"
            )
        texts, _single = as_texts(list(inputs), self.max_characters)
        # What is tokenized has its language, also where the hub has lost it since.
        chosen = [text.lang for text in texts if isinstance(text, TaggedText) and text.tokens is not None]
        known = lang is None and len(chosen) == len(texts)
        codes = chosen if known else self.router.route(texts, lang)
        rows = self._token_rows(texts, codes, prompt_text(prompt))
        lengths = np.array([len(row.ids) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        # Padding is never looked at, but has to be in the row's own table: its first token is.
        ids = np.repeat(np.array([row.ids[0] for row in rows])[:, None], mask.shape[1], axis=1)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens.ids)] = tokens.ids
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "language": codes,
            "digest": [row.digest for row in rows],
        }

    def tokenize_ahead(self, texts: Sequence[TaggedText], prompt: str, batch_size: int) -> None:
        """Tokenize texts ahead of :meth:`preprocess`, and order them so that batches hold alike ones.

        A language with texts for two batches or more has batches of its own; texts of the others share
        theirs with texts of the same length.
        """
        codes = [text.lang for text in texts]
        count = Counter(codes)
        many = [code for code in count if count[code] >= 2 * batch_size]
        place = {code: position * _FAR for position, code in enumerate(many, start=1)}
        for text, tokens in zip(texts, self._token_rows(texts, codes, prompt), strict=True):
            text.tokens = tokens
            text.order = place.get(text.lang, 0) + len(tokens.ids)

    def _token_rows(self, texts: Sequence[str], codes: Sequence[str], prompt: str) -> list[Tokens]:
        rows: list[Tokens] = [_NO_TOKENS] * len(texts)
        left: dict[str, list[int]] = {}
        for row, (text, code) in enumerate(zip(texts, codes, strict=True)):
            done = text.tokens if isinstance(text, TaggedText) and text.lang == code else None
            if done is not None and (done.prompt, done.max_length) == (prompt, self._max_seq_length):
                rows[row] = done
            else:
                left.setdefault(code, []).append(row)
        before = clean(prompt, self.max_characters)
        for code, members in left.items():
            tokenizer, digest = self.cache.tokenizer(code)
            batch = _tokenize(tokenizer, [before + texts[row] for row in members], self._max_seq_length)
            for row, (ids, cut) in zip(members, batch, strict=True):
                rows[row] = Tokens(prompt, self._max_seq_length, digest, ids, cut)
        return rows

    def count_cut(self, texts: Sequence[TaggedText], prompt: str) -> int:
        """How many texts are cut at :attr:`max_seq_length`, where other processes tokenize them."""
        least = self._max_seq_length // _TOKENS_PER_CHARACTER - len(prompt)
        long = [text for text in texts if len(text) > least]
        return sum(tokens.cut for tokens in self._token_rows(long, [text.lang for text in long], prompt))

    def forward(self, features: dict[str, Any], align: bool = True, **_: Any) -> dict[str, Any]:
        """Run all rows through the body, each with its language's modules.

        Args:
            features: what :meth:`preprocess` gave.
            align: apply the cross-lingual alignment adapters.

        Returns:
            ``features`` with ``token_embeddings`` [batch, length, hidden], zero where there is no token.

        Raises:
            LanguageGoneError: a language was replaced in the hub, or removed, after its texts had been
                tokenized.
        """
        waiting.check()
        features["token_embeddings"] = self.cache.run(
            features["input_ids"],
            features["attention_mask"],
            features["language"],
            features["digest"],
            align=align,
        )
        return features

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ModularTransformer:
        before = next(self.auto_model.parameters())
        place = (before.device, before.dtype)
        super()._apply(fn, recurse)
        after = next(self.auto_model.parameters())
        if (after.device, after.dtype) != place:
            self.cache.restart()
        return self


def matching_body(base: BaseModel, hub: Hub) -> PreTrainedModel:
    """The body of a hub's base, frozen.

    Raises:
        BaseModelError: it cannot be loaded, or is not the one that the hub's modules were trained on.
        HubError: ``hub.json`` is wrong about its width.
    """
    body, found = base.load_with_fingerprint()
    if found != hub.info.base_fingerprint:
        raise BaseModelError(
            f"base {base.id!r}: expected the weights that the modules in {hub.path} were trained on "
            f"({hub.info.base_id!r}, fingerprint {hub.info.base_fingerprint[:12]}…), "
            f"found fingerprint {found[:12]}…. "
            "Say where that base is with base=, or train modules for this one"
        )
    if body.config.hidden_size != hub.info.hidden_size:
        raise HubError(
            f"{hub.path / HUB_FILE}: expected hidden_size {body.config.hidden_size} as in the base, "
            f"found {hub.info.hidden_size}; correct it"
        )
    return body.requires_grad_(False)


def most_positions(body: PreTrainedModel) -> int:
    """Tokens of the longest text that a body takes."""
    # RoBERTa-like bodies count positions from the padding id on.
    skipped = 0 if body.config.model_type == "bert" else body.config.pad_token_id + 1
    return int(body.config.max_position_embeddings - skipped)


def tokenize(tokenizer: PreTrainedTokenizerFast, texts: list[str], max_length: int) -> Iterator[array[int]]:
    """The ids of each text, cut to ``max_length``; at least one.

    Raises:
        HubError: the tokenizer gives up on a text.
    """
    return (ids for ids, _ in _tokenize(tokenizer, texts, max_length))


def _tokenize(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], max_length: int
) -> Iterator[tuple[array[int], bool]]:
    """The same, and whether the text was cut."""
    backend = tokenizer.backend_tokenizer
    with _truncation_lock:
        # The whole of it: others may have set strides, or cut at the other end.
        if backend.truncation != (wanted := {**_CUT, "max_length": max_length}):
            backend.enable_truncation(**wanted)
        if backend.padding is not None:
            backend.no_padding()
    # A text of no tokens at all still needs one to have a vector.
    candidates = (tokenizer.cls_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    filler = next((number for number in candidates if number is not None), 0)
    for portion in _portions(texts):
        try:
            with panics_caught():
                encodings = backend.encode_batch_fast(portion)
        except TokenizerPanic as error:
            raise HubError(f"a tokenizer gave up on a text ({error}); install its language again") from error
        for encoding in encodings:
            ids = encoding.ids
            # What was cut off is asked for only where there can be any: the library makes copies of it.
            cut = len(ids) >= max_length and bool(encoding.overflowing)
            # Tokens that a tokenizer puts around a text may be more than its limit.
            yield array("i", ids[:max_length] or [filler]), cut


def _portions(texts: list[str]) -> Iterator[list[str]]:
    portion: list[str] = []
    size = 0
    for text in texts:
        portion.append(text)
        size += _CHARACTERS_PER_TEXT + len(text)
        if size >= _CHARACTERS_AT_A_TIME:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
