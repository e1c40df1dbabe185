"""Language folders with a byte changed, cut off, or taken from another language: seen before any vector."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import tiny_languages
import tiny_models
from outcomes import Outcome

from modenc import ModularEncoder
from modenc.errors import ModencError


def damaged_files(folder: Path, tries: int, seed: int = 0) -> Outcome:
    """One damage a try in a random file; both loading and ``verify`` have to see it."""
    outcome = Outcome("damaged, truncated and swapped files")
    rng = random.Random(seed)
    hub = tiny_languages.make_hub(folder / "hub", tiny_models.save_tiny_xlmr(folder / "base"))
    whole = folder / "whole"
    shutil.copytree(hub.path, whole)
    encoder = ModularEncoder(hub.path)
    files = sorted(path.relative_to(whole) for path in whole.glob("??/**/*") if path.is_file())
    # A card may be corrected by hand, so that no checksum guards it.
    files = [name for name in files if name.name != "card.json"]
    for _ in range(tries):
        name = rng.choice(files)
        path, lang = hub.path / name, name.parts[0]
        content = path.read_bytes()
        how, damaged = _damage(rng, content, name, whole)
        if damaged == content:
            continue
        path.write_bytes(damaged)
        failure = None
        try:
            encoder.load(lang)
            failure = f"{name}, {how}: loaded"
        except ModencError:
            pass
        except Exception as error:  # the promise is that no other comes
            failure = f"{name}, {how}: {error!r}"
        encoder[0].cache.restart()
        if not hub.verify(lang):
            failure = failure or f"{name}, {how}: verified"
        path.write_bytes(content)
        outcome.add(failure)
    encoder.load(hub.languages())
    return outcome


def _damage(rng: random.Random, content: bytes, name: Path, whole: Path) -> tuple[str, bytes]:
    place = rng.randrange(len(content))
    how = rng.choice(("bit", "byte", "cut", "longer", "zeros", "swapped"))
    if how == "bit":
        changed = bytes([content[place] ^ 1 << rng.randrange(8)])
    elif how == "byte":
        changed = rng.randbytes(1)
    elif how == "zeros":
        changed = bytes(min(512, len(content) - place))
    elif how == "cut":
        return f"cut at {place}", content[:place]
    elif how == "longer":
        return "longer", content + rng.randbytes(8)
    else:
        others = [other for other in whole.glob(f"??/*/{Path(*name.parts[2:])}")]
        return "swapped", rng.choice(others).read_bytes()
    return f"{how} at {place}", content[:place] + changed + content[place + len(changed) :]
