"""Checked parsing of a language's tokenizer: bounded time and memory, and ids within the vocabulary."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from modenc.errors import HubError
from modenc.hub.checks.schema import listed
from modenc.hub.files import json_object

TOKENIZER_FILE, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
TOKENIZER_FILES = {TOKENIZER_FILE: 1 << 25, TOKENIZER_CONFIG: 1 << 20, "special_tokens_map.json": 1 << 20}
"""File in the folder ``tokenizer`` → most bytes; no other file is read."""
_SPECIAL_TOKENS = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_MOST_ADDED, _MOST_ADDED_CHARACTERS = 10_000, 1 << 17
_MOST_COMPONENTS = 16
# Longest piece or other text: components may compare it with the input at each character.
_MOST_CHARACTERS = 128
_MOST_PER_WORD = 200
# Most special tokens around a text, and most bytes that a character map makes of one character.
_MOST_AROUND, _MOST_MAPPED = 8, 36
# One character or class, once or more: no empty matches and no backtracking.
_EXPRESSION = re.compile(
    r"([^\\\[\]{}()^$.|?*+] | \\[sSdDwW] | \\[^\w\s] | \\[pP]\{\w+\}"
    r" | \[\^?([^\\\[\]^&] | \\[sSdDwWnrtpP] | \\[^\w\s])+\])"
    r"(\+ | \{[1-9][0-9]?(,[0-9]{0,2})?\})?",
    re.VERBOSE,
)
_MODELS = ("Unigram", "WordPiece", "WordLevel")
_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")
# Component → most characters that it makes of one; 1 for other components. A character map's are counted.
_GROWTH = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 3}
_GROWTH |= {"BertNormalizer": 4, "ByteLevel": 5, "Metaspace": 2}
_MOST_GROWTH = 200
_MARKS = ("Metaspace", "ByteLevel")
_AROUND = ("TemplateProcessing", "BertProcessing", "RobertaProcessing")
_MOST_SCORE = 1e6
_COMPONENTS = frozenset({
    "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "Strip", "StripAccents", "Precompiled",
    "Replace", "Prepend", "BertNormalizer", "ByteLevel", "Metaspace", "Whitespace", "BertPreTokenizer",
    "WhitespaceSplit", "Punctuation", "Digits", "Split", "TemplateProcessing", "BertProcessing",
    "RobertaProcessing", "WordPiece", "BPEDecoder", "Fuse", "ByteFallback",
})  # fmt: skip


class TokenizerPanic(Exception):
    """Raised if the tokenizers library fails."""


@contextmanager
def panics_caught() -> Iterator[None]:
    """Turn the library's panics, and its own errors (plain ``Exception``), into :class:`TokenizerPanic`."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise TokenizerPanic(str(error)) from error


@dataclass(frozen=True)
class ParsedTokenizer:
    """A language's checked tokenizer, without truncation and padding."""

    backend: Tokenizer
    options: dict[str, Any]
    """Special tokens and names of model inputs, as ``PreTrainedTokenizerFast`` takes them."""

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size(with_added_tokens=True))


def parse_tokenizer(files: Mapping[str, bytes]) -> ParsedTokenizer:
    """Parse the contents of :data:`TOKENIZER_FILES`, of which only the first is required.

    The time and memory of an accepted tokenizer are bounded by a text's length, and its ids by the size of
    its vocabulary.

    Raises:
        HubError: it is damaged, or has more than a tokenizer needs.
    """
    for name, content in files.items():
        if len(content) > (most := TOKENIZER_FILES.get(name, -1)):
            allowed = f"at most {most >> 20} MB" if most > 0 else f"{', '.join(TOKENIZER_FILES)} alone"
            raise HubError(f"expected {allowed}, found {name} of {len(content)} bytes")
    parsed = {name: json_object(content, name) for name, content in files.items()}
    try:
        issues = listed(_content_issues(parsed[TOKENIZER_FILE]))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        issues = f"expected a tokenizer as the library writes it, found another ({error!r:.80})"
    if issues:
        raise HubError(issues)
    try:
        with panics_caught():
            backend = Tokenizer.from_buffer(files[TOKENIZER_FILE])
            backend.no_truncation()
            backend.no_padding()
    except (TokenizerPanic, ValueError) as error:
        raise HubError(f"expected a readable {TOKENIZER_FILE}, found: {error}") from error
    config = parsed.get(TOKENIZER_CONFIG, {})
    options: dict[str, Any] = {
        name: _special_token(config[name], name, backend) for name in _SPECIAL_TOKENS if config.get(name)
    }
    if names := config.get("model_input_names"):
        if not isinstance(names, list):
            raise HubError(
                f"expected a list for model_input_names of {TOKENIZER_CONFIG}, found {names!r:.60}"
            )
        options["model_input_names"] = names
    return ParsedTokenizer(backend, options)


