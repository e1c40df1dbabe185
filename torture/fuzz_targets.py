"""What the fuzzer calls with bytes: each target ends well, or with a modenc error; anything else is a find.

Imported by ``fuzzer.py`` under atheris, which then sees which branches of modenc its inputs reach.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiny_languages
import tiny_models
import torch
from safetensors.numpy import load, save
from tiny_recipe import save_tiny_recipe

from modenc import ModularEncoder
from modenc.cli.hub import sections
from modenc.composition.modules import quantize_rows, read_modules
from modenc.composition.st_module import tokenize
from modenc.data.formats import read_file
from modenc.errors import ModencError
from modenc.hub.card import Card
from modenc.hub.layout import LanguageLayout
from modenc.hub.page import language_page
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe

Call = Callable[[bytes], None]
Target = tuple[Call, list[bytes]]
"""What to call, and sound inputs to start from."""

# JSON, so that each edit has its own.
_VALUES = (
    *("null", "true", "0", "-1", str(1 << 70), "0.5", "NaN", "Infinity", '""', '"../.."', '"\\u0000"'),
    *("[]", "[null]", "[[]]", "{}", '{"": null}', '{"a": {"a": {}}}', '["a", 1]', '"\\udc80"'),
    f'"{"a" * 5000}"',
)


_LONG = [character * 8192 for character in ("a", "é", "中", "\ufdfa", "a ", "\u0301", " ")]
_NORMALIZERS: list[dict[str, Any]] = [
    *({"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "ByteLevel"},
    {"type": "Prepend", "prepend": "▁" * 100},
    {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    *(
        {"type": "Replace", "pattern": pattern, "content": content}
        for pattern, content in (
            ({"Regex": " {2,}"}, " "),
            ({"Regex": "[^a]"}, "中"),
            ({"Regex": "(?=a)"}, "a"),
            ({"String": "a"}, "é"),
            ({"Regex": r"\S"}, "\u1f82"),
            ({"Regex": "a"}, "İ"),
            ({"String": "aa"}, "中é"),
            ({"String": ""}, "a"),
        )
    ),
]
_SPLITS: list[dict[str, Any]] = [
    *({"type": kind} for kind in ("WhitespaceSplit", "Whitespace", "BertPreTokenizer")),
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "MergedWithNext"},
    *({"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": True} for mark in "▁_"),
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    *(
        {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
        for pattern in ({"Regex": "(a+)+$"}, {"Regex": r"\p{L}+"}, {"Regex": "a"}, {"String": "a"})
        for behavior in ("Isolated", "MergedWithPrevious", "Removed")
        for invert in (False, True)
    ),
]
_NUMBERS = (0.0, 1e-7, -10.0, 10.0, 10.01, 1000.0, 65504.0, 1e38, np.nan, np.inf, -np.inf)
_TEXTS = ["", "a", "aaa  aaa", "Мұғалім кітап оқиды.", "\u0301\u200d\ufdfa<s></s>", "a" * 3000, *"(\\ "]


def encode(folder: Path) -> Target:
    """Texts, parted by the byte FF, which no UTF-8 has: identified, tokenized, encoded."""
    encoder = ModularEncoder(_hub(folder).path)

    def call(data: bytes) -> None:
        batch = [part.decode("utf-8", "surrogateescape") for part in data.split(b"\xff")]
        vectors = encoder.encode(batch, normalize_embeddings=True)
        assert vectors.shape == (len(batch), tiny_models.HIDDEN)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)

    return call, [
        line.encode() for lang in ("en", "kk", "az", "ug") for line in tiny_models.sentences(lang)[:20]
    ]


def rows(folder: Path) -> Target:
    """A file for the data readers; its first byte says of which format."""
    sound = list(_sound_files())
    paths = [folder / name for name, _ in sound]

    def call(data: bytes) -> None:
        path = paths[data[0] % len(paths) if data else 0]
        path.write_bytes(data[1:])
        with suppress(ModencError):
            for _ in read_file(path):
                pass

    return call, [bytes([number]) + content for number, (_, content) in enumerate(sound)]


def card(folder: Path) -> Target:
    """The text of ``card.json``."""

    def act(text: bytes) -> None:
        with suppress(ModencError):
            found = Card.from_json(text.decode("utf-8", "replace"))
            language_page(found)
            sections(found)

    return _json_target(act, tiny_languages.make_card("kk").to_json().encode())


def hub_info(folder: Path) -> Target:
    """The text of ``hub.json``."""
    hub = Hub.create(folder / "hub", tiny_languages.INFO)
    path = hub.path / "hub.json"

    def act(text: bytes) -> None:
        path.write_bytes(text)
        with suppress(ModencError):
            Hub.open(hub.path)

    return _json_target(act, path.read_bytes())


def recipe(folder: Path) -> Target:
    """A recipe."""
    path = save_tiny_recipe(folder / "recipe", folder / "base")
    sound = path.read_bytes()

    def call(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(ModencError):
            load_recipe(path)

    return call, [sound]


def weights(folder: Path) -> Target:
    """The weights of a LoRA."""
    return _weights_target(*_part_of_a_language(folder, "se/adapter_model.safetensors"))


def parallel_weights(folder: Path) -> Target:
    """The weights of an alignment adapter."""
    return _weights_target(*_part_of_a_language(folder, "cla/adapter.safetensors"))


def embeddings(folder: Path) -> Target:
    """A language's embeddings."""
    return _weights_target(*_part_of_a_language(folder, "embeddings.safetensors"))


