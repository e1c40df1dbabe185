"""``make bench``: time and memory against what a user would pick instead, as ratios in one run.

Each section stores its figures in benchmarks/performance/SECTION.json; PERFORMANCE.md is written from those.
A ratio is the median over pairs of runs, ours and the peer's in turn, with the quartiles of the pairs.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import performance_processes
import service
import torch
from measure import Row, median, paired, ratio, seconds_of, slowdown, where
from peers import HUB, PROMPT, against_peft, gflop_of, stock, synthetic, texts_of
from sentence_transformers import SentenceTransformer

from modenc import ModularEncoder
from modenc.composition.bert import has_bf16
from modenc.data.formats import read_file
from modenc.evaluation.sts import spearman
from modenc.hub.store import Hub

HERE = Path(__file__).resolve().parent
STORED = HERE / "performance"
REPORT = HERE / "PERFORMANCE.md"
LIMITED = {"avx2": ("one_language", "one_thread", "mixed", "requests")}
"""Limits to older instructions, and the sections that are measured under each."""
BF16 = has_bf16(torch.device("cpu"))
FLOATS = ("fp32", "bf16") if BF16 else ("fp32",)


def main() -> None:
    """Run the sections asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with mono/ and eval/")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--isa", choices=list(LIMITED), default=None, help="limit the processor to these")
    args = parser.parse_args()
    # The libraries read the limit as they are loaded, which they are by now.
    if args.isa and os.environ.get("ONEDNN_MAX_CPU_ISA") != args.isa.upper():
        raise SystemExit(f"--isa {args.isa}: run `make bench ISA={args.isa} DATA=DIR`, which sets the limits")
    folder = STORED / args.isa if args.isa else STORED
    for name in args.only or (LIMITED[args.isa] if args.isa else SECTIONS):
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        rows = SECTIONS[name](args.data, args.pairs)
        folder.mkdir(exist_ok=True)
        content = {"rows": rows, "where": where(), "pairs": args.pairs}
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    described = {name: inspect.getdoc(section) or "" for name, section in SECTIONS.items()}
    REPORT.write_text(report(described))
    print(f"written: {REPORT}")


def one_language(data: Path, pairs: int) -> list[Row]:
    """Kazakh sentences through the language's modules, against the base in sentence-transformers."""
    # Fewer where they take longer.
    texts, prompted = texts_of(data, "kk", 2000)[:: 1 if BF16 else 8], {"prompt": PROMPT}
    ours = {compute: ModularEncoder(HUB, compute=compute) for compute in FLOATS}
    peers: dict[str, SentenceTransformer] = {"sentence-transformers fp32": stock()}
    if BF16:
        peers["sentence-transformers bf16"] = stock(model_kwargs={"dtype": torch.bfloat16})
    gflop = gflop_of(texts)
    scores = {name: _similarity(data, model, **prompted) for name, model in peers.items()}
    own = {name: _similarity(data, model, lang="kk") for name, model in ours.items()}
    rows = []
    for compute, encoder in ours.items():
        for name, peer in peers.items():
            seconds = paired(
                lambda encoder=encoder: encoder.encode(texts, lang="kk"),
                lambda peer=peer: peer.encode(texts, **prompted),
                pairs,
            )
            row = ratio(f"modenc {compute} against {name}", *seconds, len(texts), gflop)
            row["Spearman"] = f"{own[compute]:.2f} (fp32 {own['fp32']:.2f}); peer {scores[name]:.2f}"
            rows.append(row)
    return rows


def one_thread(data: Path, pairs: int) -> list[Row]:
    """Kazakh sentences with one thread, against the base in sentence-transformers in float32."""
    threads, texts = torch.get_num_threads(), texts_of(data, "kk", 2000)[::8]
    torch.set_num_threads(1)
    try:
        peer, rows, gflop = stock(), [], gflop_of(texts)
        for compute in FLOATS:
            encoder = ModularEncoder(HUB, compute=compute)
            seconds = paired(
                lambda encoder=encoder: encoder.encode(texts, lang="kk"),
                lambda: peer.encode(texts, prompt=PROMPT),
                pairs,
            )
            rows.append(ratio(f"modenc {compute}", *seconds, len(texts), gflop))
    finally:
        torch.set_num_threads(threads)
    return rows


def mixed(data: Path, pairs: int) -> list[Row]:
    """Measure 64 texts in several languages in one call, against one language, loops and peft."""
    rows = []
    texts = texts_of(data, "kk", 400)[::6][:64]
    with tempfile.TemporaryDirectory() as folder:
        many = synthetic(Path(folder) / "hub", 24)
        for hub, count in ((Hub.open(HUB), 6), (many, 23)):
            codes = [code for code in hub.languages() if code != "kk" or count == 6][:count]
            langs = [codes[row % count] for row in range(len(texts))]
            for compute in FLOATS:
                encoder = ModularEncoder(hub.path, compute=compute)
                for _ in range(4):
                    encoder.encode(texts, lang="kk")  # merged from now on
                seconds = paired(
                    lambda e=encoder, c=langs: e.encode(texts, lang=c),
                    lambda e=encoder: e.encode(texts, lang="kk"),
                    2 * pairs,
                )
                kind = "shipped" if count == 6 else "synthetic"
                rows.append(
                    slowdown(f"64 texts of {count} {kind} languages to 64 of one, {compute}", *seconds)
                )
                for each in (1, 3):
                    some = [(code, texts[row * each : (row + 1) * each]) for row, code in enumerate(codes)]
                    some = [(code, batch) for code, batch in some if batch]
                    flat = [text for _, batch in some for text in batch]
                    own = [code for code, batch in some for _ in batch]
                    seconds = paired(
                        lambda e=encoder, t=flat, c=own: e.encode(t, lang=c),
                        lambda e=encoder, s=some: [e.encode(batch, lang=code) for code, batch in s],
                        2 * pairs,
                    )
                    name = f"{len(own)} texts, {each} a language, to a loop over {len(some)} languages"
                    rows.append(ratio(f"{name}, {compute}", *seconds, len(own), gflop_of(flat)))
        rows.append(against_peft(many, texts, pairs))
    return rows