def _special_token(value: Any, name: str, backend: Tokenizer) -> str:
    text = value.get("content") if isinstance(value, dict) else value
    with suppress(UnicodeEncodeError):  # half of a surrogate pair, which is valid in JSON
        if isinstance(text, str) and backend.token_to_id(text) is not None:
            return text
    raise HubError(f"expected {name} of {TOKENIZER_CONFIG} in the vocabulary, found {text!r:.60}")


def _content_issues(content: dict[str, Any]) -> Iterator[str]:
    added = content.get("added_tokens") or []
    if len(added) > _MOST_ADDED:
        yield f"added_tokens: expected at most {_MOST_ADDED} tokens, found {len(added)}"
        return
    if (characters := sum(len(token["content"]) for token in added)) > _MOST_ADDED_CHARACTERS:
        yield f"added_tokens: expected at most {_MOST_ADDED_CHARACTERS} characters, found {characters}"
    kinds = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    by_kind = {kind: _components(content.get(kind)) for kind in kinds}
    components = [component for found in by_kind.values() for component in found]
    if len(components) > _MOST_COMPONENTS:
        yield f"expected at most {_MOST_COMPONENTS} components, found {len(components)}"
    growth = math.prod(map(_growth, [*by_kind["normalizer"], *by_kind["pre_tokenizer"]]))
    if growth > _MOST_GROWTH:
        yield f"expected components that make at most {_MOST_GROWTH} characters of one, found {growth}"
    for kind, alone in (("pre_tokenizer", _MARKS), ("post_processor", _AROUND)):
        if sum(component["type"] in alone for component in by_kind[kind]) > 1:
            yield f"{kind}: expected one of {', '.join(alone)}, found several"
    for component in components:
        yield from _component_issues(component)
    yield from _length_issues(content)
    yield from _model_issues(content["model"])
    yield from _id_issues(content["model"]["vocab"], added, components)


def _components(content: Any) -> list[dict[str, Any]]:
    """Return all components in one section of ``tokenizer.json``, nested ones included; each has a type."""
    found, pending = [], [] if content is None else [content]
    while pending:
        component = pending.pop()
        if not isinstance(component, dict) or not isinstance(component.get("type"), str):
            raise TypeError(f"no type: {component!r:.40}")  # the library would guess it
        found.append(component)
        for name in _LISTS:
            pending += component.get(name) or []
    return found


def _growth(component: dict[str, Any]) -> int:
    if component["type"] == "Prepend":
        return 1 + len(component["prepend"])
    if component["type"] == "Precompiled":
        size, content = _charsmap(component)
        return max(1, *map(len, content[size:].decode(errors="replace").split("\0")))
    return _GROWTH.get(component["type"], 1)


def _component_issues(component: dict[str, Any]) -> Iterator[str]:
    kind = component["type"]
    if kind not in _COMPONENTS:
        yield f"expected components of the library, found {kind!r:.60}"
    pattern = component.get("pattern")
    if isinstance(pattern, dict):
        if isinstance(expression := pattern.get("Regex"), str) and not _EXPRESSION.fullmatch(expression):
            yield f"expected regular expressions of one character or class, found {expression!r:.80}"
        if pattern.get("String") == "":
            yield f"{kind}: expected a pattern, found an empty one"
        if kind == "Replace" and len(text := component["content"]) > max(1, len(pattern.get("String", ""))):
            yield f"Replace: expected what is no longer than what it replaces, found {text!r:.60}"
    if kind == "Precompiled":
        yield from _map_issues(component)
    if kind == "TemplateProcessing":
        ids = [number for token in component["special_tokens"].values() for number in token["ids"]]
        if len(component["single"]) + len(component["pair"]) + len(ids) > 3 * _MOST_AROUND:
            yield f"TemplateProcessing: expected at most {_MOST_AROUND} tokens around a text"
        single, pair = (
            [piece["Sequence"]["id"] for piece in component[kind] if "Sequence" in piece]
            for kind in ("single", "pair")
        )
        if single != ["A"] or sorted(pair) not in ([], ["A"], ["A", "B"]):
            yield f"TemplateProcessing: expected a text once in its place, found {single} and {pair}"[:200]


