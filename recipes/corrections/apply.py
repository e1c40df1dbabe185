"""Replace words that a translator gets wrong again and again, once, by a table of `word` and `replacement`.

python recipes/corrections/apply.py az recipes/corrections/az.tsv IN.tsv.gz OUT.tsv.gz sentence1 sentence2
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import regex

from modenc.data.formats import read_file, text_in_column
from modenc.data.text import one_line

# Letters, with apostrophes inside: "Tom'un", "qal’a".
WORD = regex.compile(r"[\p{L}\p{M}]+(?:['’‘][\p{L}\p{M}]+)*")
# Their two letters i and ı have the capitals İ and I.
DOTTED_AND_DOTLESS_I = ("az", "crh", "gag", "tr")


def correct(text: str, table: Mapping[str, str], lang: str) -> str:
    """Replace whole words of a text in ``lang``; a capital letter at the start of a word stays one."""
    two_letters_i = lang in DOTTED_AND_DOTLESS_I

    def replacement(match: regex.Match[str]) -> str:
        word = str(match.group())
        found = table.get(lower(word.replace("I", "ı"))) if two_letters_i else None
        if found is None:  # the dot of a capital İ is often left out
            found = table.get(lower(word))
        if found is None:
            return word
        if not word[0].isupper():
            return found
        return ("İ" if two_letters_i and found[:1] == "i" else found[:1].upper()) + found[1:]

    return str(WORD.sub(replacement, text))


def lower(word: str) -> str:
    """Write a word in lower case; Python alone makes two characters of İ."""
    return word.replace("İ", "i").lower()


def main(arguments: Sequence[str] | None = None) -> None:
    """Correct the named columns of a table, and copy the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lang", help="code of the language, whose capital letters are kept")
    for name in ("table", "input", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("columns", nargs="+")
    args = parser.parse_args(arguments)
    table = {row["word"]: row["replacement"] for row in read_file(args.table)}
    # All at once, so that a row without a column leaves no half of an output.
    rows = list(read_file(args.input))
    for number, row in enumerate(rows, start=1):
        for column in args.columns:
            row[column] = correct(text_in_column(row, column, args.input, number), table, args.lang)
    if not rows:
        parser.error(f"{args.input}: expected rows, found none")
    lines = ("\t".join(map(one_line, fields)) + "\n" for fields in (rows[0], *(row.values() for row in rows)))
    content = "".join(lines).encode()
    # Without the time, so that equal rows give equal bytes.
    args.output.write_bytes(gzip.compress(content, mtime=0) if args.output.suffix == ".gz" else content)


if __name__ == "__main__":
    main()
