"""One target under atheris, which steers its inputs to branches not yet reached; run as a program.

Arguments: target, folder to work in, number of inputs, seconds of the processor that an input may take, seed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import atheris

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # tiny models and recipes

with atheris.instrument_imports(include=["modenc"], enable_loader_override=False):
    import fuzz_targets

_MEGABYTES = 4096
_LONGEST = 4096
# Seconds, also of waiting.
_HANGS = 60


def main() -> None:
    """Never returns: libFuzzer ends the process, with 0 where nothing was found."""
    name, place, count, most, seed = sys.argv[1:]
    folder = Path(place)
    call, sound = fuzz_targets.TARGETS[name](folder)

    def bounded(data: bytes) -> None:
        before = time.process_time()
        call(data)
        seconds = time.process_time() - before
        assert seconds <= float(most), f"{seconds:.1f} s"

    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(sound):
        (corpus / f"sound{number}").write_bytes(data)
    options = {
        "runs": count,
        "timeout": _HANGS,
        "rss_limit_mb": _MEGABYTES,
        "max_len": max(_LONGEST, *map(len, sound), 2 * min(map(len, sound))),
        "seed": int(seed) + 1,  # 0 means any
        "print_final_stats": 1,
        "artifact_prefix": f"{folder}/",
    }
    words = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *words, str(corpus)], bounded)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