def _map_issues(component: dict[str, Any]) -> Iterator[str]:
    size, content = _charsmap(component)
    if size % 4 or not 0 < size <= len(content):
        yield "expected a whole precompiled character map, found a damaged one"
    elif any(len(text) > _MOST_MAPPED for text in content[size:].split(b"\0")):
        yield f"expected character maps to at most {_MOST_MAPPED} bytes, found more"


def _charsmap(component: dict[str, Any]) -> tuple[int, bytes]:
    """Decode a sentencepiece map: the trie's bytes; the trie, then NUL-terminated replacements."""
    blob = base64.b64decode(component["precompiled_charsmap"], validate=True)
    return int.from_bytes(blob[:4], "little"), blob[4:]


def _length_issues(content: dict[str, Any]) -> Iterator[str]:
    """Check the length of all texts, except character maps and the vocabulary."""
    pending: list[Any] = [{**content, "model": {**content["model"], "vocab": None}}]
    while pending:
        item = pending.pop()
        if isinstance(item, str) and len(item) > _MOST_CHARACTERS:
            yield f"expected texts of at most {_MOST_CHARACTERS} characters, found {item!r:.40}…"
            return
        if isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += item
            pending += [value for name, value in item.items() if name != "precompiled_charsmap"]


def _model_issues(model: dict[str, Any]) -> Iterator[str]:
    """Check the model's type, and settings with which it would fail on a text or take too long."""
    kind = model.get("type")
    if kind not in _MODELS:
        yield f"model: expected {' or '.join(_MODELS)}, found {kind!r:.60}"
    if kind == "Unigram" and type(model.get("unk_id")) is not int:
        yield f"model: expected unk_id, the piece for what is unknown, found {model.get('unk_id')!r:.60}"
    if kind == "Unigram" and not all(abs(score) <= _MOST_SCORE for _, score in model["vocab"]):
        yield f"model: expected scores up to {_MOST_SCORE:g}, found another"
    if kind in ("WordPiece", "WordLevel") and model.get("unk_token") not in model["vocab"]:
        yield f"model: expected unk_token to be in the vocabulary, found {model.get('unk_token')!r:.60}"
    if kind == "WordPiece" and not 0 <= (most := model["max_input_chars_per_word"]) <= _MOST_PER_WORD:
        yield f"model: expected max_input_chars_per_word up to {_MOST_PER_WORD}, found {most!r:.60}"


def _id_issues(
    vocabulary: Any, added: list[dict[str, Any]], components: list[dict[str, Any]]
) -> Iterator[str]:
    """Check that ids are rows of the embeddings, and that pieces are not too long."""
    if isinstance(vocabulary, dict):
        pieces, ids = set(vocabulary), set(vocabulary.values())
    else:
        pieces, ids = {piece for piece, _ in vocabulary}, set(range(len(vocabulary)))
    pieces |= {token["content"] for token in added}
    if len(longest := max(pieces, key=len, default="")) > _MOST_CHARACTERS:
        yield f"expected pieces of at most {_MOST_CHARACTERS} characters, found {longest!r:.40}…"
    ids |= {token["id"] for token in added}
    for component in components:
        if component["type"] == "TemplateProcessing":
            ids |= {number for token in component["special_tokens"].values() for number in token["ids"]}
        elif component["type"] in ("BertProcessing", "RobertaProcessing"):
            ids |= {component["sep"][1], component["cls"][1]}
    if any(type(number) is not int for number in ids) or not ids or min(ids) < 0 or max(ids) >= len(pieces):
        yield f"expected ids from 0 to {len(pieces) - 1}, one for each of the tokens, found others"
