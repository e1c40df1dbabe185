"""Tokenizers made from that of a base: trained like it, trimmed, extended or transliterating."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unicodedata import category

import sentencepiece
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from modenc.errors import DataError

_BATCH = 1000
_FLOOR = 0.5
_COVERAGE = 0.995
SUPPORTED_MODELS = ("Unigram", "WordPiece")


def tokenizer_model(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return a tokenizer's model, ``Unigram`` or ``WordPiece``; DataError if it is another."""
    model = str(json.loads(tokenizer.backend_tokenizer.to_str())["model"]["type"])
    if model not in SUPPORTED_MODELS:
        raise DataError(
            f"the base's tokenizer is a {model} model; a vocabulary can be made for "
            f"{' and '.join(SUPPORTED_MODELS)}. Set vocabulary.method = 'base' to keep it."
        )
    return model


def train_like(
    base: PreTrainedTokenizerFast, texts: Sequence[str], size: int, prompt: str = ""
) -> PreTrainedTokenizerFast:
    """Train a tokenizer with the base's model type, normalizer, pre-tokenizer, decoder and special tokens.

    Its vocabulary has the tokens of the ``prompt``, too; cut as the base cuts it.
    """
    tokenizer_model(base)
    pieces = base.convert_ids_to_tokens(_prompt_ids(base, prompt))
    batches = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
    tokenizer = base.train_new_from_iterator(batches, vocab_size=size - len(pieces), show_progress=False)
    description = json.loads(tokenizer.backend_tokenizer.to_str())
    _add_pieces(description, pieces)
    _prefer(description, pieces)
    return _wrap(tokenizer, description)