def integer_embeddings(folder: Path) -> Target:
    """The same as integers with scales."""
    act, sound = _part_of_a_language(folder, "embeddings.safetensors")
    rows, scales = quantize_rows(torch.from_numpy(load(sound)["embeddings"]))
    return _weights_target(act, save({"embeddings": rows.numpy(), "scales": scales.numpy()}))


def lora_config(folder: Path) -> Target:
    """The configuration of a LoRA."""
    return _json_target(*_part_of_a_language(folder, "se/adapter_config.json"))


def parallel_config(folder: Path) -> Target:
    """The configuration of an alignment adapter."""
    return _json_target(*_part_of_a_language(folder, "cla/adapter_config.json"))


def tokenizer(folder: Path) -> Target:
    """A tokenizer."""
    return _json_target(*_part_of_a_language(folder, "tokenizer/tokenizer.json"))


def tokenizer_config(folder: Path) -> Target:
    """What a tokenizer's special tokens are."""
    return _json_target(*_part_of_a_language(folder, "tokenizer/tokenizer_config.json"))


def special_tokens(folder: Path) -> Target:
    """The same in the file that older versions of transformers wrote."""
    return _json_target(*_part_of_a_language(folder, "tokenizer/special_tokens_map.json"))


def components(folder: Path) -> Target:
    """A tokenizer's components, each byte one of them; those that the checks let pass meet long texts."""
    layout = LanguageLayout(_hub(folder).path / "kk")
    path = layout.tokenizer / "tokenizer.json"
    sound = json.loads(path.read_text())
    normalizers = [*_NORMALIZERS, *([sound["normalizer"]] if sound["normalizer"] else [])]

    def call(data: bytes) -> None:
        first, second = data[: len(data) // 2][:40], data[len(data) // 2 :][:40]
        parts = [normalizers[byte % len(normalizers)] for byte in first]
        splits = [_SPLITS[byte % len(_SPLITS)] for byte in second]
        content = {
            **sound,
            "normalizer": {"type": "Sequence", "normalizers": parts},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}] * (2 if len(data) % 9 == 0 else 1),
                "pair": [],
                "special_tokens": {},
            },
        }
        path.write_text(json.dumps(content))
        with suppress(ModencError):
            found = read_modules(layout, tiny_models.HIDDEN).tokenizer
            assert found is not None
            normalizer = found.backend_tokenizer.normalizer
            for text in _LONG:
                list(tokenize(found, [text], tiny_models.POSITIONS))
                assert len(normalizer.normalize_str(text[:1000])) <= 100 * len(text[:1000])

    return call, [bytes([0, 1, 2]), bytes(range(20)), bytes([8, 8, 8, 8, 6, 6, 6, 6])]


TARGETS: dict[str, Callable[[Path], Target]] = {
    target.__name__: target
    for target in (
        *(encode, rows, card, hub_info, recipe, weights, parallel_weights, embeddings, integer_embeddings),
        *(lora_config, parallel_config, tokenizer, tokenizer_config, special_tokens, components),
    )
}


def _json_target(act: Call, sound: bytes) -> Target:
    """Calls with the text of a JSON object: after an even byte the bytes themselves, after an odd one edits.

    Bytes changed blindly hardly ever are JSON, so that what reads its keys would never be reached.
    """

    def call(data: bytes) -> None:
        if not data or data[0] % 2 == 0:
            act(data[1:])
            return
        content = json.loads(sound)
        for start in range(1, len(data) - 2, 3):
            _edit(content, *data[start : start + 3])
        act(json.dumps(content).encode("utf-8", "replace"))

    return call, [b"\0" + sound, bytes([1, *range(60)])]


