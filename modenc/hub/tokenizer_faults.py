"""What a tokenizer from elsewhere may not hold: what never ends, grows without bound or points astray."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modenc.errors import HubError
from modenc.hub.files import read_json

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_FILES = {
    TOKENIZER_FILE: 1 << 25,
    "tokenizer_config.json": 1 << 20,
    "special_tokens_map.json": 1 << 20,
}
"""File → bytes; no other file is read."""
_MOST_ADDED = 10_000
_MOST_COMPONENTS = 32
# Backtracking is bounded where no group is repeated and little else is without end.
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_ENDLESS = re.compile(r"[*+{]")
_MOST_ENDLESS = 2
# Special tokens around a text, and characters that one becomes.
_MOST_AROUND, _MOST_GROWTH = 8, 64
_COMPONENTS = frozenset(
    {
        *("Sequence", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "Strip", "StripAccents"),
        *("Precompiled", "Replace", "Prepend", "BertNormalizer", "ByteLevel", "Metaspace", "Whitespace"),
        *(
            "BertPreTokenizer",
            "WhitespaceSplit",
            "Punctuation",
            "Digits",
            "Split",
            "TemplateProcessing",
            "BertProcessing",
        ),
        *("RobertaProcessing", "WordPiece", "BPEDecoder", "Fuse", "ByteFallback"),
    }
)


class TokenizerPanic(Exception):
    """The tokenizers library gave up."""


@contextmanager
def panics_caught() -> Iterator[None]:
    """Have the library's panics and its own errors, which are bare, as :class:`TokenizerPanic`."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise TokenizerPanic(str(error)) from error


def tokenizer_faults(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, message) for everything in a tokenizer's folder that is more than a tokenizer needs.

    What passes takes time and memory that a text's length bounds, and gives ids below its vocabulary's size.
    """
    for path in sorted(folder.iterdir()):
        if path.name not in TOKENIZER_FILES:
            yield path.name, f"expected {', '.join(TOKENIZER_FILES)} alone, found another file; delete it"
            continue
        try:
            content = read_json(path, TOKENIZER_FILES[path.name])
            if path.name == TOKENIZER_FILE:
                yield from ((path.name, message) for message in _content_faults(content))
        except HubError as error:
            yield path.name, str(error)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            yield path.name, f"expected a tokenizer as the library writes it, found another ({error!r:.80})"


def _content_faults(content: dict[str, Any]) -> Iterator[str]:
    added = content.get("added_tokens") or []
    if len(added) > _MOST_ADDED:
        yield f"added_tokens: expected at most {_MOST_ADDED} tokens, found {len(added)}"
        return
    kinds = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    components = [part for kind in kinds for part in _components(content.get(kind))]
    if len(components) > _MOST_COMPONENTS:
        yield f"expected at most {_MOST_COMPONENTS} components, found {len(components)}"
    if sum(part["type"] == "Precompiled" for part in components) > 1:
        yield "expected one precompiled character map, found several"
    for part in components:
        yield from _component_faults(part)
    if content["model"].get("dropout"):
        yield "model: expected no dropout, which gives a text another vector each time"
    yield from _unknown_faults(content["model"])
    yield from _id_faults(content["model"]["vocab"], added, components)


def _components(content: Any) -> list[dict[str, Any]]:
    """Every component in a part of a tokenizer's settings, however deep."""
    found, waiting = [], [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if "type" in part and isinstance(part["type"], str):
                found.append(part)
            waiting += part.values()
    return [part for part in found if "type_id" not in part]


def _component_faults(part: dict[str, Any]) -> Iterator[str]:
    kind = part["type"]
    if kind not in _COMPONENTS:
        yield f"expected components of the library, found {kind!r:.60}"
    pattern = part.get("pattern")
    if isinstance(pattern, dict):
        if isinstance(expression := pattern.get("Regex"), str):
            yield from _expression_faults(expression)
        if kind == "Replace" and len(part["content"]) > max(1, len(pattern.get("String", ""))):
            yield f"Replace: expected what is no longer than what it replaces, found {part['content']!r:.60}"
    if kind == "Prepend" and len(part["prepend"]) > _MOST_GROWTH:
        yield f"Prepend: expected at most {_MOST_GROWTH} characters, found {len(part['prepend'])}"
    if kind == "Precompiled":
        yield from _map_faults(base64.b64decode(part["precompiled_charsmap"], validate=True))
    if kind == "TemplateProcessing":
        ids = [number for token in part["special_tokens"].values() for number in token["ids"]]
        if len(part["single"]) + len(part["pair"]) + len(ids) > 3 * _MOST_AROUND:
            yield f"TemplateProcessing: expected at most {_MOST_AROUND} tokens around a text"


def _expression_faults(expression: str) -> Iterator[str]:
    plain = re.sub(r"\\.", "x", expression, flags=re.DOTALL)
    if _REPEATED_GROUP.search(plain) or len(_ENDLESS.findall(plain)) > _MOST_ENDLESS:
        yield f"expected regular expressions without repeated groups, found {expression!r:.80}"


def _map_faults(blob: bytes) -> Iterator[str]:
    """The trie's length, its units and then the replacements, each ended by NUL: sentencepiece's format."""
    size = int.from_bytes(blob[:4], "little")
    if len(blob) < 4 or size % 4 or not 0 < size <= len(blob) - 4:
        yield "expected a whole precompiled character map, found a damaged one"
    elif any(len(text) > _MOST_GROWTH for text in blob[4 + size :].split(b"\0")):
        yield f"expected character maps to at most {_MOST_GROWTH} bytes, found more"


def _unknown_faults(model: dict[str, Any]) -> Iterator[str]:
    """A model that gives up on text it does not know."""
    if model.get("type") == "Unigram" and type(model.get("unk_id")) is not int:
        yield f"model: expected unk_id, the piece for what is unknown, found {model.get('unk_id')!r:.60}"
    if model.get("type") in ("WordPiece", "WordLevel") and model.get("unk_token") not in model["vocab"]:
        yield f"model: expected unk_token to be in the vocabulary, found {model.get('unk_token')!r:.60}"


def _id_faults(
    vocabulary: Any, added: list[dict[str, Any]], components: list[dict[str, Any]]
) -> Iterator[str]:
    """Ids that no row of the embeddings belongs to."""
    if isinstance(vocabulary, dict):
        pieces, ids = set(vocabulary), set(vocabulary.values())
    else:
        pieces, ids = {piece for piece, _ in vocabulary}, set(range(len(vocabulary)))
    pieces |= {token["content"] for token in added}
    ids |= {token["id"] for token in added}
    for part in components:
        if part["type"] == "TemplateProcessing":
            ids |= {number for token in part["special_tokens"].values() for number in token["ids"]}
        elif part["type"] in ("BertProcessing", "RobertaProcessing"):
            ids |= {part["sep"][1], part["cls"][1]}
    if any(type(number) is not int for number in ids) or not ids or min(ids) < 0 or max(ids) >= len(pieces):
        yield f"expected ids from 0 to {len(pieces) - 1}, one for each of the tokens, found others"
