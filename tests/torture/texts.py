"""Random hostile input for everything that reads what others wrote: no crash, no hang, no NaN."""

from __future__ import annotations

import gzip
import io
import json
import random
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiny_languages
import tiny_models
from outcome import Outcome
from tiny_recipe import save_tiny_recipe

from modenc import ModularEncoder
from modenc.data.files import read_file
from modenc.errors import ModencError
from modenc.hub.card import Card
from modenc.recipe.loader import load_recipe

SECONDS = 20.0
"""More than any input may take; `make torture` asks for 1."""
_MARKS = [chr(code) for code in range(0x300, 0x370)]
_BIDI = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C)]
_INVISIBLE = [
    chr(code) for code in (0x00, 0x07, 0x1B, 0x7F, 0xAD, 0x200B, 0x200D, 0x2028, 0xFEFF, 0xFFFE, 0xFFFD)
]
_ODD = [
    *("\ud800", "\udfff", "İ", "ﬃ", "﷽", "👩\u200d👩\u200d👧\u200d👦", "𝕳𝖊𝖑𝖑𝖔", "᚛ᚅ᚜", "\u0378"),
    *("<pad>", "<s>", "</s>", "<mask>", "[SEP]", "query: ", "%s", "{}", "\\x00", "' OR 1=1"),
]


def hostile_text(rng: random.Random) -> str:
    """A text as the worst of the web has it."""
    kind = rng.randrange(8)
    length = rng.choice((0, 1, 2, 5, 20, 80, 300))
    if kind == 0:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(length))
    if kind == 1:  # zalgo
        return "".join(
            rng.choice("helo wrd") + "".join(rng.choices(_MARKS, k=rng.randrange(30)))
            for _ in range(length // 4)
        )
    if kind == 2:
        return "".join(rng.choice((*_BIDI, *_INVISIBLE, "א", "ب", "a", " ")) for _ in range(length))
    if kind == 3:  # words of scripts mixed
        starts = (
            0x41,
            0x400,
            0x530,
            0x5D0,
            0x627,
            0x905,
            0xE01,
            0x10A0,
            0x1200,
            0x3042,
            0x4E00,
            0xAC00,
            0x1F600,
        )
        return "".join(chr(rng.choice(starts) + rng.randrange(40)) for _ in range(length))
    if kind == 4:
        return rng.choice(_ODD) * rng.randrange(1, 40)
    if kind == 5:  # one character for long
        return chr(rng.choice((0x20, 0x41, 0x301, 0x4E00, 0x200D, 0x0A, rng.randrange(0x110000)))) * (
            length * 3
        )
    if kind == 6:
        return unicodedata.normalize(rng.choice(("NFC", "NFD", "NFKD")), hostile_text(rng))
    return rng.choice(tiny_models.sentences("kk")) + rng.choice(_ODD) + hostile_text(rng)


def encoding(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """Identify, tokenise and encode: unit rows of numbers, alone and in any company, in bounded time."""
    outcome = Outcome("hostile texts: identify, tokenise, encode")
    rng = random.Random(seed)
    hub = tiny_models.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    encoder = ModularEncoder(hub.path)
    size = 500
    marks = ["́" * 1_000_000, "​" * 1_000_000, "a" * 1_000_000]
    for start in range(0, tries, size):
        texts = [hostile_text(rng) for _ in range(min(size, tries - start))]
        texts[: len(marks)] = marks if start == 0 else texts[: len(marks)]
        lang = rng.choice((None, "kk", [rng.choice((None, "en", "az", "kk", "de")) for _ in texts]))
        before = time.monotonic()
        fault = None
        try:
            vectors = encoder.encode(
                texts, lang=lang, normalize_embeddings=True, batch_size=rng.choice((1, 32, 500))
            )
            seconds = time.monotonic() - before
            if vectors.shape != (len(texts), tiny_models.HIDDEN) or not np.isfinite(vectors).all():
                fault = f"batch {start}: a vector is not one of numbers"
            elif np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 1e-4:
                fault = f"batch {start}: a vector is not of unit length"
            elif seconds > 20 + SECONDS:
                fault = f"batch {start}: {seconds:.1f} s"
        except Exception as error:  # the promise is that none comes
            fault = f"batch {start}: {error!r:.200}"
        for _ in texts:
            outcome.add(fault)
            fault = None
    return outcome


def readers(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """Files of rows, cut, mixed up and with bytes changed: rows or a clear error."""
    outcome = Outcome("damaged files for the data readers")
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    whole = dict(_sound_files())
    names = list(whole)
    for _ in range(tries):
        name = rng.choice(names)
        path = folder / name
        path.write_bytes(_mutated(rng, whole[name]))
        outcome.add(_fault(lambda p=path: sum(1 for _ in read_file(p)), name))
    return outcome


def documents(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """Cards and recipes with bytes changed: read, or a clear error."""
    outcome = Outcome("damaged cards and recipes")
    rng = random.Random(seed)
    card = tiny_languages.make_card("kk").to_json().encode()
    path = save_tiny_recipe(folder / "recipe", folder / "base")
    recipe = path.read_bytes()
    for turn in range(tries):
        if turn % 10:
            text = _mutated(rng, card).decode("utf-8", "replace")
            outcome.add(_fault(lambda t=text: Card.from_json(t), "card"))
        else:
            path.write_bytes(_mutated(rng, recipe))
            outcome.add(_fault(lambda: load_recipe(path), "recipe"))
    return outcome


def _fault(act: Callable[[], object], name: str) -> str | None:
    before = time.monotonic()
    try:
        act()
    except ModencError:
        pass
    except Exception as error:  # the promise is that no other comes
        return f"{name}: {error!r:.200}"
    seconds = time.monotonic() - before
    return f"{name}: {seconds:.1f} s" if seconds > SECONDS else None


def _mutated(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        place = rng.randrange(len(changed) + 1)
        how = rng.randrange(6)
        if how == 0:
            changed[place : place + 1] = rng.randbytes(1)
        elif how == 1:
            changed[place:place] = hostile_text(rng).encode("utf-8", "surrogatepass")
        elif how == 2:
            del changed[place : place + rng.randrange(40)]
        elif how == 3:
            changed[place:place] = rng.choice(
                (b'"', b"\t", b"\n", b"[", b"{", b"]]", b"\\", b"9" * 400, b"\xff", b"=")
            )
        elif how == 4:
            other = rng.randrange(len(changed) + 1)
            changed[place:place] = changed[other : other + rng.randrange(200)]
        else:
            del changed[place:]
    return bytes(changed)


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
