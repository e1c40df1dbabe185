"""Hostile texts and bytes, and what identifying, tokenizing and encoding make of them."""

from __future__ import annotations

import random
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tiny_languages
import tiny_models
from memory import peak, peak_from_now_on
from outcomes import Outcome

from modenc import ModularEncoder

SECONDS, MEGABYTES = 20.0, 1000
"""Of the processor, more than any batch may take (`make torture` asks for 1), and of memory, than all."""
_BATCH = 50
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
    length = rng.choice((0, 1, 2, 5, 20, 80, 300)) if rng.random() < 0.995 else 20_000
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
    """Identify, tokenize and encode: unit rows of numbers in any company, in bounded time and memory."""
    outcome = Outcome("hostile texts: identify, tokenize, encode")
    rng = random.Random(seed)
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    encoder = ModularEncoder(hub.path)
    long = ["\u0301" * 1_000_000, "\u200b" * 1_000_000, "a" * 1_000_000]
    before_all = peak_from_now_on()
    batches = [*([text] for text in long), *_batches(rng, tries - len(long))]
    for number, batch in enumerate(batches):
        lang = rng.choice((None, "kk", [rng.choice((None, "en", "az", "kk", "de")) for _ in batch]))
        failure = None
        before = time.process_time()
        try:
            vectors = encoder.encode(
                batch, lang=lang, normalize_embeddings=True, batch_size=rng.choice((1, 8, 50))
            )
        except Exception as error:  # the promise is that none comes
            failure = f"batch {number}: {error!r:.200}"
        else:
            seconds = time.process_time() - before
            if vectors.shape != (len(batch), tiny_models.HIDDEN) or not np.isfinite(vectors).all():
                failure = f"batch {number}: a vector is not one of numbers"
            elif np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 1e-4:
                failure = f"batch {number}: a vector is not of unit length"
            elif seconds > SECONDS:
                failure = f"batch {number}: {seconds:.1f} s"
        for _ in batch:
            outcome.add(failure)
            failure = None
    if (grown := peak() - before_all) > MEGABYTES:
        outcome.lost.append(f"{grown:.0f} MB more in memory")
    return outcome


def _batches(rng: random.Random, count: int) -> Iterator[list[str]]:
    for start in range(0, count, _BATCH):
        yield [hostile_text(rng) for _ in range(min(_BATCH, count - start))]


def mutated(rng: random.Random, content: bytes) -> bytes:
    """``content`` with some bytes changed, put in, doubled, lost or cut off."""
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
