"""Malicious hubs: refused, in bounded time and memory; and nothing of theirs, or of a recipe, is run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import tiny_languages
import tiny_models
from hostile_files import FILES
from memory import peak, peak_from_now_on
from outcomes import Outcome

from modenc import ModularEncoder
from modenc.errors import ModencError
from modenc.hub.card import Card
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe

SECONDS, MEGABYTES = 30.0, 1000
"""More than any case may take; `make torture` asks for 5 seconds."""

WORDS = {
    "replacements that grow tenfold each": "no longer than what it replaces",
    "a repeated group behind a backslash": "of one character or class",
    "letters that may all be left out": "of one character or class",
    "an expression beside what a template has": "of one character or class",
    "a component that leaves its type to be guessed": "as the library writes it",
    "replacements of nothing": "of one character or class",
    "replacements of an empty text": "expected a pattern",
    "bytes made characters again and again": "make at most 200 characters of one",
    "letters that fall apart and are put together again": "make at most 200 characters of one",
    "a text that is put before each stretch": "make at most 200 characters of one",
    "a template with the text five times": "expected a text once in its place",
    "a score beyond all numbers": "expected scores up to 1e+06",
    "a million characters of added tokens": "at most 131072 characters, found",
    "a special token that is none": "expected mask_token of tokenizer_config.json in the vocabulary",
    "half a character for a special token": r"in the vocabulary, found '\udc80'",
    "a word of a thousand million characters": "max_input_chars_per_word up to 200",
    "a prefix of a megabyte": "texts of at most 128 characters",
    "a piece of a thousand characters": "pieces of at most 128 characters",
    "a key twice": "the key 'normalizer' twice",
    "folders in folders": "at most 8 folders in each other",
    "a score of four hundred digits": "scores.x: expected float",
    "an empty character map": "whole precompiled character map",
    "an id of four thousand million": "expected ids from 0",
    "no piece for what is unknown": "expected unk_id",
    "three thousand tokens around a text": "at most 8 tokens around",
    "components of no library": "components of the library",
    "weights of a type that numpy lacks": "found BF16",
    "weights too large for what is computed in": "found F64",
    "no rank": "ranks of 1 or more",
    "a bias too long": "down bias [17]",
    "a pipe for a tokenizer": "expected a plain file",
    "a pipe for special tokens": "expected a plain file",
    "eight gigabytes of holes": "pad.txt: expected the files of",
    "code on the card": "evil.py: expected safetensors and JSON only",
    "a header that claims a terabyte": "expected a whole safetensors file",
    "a header of a terabyte": "header of at most 16 MB",
    "a terabyte of holes": "expected at most",
    "an expression that backtracks": "of one character or class",
    "half a million added tokens": "at most 33554432 bytes",
    "ten million added tokens": "at most 10000 tokens",
    "added tokens in another file": "found another file; delete it",
    "a million brackets": "expected readable JSON",
    "a pickle": "a format that can run code",
    "a weight that is no number": "found NaN or infinity",
    "a scaling that is no number": "for lora_alpha in adapter_config.json, found nan",
    "a list for a configuration": "expected an AdapterHub configuration",
    "a link": "README.md: expected a plain file",
    "a link to a device": "adapter_config.json not found",
    "a link for a language's folder": "found a link",
    "a link for a card": "found a link",
    "a bottleneck that narrows": "expected one bottleneck and hidden size 32 throughout",
    "a column for all of a bottleneck": "up weight [32, 1]",
    "a vector for a matrix": "up weight [32]",
    "a matrix in three dimensions": "up weight [32, 16, 1]",
    "a layer of five thousand digits": "adapter_down and adapter_up once, found 'encoder.layer.9999",
    "a column for all of a rank": "expected rank 4",
    "embeddings in three dimensions": "(tokenizer's pieces, hidden size), found [",
    "integers without scales": "expected 'embeddings' in I8 with 'scales', found embeddings",
    "a scale for all integers": "expected scales of shape [",
    "a scale that is no number": "scales: expected numbers, found NaN or infinity",
    "a scale without end": "scales: expected numbers, found NaN or infinity",
    "a scale below zero": "expected scales of 0 or more, found -1",
    "a scale beyond all training": "expected weights from 0 to 7.87402, found 3e+38",
    "a tensor beside integers and scales": "with 'scales', found embeddings, junk, scales",
    "a tensor of no module": "expected at most",
    "a tensor of no parallel adapter": "expected at most",
    "a tensor of a layer that no base has": "expected at most",
    "numbers whose product is none": "expected weights from -10 to 10, found 1e+38",
    "embeddings whose square is none": "expected weights from -1000 to 1000, found 3e+38",
    "a scaling beyond all training": "up to 1000 for scaling in adapter_config.json, found 1000000.0",
    "another language": "found those of 'az'",
    "a path for a language": "found those of '../az'",
    "another base": "expected the base",
    "no width": "hidden_size: expected 1 to",
    "a width that is no base's": "hidden_size: expected 1 to",
    "another pooling": "pooling: expected mean, cls, max",
    "a prompt of megabytes": "prompt: expected at most 1000",
    "no length": "max_length: expected 1 or more",
    "another format": "expected format_version 1, found 99",
    "code for a value": "expected TOML, found a syntax error",
    "code in a string": "expected letters, digits",
    "a number of a million digits": "found a syntax error: Exceeds the limit",
    "a hundred thousand brackets": "maximum recursion depth",
    "a circle of includes": "include goes in a circle",
    "a device for an include": "found '/dev/zero'",
    "NUL": "expected TOML, found a syntax error",
    "many keys": "k19'; and more",
    "many files that are none": "files.k19: expected dict, found 1; and more",
    "a key of megabytes": "unknown key 'langlang",
    "a base with a long name": "base_id: expected at most",
}
"""Case, of the files or of those below → what its refusal says."""

MANY_KEYS = {f"k{i}": 1 for i in range(1_000_000)}

CARDS: dict[str, dict[str, object]] = {
    "another language": {"lang": "az"},
    "a path for a language": {"lang": "../az"},
    "another base": {"base_fingerprint": "0" * 64},
    "a score of four hundred digits": {"scores": {"x": 10**400}},
}

LARGE_CARDS: dict[str, dict[str, object]] = {
    "many keys": MANY_KEYS,
    "many files that are none": {"files": MANY_KEYS},
    "a key of megabytes": {"lang" * 3_000_000: 1},
}
"""Cards that are refused before anything else is read."""

HUBS: dict[str, dict[str, object]] = {
    "no width": {"hidden_size": 0},
    "a width that is no base's": {"hidden_size": 1 << 40},
    "another pooling": {"pooling": "__import__('os')"},
    "a prompt of megabytes": {"prompt": "a" * 5_000_000},
    "no length": {"max_length": 0},
    "another format": {"format_version": 99},
    "many keys": MANY_KEYS,
    "a key of megabytes": {"lang" * 3_000_000: 1},
    "a base with a long name": {"base_id": "/models/" + "a" * 300},
}

RECIPES = {
    "code for a value": 'name = __import__("os").system("touch ran")',
    "code in a string": 'name = "{__import__(\'os\')}"\npivot = "${oops}"',
    "a number of a million digits": "name = " + "9" * 1_000_000,
    "a hundred thousand brackets": "name = " + "[" * 100_000,
    "a circle of includes": 'include = "recipe.toml"',
    "a device for an include": 'include = "/dev/zero"',
    "NUL": "name = \0",
}


def hubs_and_recipes(folder: Path) -> Outcome:
    """Each case once: a clear error within :data:`SECONDS` and :data:`MEGABYTES`."""
    outcome = Outcome("hostile hubs and recipes")
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    encoder = ModularEncoder(hub.path)
    whole = folder / "whole"
    shutil.copytree(hub.path, whole)

    def restored() -> Path:
        encoder.unload("kk")
        shutil.rmtree(hub.path)
        shutil.copytree(whole, hub.path)
        return hub.path / "kk"

    for name, damage in FILES.items():
        root = restored()
        damage(root)
        tiny_languages.update_card(root)
        outcome.add(_refused(name, lambda: encoder.load("kk"), WORDS[name]))
        other = Hub.create(folder / "other", hub.info)
        outcome.add(_refused(f"{name}, installed", lambda r=root, o=other: o.install(r), WORDS[name]))
    for name, changes in CARDS.items():
        tiny_languages.update_card(restored(), **changes)
        outcome.add(_refused(name, lambda: encoder.load("kk"), WORDS[name]))
    for name in ("../../../etc/passwd", "/etc/passwd", "../az/card.json"):
        root = restored()
        files = json.loads((root / "card.json").read_text())["files"]
        tiny_languages.update_card(root, files={**files, name: {"sha256": "0" * 64, "bytes": 1}})
        words = f"{name}: expected by the card, not found"
        outcome.add(_refused(f"{name} on the card", lambda: encoder.load("kk"), words))
    for name, changes in HUBS.items():
        restored()
        file = hub.path / "hub.json"
        tiny_languages.edit_json(file, **changes)
        outcome.add(_refused(name, lambda: Hub.open(hub.path), WORDS[name]))
    card = restored() / "card.json"
    brackets = "expected readable JSON"
    outcome.add(_refused("a card of brackets", lambda: Card.from_json("[" * 1_000_000), brackets))
    content = json.loads(card.read_text())
    for name, changes in LARGE_CARDS.items():
        text = json.dumps({**content, **changes})
        outcome.add(_refused(f"{name} of a card", lambda t=text: Card.from_json(t), WORDS[name]))
    recipe = folder / "recipe.toml"
    for name, text in RECIPES.items():
        recipe.write_text(text)
        outcome.add(_refused(name, lambda: load_recipe(recipe), WORDS[name]))
    if Path("ran").exists():
        outcome.lost.append("code of a hub or a recipe was run")
    return outcome


def _refused(name: str, act: Callable[[], object], words: str) -> str | None:
    before, started = peak_from_now_on(), time.process_time()
    try:
        act()
    except ModencError as error:
        if words not in str(error):
            return f"{name}: refused for another reason: {error}"
        seconds, megabytes = time.process_time() - started, peak() - before
        if seconds > SECONDS or megabytes > MEGABYTES:
            return f"{name}: {seconds:.1f} s, {megabytes:.0f} MB"
        return None
    except Exception as error:  # the promise is that no other comes
        return f"{name}: {error!r:.200}"
    return f"{name}: accepted"