def piece_counts(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> Counter[int]:
    """Count how often each token id occurs in the texts, special tokens not added."""
    counts: Counter[int] = Counter()
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        for encoding in tokenizer.backend_tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            counts.update(encoding.ids)
    return counts


def tokens_per_sentence(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> float:
    """Return the mean number of tokens of a text, special tokens not counted."""
    return sum(piece_counts(tokenizer, texts).values()) / max(len(texts), 1)


def trim(
    base: PreTrainedTokenizerFast, texts: Sequence[str], size: int, prompt: str = ""
) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """Keep the base's pieces that the texts use most, and the pieces of the ``prompt``.

    If the texts use fewer than ``size``, the base's likeliest pieces in the texts' letters are added, among
    them words that the texts happen to lack.

    Returns the tokenizer, and for each of its ids the id in the base.
    """
    tokenizer_model(base)
    counts = piece_counts(base, texts)
    vocabulary = base.get_vocab()
    special = set(base.all_special_ids) | set(base.added_tokens_decoder)
    normalizer = base.backend_tokenizer.normalizer
    characters = {char for text in texts for char in (normalizer.normalize_str(text) if normalizer else text)}
    # Single characters are kept, so that no text of the language becomes unknown tokens.
    single = {
        vocabulary[form] for char in characters for form in (char, "##" + char, "▁") if form in vocabulary
    }
    kept = special | single | set(_prompt_ids(base, prompt))
    used = sorted(counts, key=lambda number: (-counts[number], number))
    for number in (*used, *_likely_pieces(base, texts)):
        if len(kept) >= size:
            break
        kept.add(number)
    ids = sorted(kept)
    return _rebuild(base, ids), ids


def extend(
    trimmed: PreTrainedTokenizerFast, new_pieces: Sequence[str], texts: Sequence[str], prompt: str = ""
) -> PreTrainedTokenizerFast:
    """Add pieces to a trimmed tokenizer; it still cuts the ``prompt`` as before.

    A WordPiece tokenizer takes the longest match, so adding is enough; a Unigram tokenizer needs
    scores that old and new pieces share, so both are counted on the texts (two rounds of hard EM).
    """
    description = json.loads(trimmed.backend_tokenizer.to_str())
    model = description["model"]
    if model["type"] == "WordPiece":
        _add_pieces(description, new_pieces)
        return _wrap(trimmed, description)
    special = set(trimmed.all_special_tokens)
    lowest = min(score for piece, score in model["vocab"] if piece not in special)
    highest = max(score for piece, score in model["vocab"] if piece not in special)
    # New pieces start in the middle; the rounds below determine all scores.
    _add_pieces(description, new_pieces, 0.5 * (lowest + highest))
    tokenizer = _wrap(trimmed, description)
    for _ in range(2):
        counts = piece_counts(tokenizer, texts)
        total = sum(counts.values())
        for number, entry in enumerate(model["vocab"]):
            if entry[0] not in special:
                entry[1] = math.log((counts.get(number, 0) + _FLOOR) / total)
        _prefer(description, trimmed.convert_ids_to_tokens(_prompt_ids(trimmed, prompt)))
        tokenizer = _wrap(trimmed, description)
    return tokenizer


def transliterate(
    tokenizer: PreTrainedTokenizerFast, replacements: Mapping[str, str]
) -> PreTrainedTokenizerFast:
    """Make a tokenizer that replaces characters before it does what ``tokenizer`` does.

    Args:
        tokenizer: not changed.
        replacements: character → text. Capital letters without an entry follow: ``ш`` → ``sh`` gives
            ``Ш`` → ``Sh``.
    """
    capitals = {key.upper(): text[:1].upper() + text[1:] for key, text in replacements.items()}
    characters = {key: text for key, text in capitals.items() if len(key) == 1} | dict(replacements)
    changes = {key: text for key, text in characters.items() if key != text}
    if not changes:
        return tokenizer
    description = json.loads(tokenizer.backend_tokenizer.to_str())
    charsmap = base64.b64encode(_character_map(changes)).decode("ascii")
    first = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    then = description["normalizer"]
    description["normalizer"] = {"type": "Sequence", "normalizers": [first, then] if then else [first]}
    return _wrap(tokenizer, description)


def _character_map(replacements: Mapping[str, str]) -> bytes:
    """Compile a map, character → another text, for ``normalizers.Precompiled``; it is not empty."""
    sentencepiece.SetMinLogLevel(1)  # otherwise it reports to stderr
    normalizer = sentencepiece.SentencePieceNormalizer(norm_map=list(replacements.items()))
    spec = normalizer.serialized_normalizer_spec()
    # A protocol buffer with one field: its tag, the number of bytes in groups of 7 bits, and the map.
    end = next(place for place in range(1, len(spec)) if spec[place] < 0x80)
    return bytes(spec[end + 1 :])


def special_pairs(
    target: PreTrainedTokenizerFast, source: PreTrainedTokenizerFast
) -> Iterable[tuple[int, int]]:
    """Yield (target id, source id) of each special token that both have (cls, sep, pad, unk, mask, …)."""
    for name, token in target.special_tokens_map.items():
        other = source.special_tokens_map.get(name)
        if isinstance(token, str) and isinstance(other, str):
            yield target.convert_tokens_to_ids(token), source.convert_tokens_to_ids(other)


def _likely_pieces(base: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[int]:
    """List the ids of pieces in the letters that make up nearly all of the texts, the likeliest first."""
    counts = Counter(char for text in texts for char in text.lower() if category(char)[0] in "LM")
    total, letters, covered = sum(counts.values()), set[str](), 0
    for char, count in counts.most_common():
        if covered >= _COVERAGE * total:
            break
        letters.add(char)
        covered += count
    model = json.loads(base.backend_tokenizer.to_str())["model"]
    if model["type"] == "Unigram":
        scored = sorted(enumerate(model["vocab"]), key=lambda item: -item[1][1])
        pieces = [(number, piece) for number, (piece, _) in scored]
    else:  # WordPiece's vocabularies are in the order of frequency
        pieces = sorted((number, piece) for piece, number in model["vocab"].items())
    return [number for number, piece in pieces if set(piece.removeprefix("##").strip("▁").lower()) <= letters]


def _prompt_ids(base: PreTrainedTokenizerFast, prompt: str) -> list[int]:
    ids: list[int] = base(prompt.rstrip(), add_special_tokens=False)["input_ids"] if prompt else []
    return sorted(set(ids) - {base.unk_token_id})


def _add_pieces(description: dict[str, Any], pieces: Iterable[str], score: float = 0.0) -> None:
    model = description["model"]
    if model["type"] == "WordPiece":
        for piece in pieces:
            model["vocab"].setdefault(piece, len(model["vocab"]))
    else:
        known = {piece for piece, _ in model["vocab"]}
        model["vocab"] += [[piece, score] for piece in pieces if piece not in known]


def _prefer(description: dict[str, Any], pieces: Iterable[str]) -> None:
    """Give pieces the highest score of a Unigram model; WordPiece takes the longest match as it is."""
    model = description["model"]
    if model["type"] == "Unigram":
        for entry in model["vocab"]:
            if entry[0] in pieces:
                entry[1] = 0.0


def _rebuild(base: PreTrainedTokenizerFast, ids: Sequence[int]) -> PreTrainedTokenizerFast:
    description = json.loads(base.backend_tokenizer.to_str())
    new_id = {old: new for new, old in enumerate(ids)}
    model = description["model"]
    # Tokens added after the model's own vocabulary (often a mask) move into it.
    added = {token["id"]: token["content"] for token in description["added_tokens"]}
    if model["type"] == "Unigram":
        known = model["vocab"]
        model["vocab"] = [known[old] if old < len(known) else [added[old], 0.0] for old in ids]
        model["unk_id"] = new_id[model["unk_id"]]
    else:
        tokens = added | {number: token for token, number in model["vocab"].items()}
        model["vocab"] = {tokens[old]: new for old, new in new_id.items()}
    description["added_tokens"] = [
        {**token, "id": new_id[token["id"]]} for token in description["added_tokens"] if token["id"] in new_id
    ]
    _renumber(description.get("post_processor") or {}, new_id)
    return _wrap(base, description)


def _renumber(processor: dict[str, Any], new_id: dict[int, int]) -> None:
    for token in processor.get("special_tokens", {}).values():
        token["ids"] = [new_id[number] for number in token["ids"]]
    for name in ("sep", "cls"):
        if name in processor:
            processor[name] = [processor[name][0], new_id[processor[name][1]]]
    for inner in processor.get("processors", []):
        _renumber(inner, new_id)


def _wrap(like: PreTrainedTokenizerFast, description: dict[str, Any]) -> PreTrainedTokenizerFast:
    """Make a tokenizer of the content of ``tokenizer.json``, with the special tokens of another."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(description)),
        model_max_length=like.model_max_length,
        padding_side="right",
        **{name: token for name, token in like.special_tokens_map.items() if isinstance(token, str)},
    )