def requests(data: Path, pairs: int) -> list[Row]:
    """Measure requests of 1 to 32 Kazakh texts of many lengths to a new process; MB: growth of its memory."""
    rows = []
    for compute in FLOATS:
        runs = [
            [_in_process(f"{who}_{compute}", data) for who in ("service", "service_peer")]
            for _ in range(pairs)
        ]
        own, other = zip(*runs, strict=True)
        name = f"{service.REQUESTS - 1} requests, modenc {compute} against sentence-transformers {compute}"
        seconds = [[run["seconds"] for run in side] for side in (own, other)]
        row = ratio(name, *seconds, own[0]["texts"], own[0]["gflop"])
        row |= {"ours MB": median(run["MB"] for run in own), "peer MB": median(run["MB"] for run in other)}
        rows.append(row)
    return rows


def hub_of_200(data: Path, pairs: int) -> list[Row]:
    """Opening a hub of 200 languages, the first vector of a new one, and memory of 23."""
    text = texts_of(data, "kk", 10)[0]
    with tempfile.TemporaryDirectory() as folder:
        hub = synthetic(Path(folder) / "hub", 200)
        opened = [_in_process("open_hub", hub.path) for _ in range(pairs)]
        encoder = ModularEncoder(hub.path)
        encoder.encode(text, lang="base")
        first = []
        for code in hub.languages()[1:31]:
            first.append(seconds_of(lambda code=code: encoder.encode(text, lang=code)))
        resident = _in_process("resident", hub.path)
        full = _in_process("full_model", hub.path)
    share = 100 * resident["MB"] / (23 * full["MB"])
    return [
        {
            "what": "a hub of 200 languages opens (encoder ready, nothing loaded)",
            "seconds": median(run["seconds"] for run in opened),
            "MB": median(run["MB"] for run in opened),
        },
        {"what": "first vector of a new language, median of 30", "seconds": median(first)},
        {"what": "the slowest of them", "seconds": max(first)},
        {"what": "process with 23 languages in memory", "MB": resident["MB"]},
        {"what": "the same in % of 23 full models", "share %": share},
    ]


def report(sections: Mapping[str, str]) -> str:
    """Make the page from the stored measurements of sections (name → what it measures), in this order."""
    parts = [
        "# Performance\n",
        "Made by `make bench DATA=...`. A ratio is the median over pairs of runs in one process, ours and",
        "the peer's in turn; the quartiles are in brackets. Above 1 ours is better, unless the row says",
        'otherwise. "of peak" is the number of operations per second in the base\'s linear layers, as a',
        "share of the fastest float32 product of a large matrix in the same run.",
        "",
        '"Limited to AVX2" is the same newer processor, whose libraries use nothing newer',
        "(`make bench ISA=avx2`). It stands in for a processor without newer instructions.",
    ]
    for name, doc in sections.items():
        for path in (STORED / f"{name}.json", *sorted(STORED.glob(f"*/{name}.json"))):
            if not path.is_file():
                continue
            limit = "" if path.parent == STORED else f", limited to {path.parent.name.upper()}"
            stored = json.loads(path.read_text())
            title = f"## {name.replace('_', ' ').capitalize()}{limit}"
            parts += ["", title, "", doc, "", _table(stored["rows"]), ""]
            parts.append("; ".join(f"{key} {value}" for key, value in stored["where"].items()))
    return "\n".join([*parts, "", (HERE / "performance_findings.md").read_text().rstrip()]) + "\n"


def _table(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "spread"))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = [_cell(row.get(key)) for key in columns]
        if "spread" in row:
            low, high = row["spread"]
            cells[columns.index("ratio")] += f" [{low:.2f}, {high:.2f}]"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.2f}"


def _similarity(data: Path, model: SentenceTransformer, **options: Any) -> float:
    """Spearman * 100 on the Kazakh test set."""
    rows = list(read_file(data / "eval" / "sts" / "kardes_test.kk.tsv"))
    left, right = (
        model.encode([row[side] for row in rows], normalize_embeddings=True, **options)
        for side in ("sentence1", "sentence2")
    )
    return spearman(left, right, [float(row["score"]) for row in rows])


def _in_process(name: str, path: Path) -> Row:
    """Run a function of ``performance_processes`` in a process of its own."""
    command = [sys.executable, performance_processes.__file__, name, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row: Row = json.loads(output.splitlines()[-1])
    return row


SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "one_language": one_language,
    "one_thread": one_thread,
    "mixed": mixed,
    "requests": requests,
    "hub_of_200": hub_of_200,
}

if __name__ == "__main__":
    main()
