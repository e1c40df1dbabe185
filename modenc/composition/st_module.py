"""The module that runs a hub inside sentence-transformers: texts to token vectors.

Each text is tokenized by its language's tokenizer. All rows of a batch run together without their padding,
so that neither the other rows nor the padding change a result.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules.input_module import InputModule
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel, resolve_base
from modenc.composition.bert import COMPUTE
from modenc.composition.engine import LanguageCache
from modenc.composition.routing import LanguageRouter
from modenc.errors import BaseModelError, OptionError
from modenc.hub.checks import tokenizer_errors
from modenc.hub.remote import open_hub
from modenc.hub.store import Hub
from modenc.texts import TaggedText, as_texts, normalize_prompt

# Tokens of real text are shorter than this, so no text is cut before its last used token.
_CHARACTERS_PER_TOKEN = 64
# Distance in the order of two languages' texts: more tokens than any text has.
_ORDER_STEP = 1 << 20
# The library keeps all tokens of the texts in one call, also those that it cuts off.
_TEXTS_AT_A_TIME = 128
_TRUNCATION = {"stride": 0, "strategy": "longest_first", "direction": "right"}
_truncation_lock = Lock()


class ModularTransformer(InputModule):  # type: ignore[misc]
    """All languages of a hub as the first module of a ``SentenceTransformer``.

    Args:
        hub: the hub folder.
        base: folder or id of the base, if it is not found under the name in the hub.
        compute: precision, as in :class:`~modenc.ModularEncoder`.
        **routing: options of :class:`~modenc.composition.routing.LanguageRouter`.

    Raises:
        BaseModelError: the base cannot be loaded, or is not the one the modules were trained on.
        OptionError: ``compute`` or an option of routing is invalid.
    """

    forward_kwargs = {"align"}  # noqa: RUF012
    config_keys = ["max_seq_length"]  # noqa: RUF012
    save_in_root = True

    def __init__(self, hub: Hub, base: str | None = None, *, compute: str = "fp32", **routing: Any) -> None:
        super().__init__()
        if compute not in COMPUTE:
            raise OptionError(f"compute: expected {', '.join(COMPUTE)}, found {compute!r}")
        self.hub = hub
        self.router = LanguageRouter(hub, **routing)
        found = resolve_base(base or hub.info.base_id)
        self.auto_model = load_body(found, hub)
        self.cache = LanguageCache(hub, found, self.auto_model, compute)
        self.most_positions = most_positions(self.auto_model)
        """Largest possible :attr:`max_seq_length`."""
        self._max_seq_length = min(hub.info.max_length, self.most_positions)

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> ModularTransformer:
        """Open a hub; called by ``SentenceTransformer(hub)``.

        ``model_kwargs`` may hold the arguments of this class.

        Raises:
            HubError: the folder is no hub, or a hub elsewhere cannot be fetched.
            OptionError: another backend than torch.
        """
        if (backend := options.get("backend", "torch")) != "torch":
            raise OptionError(
                f"backend: expected 'torch', found {backend!r:.60}; export a language for that backend "
                "(modenc export --to onnx or openvino)"
            )
        access = {key: options[key] for key in ("token", "revision", "local_files_only") if key in options}
        return cls(open_hub(model_name_or_path, **access), **(options.get("model_kwargs") or {}))

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Copy the hub with all its languages to ``output_path``."""
        self.hub.copy(output_path, self.hub.info)

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's tokenizer; languages may have their own."""
        return self.cache.base_tokenizer

    @property
    def max_seq_length(self) -> int:
        """Tokens at which texts are cut.

        Raises:
            OptionError: set to more than the base has positions for, or to less than 1.
        """
        return self._max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        if not 1 <= value <= self.most_positions:
            raise OptionError(
                f"max_seq_length: expected 1 to {self.most_positions} (the base's positions), found {value!r}"
            )
        self._max_seq_length = int(value)

    @property
    def max_characters(self) -> int:
        """Characters at which texts are cut before they are tokenized."""
        return self._max_seq_length * _CHARACTERS_PER_TOKEN

    def get_embedding_dimension(self) -> int:
        """Width of the token vectors."""
        return int(self.auto_model.config.hidden_size)

    def tokenize_and_order(self, texts: Sequence[TaggedText], prompt: str, batch_size: int) -> None:
        """Tokenize texts, each with its language's tokenizer, and order them for batches.

        A language with texts for two batches or more has batches of its own, and so have languages together
        that share one LoRA; texts of the others share batches with texts of the same length.

        Args:
            texts: texts whose ``tokens``, ``cut`` and ``order`` are set.
            prompt: put before each text.
            batch_size: texts in a batch.

        Raises:
            HubError: a language's modules cannot be used, or the hub has lost it.
        """
        members: dict[str, list[TaggedText]] = {}
        for text in texts:
            members.setdefault(text.lang, []).append(text)
        _, loaded = self.cache.load(members)
        prefix = normalize_prompt(prompt)
        shares_batches = {
            code: code if len(own) >= 2 * batch_size else loaded[code].lora_fingerprint
            for code, own in members.items()
        }
        sizes = Counter(shares_batches[text.lang] for text in texts)
        large = [name for name, size in sizes.items() if size >= 2 * batch_size]
        start = {name: position * _ORDER_STEP for position, name in enumerate(large, start=1)}
        for code, own in members.items():
            tokenizer = loaded[code].tokenizer or self.cache.base_tokenizer
            tokens = tokenize(tokenizer, [prefix + text for text in own], self._max_seq_length)
            for text, (text.tokens, text.cut) in zip(own, tokens, strict=True):
                text.order = start.get(shares_batches[code], 0) + len(text.tokens)

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Make a batch of texts, tokenized by their languages' tokenizers.

        Args:
            inputs: texts; :class:`~modenc.texts.TaggedText` that ``encode`` has tokenized are taken as they
                are.
            prompt: put before the other texts, after their languages are identified.

        Returns:
            ``input_ids`` and ``attention_mask`` [batch, length] in int64; each row's ``language`` as a list.

        Raises:
            TextError: an input is not a text.
            HubError: a language's modules cannot be used, or the hub has lost it.
        """
        texts: Sequence[Any] = list(inputs)
        if not all(getattr(text, "tokens", None) for text in texts):
            texts = self.router.route(as_texts(texts, self.max_characters)[0])
            self.tokenize_and_order(texts, prompt or "", len(texts))
        lengths = np.array([len(text.tokens) for text in texts])
        mask = np.arange(lengths.max()) < lengths[:, None]
        # Padding is never read, but has to be in the row's own vocabulary: the first token is.
        ids = np.repeat(np.array([text.tokens[0] for text in texts])[:, None], mask.shape[1], axis=1)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text.tokens)] = text.tokens
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "language": [text.lang for text in texts],
        }

    def forward(self, features: dict[str, Any], align: bool = True, **_: Any) -> dict[str, Any]:
        """Run all rows through the body, each with its language's modules.

        Args:
            features: output of :meth:`preprocess`.
            align: apply the cross-lingual alignment adapters.

        Returns:
            ``features`` with ``token_embeddings`` [batch, length, hidden], zero at padding.

        Raises:
            HubError: the hub has lost a language.
        """
        ids, languages = features["input_ids"], features["language"]
        # compute= alone sets the precision: weights that are merged here are used by later batches.
        engine, loaded = self.cache.load(languages)
        rows = [loaded[code] for code in languages]
        with torch.autocast(ids.device.type, enabled=False):
            vectors = engine.run(ids, features["attention_mask"], rows, align=align)
        features["token_embeddings"] = vectors
        return features

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ModularTransformer:
        parameter = next(self.auto_model.parameters())
        before = (parameter.device, parameter.dtype)
        super()._apply(fn, recurse)
        parameter = next(self.auto_model.parameters())
        if (parameter.device, parameter.dtype) != before:
            self.cache.restart()
        return self


def load_body(base: BaseModel, hub: Hub) -> PreTrainedModel:
    """Load the body of a hub's base, frozen, and check that it is the hub's.

    Raises:
        BaseModelError: it cannot be loaded, or the hub's modules were trained on another base.
    """
    body, found = base.load_with_fingerprint()
    if found != hub.info.base_fingerprint:
        raise BaseModelError(
            f"base {base.id!r}: expected the weights that the modules in {hub.path} were trained on "
            f"({hub.info.base_id!r}, fingerprint {hub.info.base_fingerprint[:12]}…), "
            f"found fingerprint {found[:12]}…. "
            "Give the folder or id of that base with base=, or train modules for this one"
        )
    return body.requires_grad_(False)


def most_positions(body: PreTrainedModel) -> int:
    """Return the most tokens that a body takes."""
    # RoBERTa-like bodies count positions from the padding id.
    skipped = 0 if body.config.model_type == "bert" else body.config.pad_token_id + 1
    return int(body.config.max_position_embeddings - skipped)


def tokenize(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], max_length: int
) -> Iterator[tuple[array[int], bool]]:
    """Yield the ids of each text, one or more, cut to ``max_length``; and whether the text was cut.

    Raises:
        HubError: the tokenizer cannot process a text.
    """
    backend = tokenizer.backend_tokenizer
    with _truncation_lock:
        # All settings are compared: other code may have set a stride, or another direction.
        if backend.truncation != (wanted := {**_TRUNCATION, "max_length": max_length}):
            backend.enable_truncation(**wanted)
        if backend.padding is not None:
            backend.no_padding()
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        with tokenizer_errors("a tokenizer failed on a text ({}); install its language again"):
            encodings = backend.encode_batch_fast(texts[start : start + _TEXTS_AT_A_TIME])
        for encoding in encodings:
            ids = encoding.ids
            # Reading encoding.overflowing copies, so short texts are ruled out first.
            cut = len(ids) >= max_length and bool(encoding.overflowing)
            # The special tokens alone may exceed the limit, and a text without any token has no vector.
            yield array("i", ids[:max_length] or [0]), cut
