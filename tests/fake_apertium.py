#!/usr/bin/env python3
"""Stands in for the program ``apertium``: the same options, and words that go wrong.

A sentence comes back with each word in capitals, but for these: ``crash`` ends the program, as if one of its
pipeline crashed, ``blorf`` is unknown. The mode spa-eng puts a word in front,
which makes it no copy. A log beside the script has a line for each start.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODES = [
    "eng-kaz",
    "eng-tur",
    "eng-hbs_HR",
    "tur-aze",
    "spa-eng",
    "spa-eng_US",
    "bad-bad",
    "eng-kaz-tagger",
]
WORDS = {"blorf": "*blorf", "gen": "#gen", "bil": "@bil"}


def translated(sentence: str) -> str:
    return " ".join(WORDS.get(word, word.upper()) for word in sentence.split(" "))


def main(words: list[str]) -> int:
    folder = words[words.index("-d") + 1] if "-d" in words else None
    if "-l" in words:
        modes = MODES if folder is None else [path.stem for path in Path(folder, "modes").iterdir()]
        print("\n".join(f"  {mode}" for mode in modes))
        return 0
    with (HERE / "starts.log").open("a") as log:
        log.write(" ".join(words) + "\n")
    if words[-1] == "bad-bad":
        sys.stderr.write("lt-proc: Error: Cannot open bad.bin\n")
        return 1
    front = "ZU " if words[-1] == "spa-eng" else ""
    for sentence in sys.stdin.read().split("\n\n")[:-1]:
        if "crash" in sentence:
            break
        sys.stdout.write(f"{front}{translated(sentence)}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