def _edit(content: dict[str, Any], key: int, value: int, how: int) -> None:
    """Change, drop or add a key of an object, or of one inside it."""
    keys = sorted(content, key=str)
    name = keys[key % len(keys)] if keys else ""
    inner = content.get(name)
    if how >= 128 and isinstance(inner, dict):
        _edit(inner, value, key, how % 128)
    elif how % 8 == 0:
        content.pop(name, None)
    elif how % 8 == 1:
        content[str(how)] = json.loads(_VALUES[value % len(_VALUES)])
    else:
        content[name] = json.loads(_VALUES[value % len(_VALUES)])


def _weights_target(act: Call, sound: bytes) -> Target:
    """Calls with a safetensors file: after an even byte the bytes themselves, after an odd one edits."""

    def call(data: bytes) -> None:
        if not data or data[0] % 2 == 0:
            act(data[1:])
            return
        tensors = load(sound)
        with np.errstate(invalid="ignore", over="ignore"):  # no integer is NaN, no F16 1e38
            for start in range(1, min(len(data), 60) - 2, 3):
                _edit_tensor(tensors, *data[start : start + 3])
        act(save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}))

    return call, [b"\0" + sound, *(bytes([1, 3 * how, how, 7 * how]) for how in range(9))]


def _edit_tensor(tensors: dict[str, Any], key: int, how: int, value: int) -> None:
    """Drop, rename, reshape, cut or fill a tensor."""
    if not tensors:
        return
    name = sorted(tensors)[key % len(tensors)]
    tensor = tensors[name]
    if how % 9 == 0:
        del tensors[name]
    elif how % 9 == 1:
        tensors[_renamed(name, value)] = tensor
    elif how % 9 == 2:
        tensors[_renamed(name, value)] = tensors.pop(name)
    elif how % 9 == 3:
        tensors[name] = tensor.T
    elif how % 9 == 4:
        tensors[name] = tensor[..., None] if value % 2 else tensor.reshape(-1)
    elif how % 9 == 5:
        tensors[name] = tensor[: value % 40] if tensor.ndim else tensor
    elif how % 9 == 6:
        tensors[name] = tensor[..., : value % 40] if tensor.ndim else tensor
    elif how % 9 == 7:
        tensors[name] = np.full(tensor.shape, _NUMBERS[value % len(_NUMBERS)], tensor.dtype)
    else:
        tensors[name] = tensor.astype((np.float16, np.float32, np.float64, np.int8)[value % 4])


def _renamed(name: str, value: int) -> str:
    names = (f"{name}{value}", name.replace(".0.", f".{value}.", 1), name.replace(".0.", "..", 1), "junk", "")
    return names[value % len(names)]


def _part_of_a_language(folder: Path, name: str) -> tuple[Call, bytes]:
    """What the checks let pass is read, and encodes a text."""
    hub = _hub(folder)
    layout = LanguageLayout(hub.path / "kk")
    path = layout.root / name
    if not path.exists():  # transformers 5 writes no special tokens
        path.write_text(
            json.dumps({"pad_token": "<pad>", "mask_token": {"content": "<mask>", "lstrip": True}})
        )
    sound = path.read_bytes()
    encoder = ModularEncoder(hub.path)

    def call(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(ModencError):
            modules = read_modules(layout, tiny_models.HIDDEN)
            assert all(torch.isfinite(change.b).all() for change in modules.lora.values())
            assert all(abs(layer.scaling) < inf for layer in modules.parallel_adapters.values())
            if modules.tokenizer is not None and modules.embeddings is not None:
                for ids, _ in tokenize(modules.tokenizer, _TEXTS, tiny_models.POSITIONS):
                    assert len(ids) <= tiny_models.POSITIONS
                    assert max(ids) < len(modules.embeddings)
            # As from an attacker: the card agrees with the files.
            tiny_languages.update_card(layout.root)
            encoder.unload("kk")
            vector = encoder.encode(_TEXTS[3], lang="kk")
            assert vector.shape == (tiny_models.HIDDEN,)
            assert np.isfinite(vector).all()

    return call, sound


def _hub(folder: Path) -> Hub:
    return tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))


def _sound_files() -> Iterator[tuple[str, bytes]]:
    rows = [
        {"id": i, "text": text, "more": {"a": [i, None, 7]}}
        for i, text in enumerate(tiny_models.sentences("kk")[:20])
    ]
    lines = "\n".join(row["text"] for row in rows).encode()
    table = "\n".join(["id\ttext", *(f"{row['id']}\t{row['text']}" for row in rows)]).encode()
    commas = "\n".join(["id,text", *(f'{row["id"]},"{row["text"]}"' for row in rows)]).encode()
    objects = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    yield "a.txt", lines
    yield "a.tsv", table
    yield "a.csv", commas
    yield "a.jsonl", objects
    yield "a.parquet", buffer.getvalue()
    yield "a.txt.gz", gzip.compress(lines)
    yield "a.tsv.zst", pa.compress(table, codec="zstd", asbytes=True)
